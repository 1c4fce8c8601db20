"""What a page says of an action that was refused."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib import messages
from django.http import HttpRequest


@contextmanager
def told(request: HttpRequest, *errors: type[Exception]) -> Iterator[None]:
    """Go on behind the block where one of these errors ended it, and show what it says above the next page."""
    try:
        yield
    except errors as error:
        messages.error(request, str(error))
