#!/usr/bin/env python
"""Django's command line for Routerweb: `python manage.py help` lists the commands."""

import sys

from routerweb.command_line import main

if __name__ == "__main__":
    main(sys.argv[1:])
