"""The command line: `manage.py` of a checkout, and the command `routerweb` of an installed wheel."""

import os
import sys
from collections.abc import Sequence

#: How PostgreSQL's client begins where there is no connection, in psycopg's words and in libpq's.
UNREACHED = ("connection failed", "connection is bad", "connection timeout", "failed to resolve host")


def what_to_say(error: Exception) -> str:
    """The line that stands in place of a traceback, "" where an error is the program's own."""
    from django.core.exceptions import ImproperlyConfigured
    from django.db import OperationalError, ProgrammingError

    if isinstance(error, ImproperlyConfigured):
        return str(error)  # it names the setting and says what to do
    if isinstance(error, OperationalError):
        # It is away, locked, full: nothing that a traceback would explain.
        reason = str(error).strip().splitlines()[0]
        if reason == "unable to open database file":
            from django.conf import settings

            return f"The database file {settings.DATABASES['default']['NAME']} cannot be opened: does its folder exist?"
        if reason.startswith(UNREACHED):
            return f"The database cannot be reached: {reason}. Check that it runs, and DATABASE_URL."
        return f"The database does not take this: {reason}"
    if isinstance(error, ProgrammingError) and str(error).startswith("invalid connection option"):
        return f"DATABASE_URL: {str(error).strip()}. Behind its ? stand options of libpq, such as sslmode=require."
    if isinstance(error, OSError) and error.filename is not None:
        return f"{_shown(str(error.filename))}: {error.strerror}"  # a path that somebody named
    if isinstance(error, UnicodeEncodeError) and _shown(error.object) != error.object:
        return f"{_shown(error.object)} is not UTF-8 text."  # a word of the command line
    return ""


def _shown(word: str) -> str:
    """A word as a line may show it. Half a surrogate pair stands for bytes that are no UTF-8."""
    shown = word.encode("utf-8", "backslashreplace").decode()
    return shown if len(shown) <= 200 else f"{shown[:200]}…"


def main(words: Sequence[str], program: str = "manage.py") -> None:
    """Run a command of Django's command line: `words` are the command and its arguments."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
    if words[:1] == ["benchmark"] or _asks_for_help(words):
        # They serve nobody and open no database, so they need no installation with a key of its own.
        os.environ.setdefault("DEBUG", "1")
    from django.core.management import execute_from_command_line
    from django.core.management.base import BaseCommand

    # The checks import every page, form and address to look for the program's own faults, which costs each command a second. The tests
    # and `manage.py check` look for them, and so does Django's server for development.
    if words[:1] != ["runserver"]:
        BaseCommand.requires_system_checks = []
    try:
        execute_from_command_line([program, *words])
    except Exception as error:
        line = what_to_say(error)
        if not line or "--traceback" in words:
            raise
        sys.exit(line)


def _asks_for_help(words: Sequence[str]) -> bool:
    return not words or words[0] == "help" or bool({"--help", "-h"} & set(words))


def installed() -> None:
    """The command `routerweb`: `routerweb demo` starts the product with the demo's pools, `routerweb up` without them, and all other
    words are a command of manage.py. Without a DATABASE_URL the first two set up SQLite in the data folder, as `make run` does."""
    words = sys.argv[1:]
    if words[:1] == ["demo"]:
        words = ["up", "--demo", *words[1:]]
    if words[:1] == ["up"] and not _asks_for_help(words) and not os.environ.get("DATABASE_URL", "").strip():
        _make_data_folder()
        words.append("--migrate")
    main(words, program="routerweb")


def _make_data_folder() -> None:
    """The data folder, with a key of its own unless the environment has one."""
    from routerweb import installation, paths

    if os.environ.get("SECRET_KEY", "").strip() or os.environ.get("DEBUG", "").strip():
        installation.make_folder(paths.DATA_DIR)  # whoever sets them says who may talk to it
    else:
        installation.prepare(paths.DATA_DIR)


if __name__ == "__main__":
    main(sys.argv[1:], program="routerweb")
