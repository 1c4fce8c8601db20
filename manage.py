#!/usr/bin/env python
"""Django's command line for Routerweb: `python manage.py help` lists the commands."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
    if sys.argv[1:2] == ["benchmark"]:
        # It serves nobody and opens no database, so it needs no installation with a key of its own.
        os.environ.setdefault("DEBUG", "1")
    from django.core.management import execute_from_command_line
    from django.db import OperationalError

    try:
        execute_from_command_line(sys.argv)
    except OperationalError as error:
        # It is away, locked, full: nothing that a traceback would explain.
        if "--traceback" in sys.argv:
            raise
        sys.exit(f"The database does not take this: {str(error).strip().splitlines()[0]}")


if __name__ == "__main__":
    main()
