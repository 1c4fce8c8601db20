"""Log lines without what somebody typed: an error's own words may quote a query, a row or a model's answer.

So of an error only the class, and where it was raised, is written, unless its kind is known to speak of programs and machines alone.
With LOG_TEXT everything is written as it is.
"""

import copy
import logging
import traceback
from functools import lru_cache
from typing import Any

LEFT_OUT = "its words are left out, as they may quote a text (LOG_TEXT=1 writes them)"
#: Classes, with all below them, whose words name files, addresses, functions and types.
ABOUT_PROGRAMS = (
    "builtins.OSError", "builtins.ImportError", "builtins.AttributeError", "builtins.NameError", "builtins.TypeError",
    "builtins.IndexError", "builtins.ArithmeticError", "builtins.MemoryError", "builtins.RecursionError",
    "builtins.UnicodeError", "builtins.NotImplementedError", "httpx.TransportError", "ssl.SSLError",
    "django.core.exceptions.ImproperlyConfigured", "django_q.exceptions.TimeoutException", "builtins.KeyboardInterrupt",
    "builtins.SystemExit", "asyncio.exceptions.CancelledError", "httpx.InvalidURL",
)  # fmt: skip
#: Of these the first line alone: PostgreSQL goes on with the row or the statement that failed.
FIRST_LINE = (
    "django.db.utils.OperationalError", "django.db.utils.InterfaceError", "django.db.utils.IntegrityError",
    "django.db.utils.ProgrammingError", "psycopg.OperationalError", "psycopg.InterfaceError", "psycopg.IntegrityError",
    "psycopg.ProgrammingError", "sqlite3.OperationalError", "sqlite3.IntegrityError",
)  # fmt: skip
#: Our own packages whose errors are sentences about settings, models, runs, keys and addresses.
OURS = (
    "agents_app.", "routerweb.", "training_app.versions.", "training_app.training.",
    "orchestration_app.calls.", "orchestration_app.episodes.",
    "training_app.engine.config", "training_app.engine.train", "training_app.engine.routing.", "training_app.engine.data.artifact",
)  # fmt: skip


class Console(logging.StreamHandler[Any]):
    """Writes to the standard error; `texts` writes what errors say, whatever it is."""

    def __init__(self, texts: bool = False, stream: Any = None) -> None:
        super().__init__(stream)
        self.texts = texts

    def format(self, record: logging.LogRecord) -> str:
        """The line, or lines where something failed."""
        if getattr(record, "status_code", 500) < 500:
            record = without_traceback(record)
        return super().format(record if self.texts else without_texts(record))


def without_traceback(record: logging.LogRecord) -> logging.LogRecord:
    """The record of a refused request: Django raises an exception to refuse one, but nothing failed."""
    shown = copy.copy(record)
    shown.exc_info = shown.exc_text = None
    return shown


def without_texts(record: logging.LogRecord) -> logging.LogRecord:
    """The record as it may be written; the one that was given stays as it is, for whoever else reads it."""
    shown = copy.copy(record)
    if isinstance(shown.args, tuple):
        shown.args = tuple(_told(arg) if isinstance(arg, BaseException) else arg for arg in shown.args)
    if shown.name == "django-q" and shown.levelno >= logging.ERROR:
        # It writes a failed job's traceback into its message, behind the job's name.
        shown.msg, shown.args = shown.getMessage().partition(" - ")[0], ()
    if isinstance(shown.msg, BaseException):
        shown.msg = _told(shown.msg)
    if shown.exc_info:
        shown.exc_text = traced(shown.exc_info[1])
        shown.exc_info = None
    return shown


def traced(error: BaseException | None) -> str:
    """Where an error was raised, and those that led to it, each by its class."""
    parts: list[str] = []
    logged: set[int] = set()
    while error is not None and id(error) not in logged:
        logged.add(id(error))
        frames = "".join(traceback.format_tb(error.__traceback__))
        parts.append(f"Traceback (most recent call last):\n{frames}{_told(error, True)}")
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return "\n\nand then:\n\n".join(reversed(parts))


def _told(error: BaseException, named: bool = False) -> str:
    """What may be written of an error; `named` has its class before its words."""
    kind, name = _kind(type(error)), type(error).__qualname__  # type: ignore[arg-type]
    if kind == "nothing":
        return f"{name} ({LEFT_OUT})"
    words = str(error) if kind == "all" else str(error).partition("\n")[0]
    return f"{name}: {words}" if named else words


@lru_cache(maxsize=512)
def _kind(kind: type[BaseException]) -> str:
    """How much of what errors of a class say may be written."""
    if kind.__module__.startswith(OURS):
        return "all"
    names = [f"{class_.__module__}.{class_.__qualname__}" for class_ in kind.__mro__]
    if "django.db.utils.DataError" in names or "psycopg.DataError" in names:
        return "nothing"
    if any(name in FIRST_LINE or name.replace("psycopg.errors.", "psycopg.") in FIRST_LINE for name in names):
        return "first line"
    return "all" if any(name in ABOUT_PROGRAMS for name in names) else "nothing"
