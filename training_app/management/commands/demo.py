"""`manage.py demo`: the demo pool, a trained and active router, a login and a key; what is there already stays."""

import tempfile
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandParser

from agents_app import public_demo
from agents_app.models import Pool
from training_app.installation import DemoPool, demo_pools, make_demo
from training_app.models import Run
from training_app.versions import registry

#: The first router, which is there in seconds: every agent by its own score, no network, no baselines.
QUICK = (
    "recipe=classifier", "classifier=logreg", "encoder=linear", "judging_folds=0", "unlabeled=false", "sentences=false",
    "tidy=false", "folds=3", "baselines=false",
)  # fmt: skip


class Command(BaseCommand):
    help = (
        "Set up the demo pools: queries, trained and active routers, a login and an API key. With --queue a quick router answers "
        "within seconds and workers train the others. Example: python manage.py demo"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--queue", action="store_true", help="train a quick router here, and leave the full ones to the workers"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        loaded = [(pool, self._loaded(pool)) for pool in demo_pools()]
        make_demo([row for _pool, row in loaded])
        if settings.DEMO:
            public_demo.make_visitor()
        if options["queue"]:
            self._train_later(loaded)
            return
        for pool, row in loaded:
            if registry.active(row, pool.kind) is None:
                self.stdout.write(f"Training {pool.name}")
                self._train(pool)

    def _train(self, pool: DemoPool, **more: Any) -> None:
        words = {"set": list(pool.settings), "promote": True, **more}
        call_command("train", pool=pool.slug, kind=pool.kind, stdout=self.stdout, **words)

    def _train_later(self, pools: Sequence[tuple[DemoPool, Pool]]) -> None:
        """A quick router now; the full one and those of the other pools by workers, unless they were asked for already."""
        pool, row = pools[0]
        if registry.active(row) is None:
            self.stdout.write("Training a quick first router")
            self._train(pool, set=list(QUICK))
        for pool, row in pools:
            runs = Run.objects.filter(pool=row, kind=pool.kind)
            if all(run.config.get("recipe") == "classifier" for run in runs):
                self._train(pool, queue=True)

    def _loaded(self, pool: DemoPool) -> Pool:
        """The pool, loaded where it has no run: also after an interrupted start, as loading adds only what is missing."""
        row = Pool.objects.filter(slug=pool.slug).first()
        if row is None or not Run.objects.filter(pool=row).exists():
            self.stdout.write(f"Loading {pool.name}")
            with tempfile.TemporaryDirectory() as folder:
                pool.write(folder)
                call_command("load_pool", folder, slug=pool.slug, name=pool.name, stdout=self.stdout)
        row = Pool.objects.get(slug=pool.slug)
        pool.prepare(row)
        return row
