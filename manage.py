#!/usr/bin/env python
"""Django's command line for Routerweb: `python manage.py help` lists the commands."""

import os
import sys


def what_to_say(error: Exception) -> str:
    """The line that stands in place of a traceback, "" where an error is the program's own."""
    from django.core.exceptions import ImproperlyConfigured
    from django.db import OperationalError

    if isinstance(error, ImproperlyConfigured):
        return str(error)  # it names the setting and says what to do
    if isinstance(error, OperationalError):
        # It is away, locked, full: nothing that a traceback would explain.
        return f"The database does not take this: {str(error).strip().splitlines()[0]}"
    if isinstance(error, OSError) and error.filename is not None:
        return f"{_shown(str(error.filename))}: {error.strerror}"  # a path that somebody named
    if isinstance(error, UnicodeEncodeError) and _shown(error.object) != error.object:
        return f"{_shown(error.object)} is not UTF-8 text."  # a word of the command line
    return ""


def _shown(word: str) -> str:
    """A word as a line may show it. Half a surrogate pair stands for bytes that are no UTF-8."""
    shown = word.encode("utf-8", "backslashreplace").decode()
    return shown if len(shown) <= 200 else f"{shown[:200]}…"


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
    asks_for_help = len(sys.argv) < 2 or sys.argv[1] == "help" or {"--help", "-h"} & set(sys.argv[1:])
    if sys.argv[1:2] == ["benchmark"] or asks_for_help:
        # They serve nobody and open no database, so they need no installation with a key of its own.
        os.environ.setdefault("DEBUG", "1")
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except Exception as error:
        line = what_to_say(error)
        if not line or "--traceback" in sys.argv:
            raise
        sys.exit(line)


if __name__ == "__main__":
    main()
