"""What every command tells and how it ends."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management.base import CommandError


@contextmanager
def refusing(*errors: type[Exception]) -> Iterator[None]:
    """End a command with one line where one of these errors says what is wrong."""
    try:
        yield
    except errors as error:
        raise CommandError(str(error)) from None
