"""What the commands of this package share: finding the pool, a progress bar, and the report of an import."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from agents_app.models import Pool
from datasets_app.models import Dataset, Import

SHOWN_PROBLEMS = 10


def pool_of(slug: str) -> Pool:
    """The pool of that slug; CommandError names those that there are."""
    pool = Pool.objects.filter(slug=slug).first()
    if pool is None:
        slugs = ", ".join(Pool.objects.order_by("slug").values_list("slug", flat=True)[:20])
        present = f"there are: {slugs}" if slugs else "there is none yet; make one with load_pool DIR"
        raise CommandError(f"no pool has the slug {slug!r}; {present}")
    if pool.state != "active":
        raise CommandError(f"the pool {slug} was {pool.state}; somebody of ops can bring it back, on the page Pools")
    return pool


def dataset_named(pool: Pool, name: str) -> Dataset | None:
    """The pool's dataset of that name, in any case; None for no name; CommandError names those that there are."""
    if not name:
        return None
    dataset = pool.datasets.filter(name__iexact=name).first()
    if dataset is None:
        names = ", ".join(pool.datasets.values_list("name", flat=True)[:20]) or "none"
        raise CommandError(f"the pool {pool.slug} has no dataset {name!r}; it has: {names}")
    return dataset


def existing_file(name: str) -> Path:
    """The path of a file that can be read, or CommandError."""
    path = Path(name)
    if not path.is_file():
        raise CommandError(f"{path} is {'a folder, not a file' if path.is_dir() else 'not there'}")
    return path


def bar(total: int, unit: str, **options: Any) -> Any:
    """A progress bar on standard error: only on a terminal, and only for what takes longer than two seconds."""
    return tqdm(total=total or None, unit=unit, disable=None, delay=2, leave=False, file=sys.stderr, **options)


class ImportBar:
    """A progress bar over the bytes of an import's file; call it with the import after every batch."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._upload: int | None = None

    def __call__(self, upload: Import) -> None:
        if self._upload != upload.pk:
            self.close()
            self._upload = upload.pk
            self._bar = bar(upload.bytes_total, "B", unit_scale=True, desc=upload.file_name)
        self._bar.update(upload.bytes_read - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def tell(command: BaseCommand, uploads: Iterable[Import]) -> None:
    """Write what each import did, a line a file, and the first of its problems to standard error."""
    for upload in uploads:
        known = f"{upload.known_changed:,} added to known queries, " if upload.known_changed else ""
        command.stdout.write(
            f"{upload.file_name}: {upload.rows_read:,} rows, {upload.queries_added:,} queries added, "
            f"{upload.labels_added:,} labels added, {known}{upload.unchanged:,} unchanged, {upload.rejected:,} left out"
        )
        for problem in upload.problems.all()[:SHOWN_PROBLEMS]:
            where = f"{upload.file_name}:{problem.line}" + (f", {problem.field}" if problem.field else "")
            command.stderr.write(f"{where}: {problem.reason}" + (f" ({problem.excerpt})" if problem.excerpt else ""))
        more = upload.problems.count() - SHOWN_PROBLEMS
        if more > 0:
            command.stderr.write(f"… and {more:,} more; all of them stand at import {upload.pk} in the browser")
