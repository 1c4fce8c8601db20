"""Where an installation lies: its own files, its data, and how a further process of it is started.

A checkout has templates, static files and translations beside its packages, and its data in `var`. A wheel has them in this package,
and its data in the user's data folder, as nothing may be written beside installed packages.
"""

import os
import sys
from pathlib import Path

from routerweb import env

PACKAGE = Path(__file__).resolve().parent
#: Whether this is an installed wheel; setup.py puts the templates there.
INSTALLED = (PACKAGE / "templates").is_dir()
#: The folder of `templates`, `static` and `locale`.
BASE_DIR = PACKAGE if INSTALLED else PACKAGE.parent


def user_data() -> Path:
    """The folder of this user's data: by the XDG Base Directory Specification, or where macOS has it."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "routerweb"
    named = os.environ.get("XDG_DATA_HOME", "")
    # The specification has a relative path ignored.
    return (Path(named) if os.path.isabs(named) else Path.home() / ".local" / "share") / "routerweb"


DATA_DIR = Path(env.text("DATA_DIR", str(user_data() if INSTALLED else BASE_DIR / "var")))

#: In the environment of a process of the web server: its own id, so that processes which it starts are none.
WEB_PROCESS = "ROUTERWEB_WEB_PROCESS"
#: Where further processes run: a checkout is found by the folder they start in.
WORKING_DIR = None if INSTALLED else BASE_DIR


def module(name: str) -> list[str]:
    """The arguments of a process that runs a module of ours, started in `WORKING_DIR`."""
    # -P: what lies in the folder in which somebody types `routerweb` must not be imported in the place of a package.
    return [sys.executable, *(["-P"] if INSTALLED else []), "-m", name]


def manage(*words: str) -> list[str]:
    """The arguments of a process that runs a command of manage.py, started in `WORKING_DIR`."""
    if INSTALLED:
        return [*module("routerweb.command_line"), *words]
    return [sys.executable, str(BASE_DIR / "manage.py"), *words]
