"""How a command ends that is refused or cannot use a file, and the progress bar of one that goes through table after table."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from django.core.management.base import CommandError
from tqdm import tqdm


@contextmanager
def refusing(*errors: type[Exception]) -> Iterator[None]:
    """End a command with one line where one of these errors says what is wrong."""
    try:
        yield
    except errors as error:
        raise CommandError(str(error)) from None


@contextmanager
def at_file(name: object) -> Iterator[None]:
    """End a command with one line where a file cannot be read or written: the one that the error names, or the one of this name."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"{error.filename or name}: {error.strerror or error}") from None


@contextmanager
def by_table() -> Iterator[Callable[[str, int, int], None]]:
    """A function of (table, rows that are through, all of its rows) that draws a bar on a terminal, and nothing anywhere else."""
    with tqdm(total=0, unit="row", disable=None, leave=False, delay=2) as bar:

        def tick(what: str, done: int, total: int) -> None:
            bar.set_description(what, refresh=False)
            bar.total, bar.n = total, done
            bar.refresh()

        yield tick
