"""How a page, or a form, shows an error that ended an action."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib import messages
from django.forms import BaseForm
from django.http import HttpRequest


@contextmanager
def show_errors(request: HttpRequest, *errors: type[Exception]) -> Iterator[None]:
    """Go on behind the block where one of these errors ended it, and show what it says above the next page."""
    try:
        yield
    except errors as error:
        messages.error(request, str(error))


@contextmanager
def show_errors_in(form: BaseForm, *errors: type[Exception], field: str = "") -> Iterator[None]:
    """Go on behind the block where one of these errors ended it, and show what it says in the form: at `field`, or at the field that
    the error names; above the form where it has no such field."""
    try:
        yield
    except errors as error:
        at = field or getattr(error, "field", "")
        form.add_error(at if at in form.fields else None, str(error))
