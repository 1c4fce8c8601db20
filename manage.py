#!/usr/bin/env python
"""Django's command line for Routerweb: `python manage.py help` lists the commands."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
    asks_for_help = len(sys.argv) < 2 or sys.argv[1] == "help" or {"--help", "-h"} & set(sys.argv[1:])
    if sys.argv[1:2] == ["benchmark"] or asks_for_help:
        # They serve nobody and open no database, so they need no installation with a key of its own.
        os.environ.setdefault("DEBUG", "1")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
    from django.db import OperationalError

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        # It names the setting and says what to do.
        if "--traceback" in sys.argv:
            raise
        sys.exit(str(error))
    except OperationalError as error:
        # It is away, locked, full: nothing that a traceback would explain.
        if "--traceback" in sys.argv:
            raise
        sys.exit(f"The database does not take this: {str(error).strip().splitlines()[0]}")


if __name__ == "__main__":
    main()
