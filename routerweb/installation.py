"""`python -m routerweb.installation` makes what an installation on one machine needs before Django can start.

It writes `installation.env` into the data folder, readable by its owner alone, with a secret key of its own; where one stands
already it changes nothing. The settings read that file for whatever the environment leaves unset.
"""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from routerweb.paths import DATA_DIR

FILE = """\
# Made for this installation at its first start. The environment overrides what stands here; docs/settings.md lists every name.
SECRET_KEY={key}
# Plain http, for this machine's own addresses only. Behind a TLS proxy: remove this line and set ALLOWED_HOSTS.
PLAIN_HTTP=1
"""


def make_folder(folder: Path) -> None:
    """Make the data folder, readable by its owner alone. Ends the program with a line where that cannot be."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / "static").mkdir(exist_ok=True)
    except OSError as error:
        raise SystemExit(
            f"The data folder {folder} cannot be made: {error.strerror}. Set DATA_DIR to another."
        ) from None


def prepare(folder: Path) -> Path:
    """Make the data folder and, if there is none, its installation.env; returns that file's path."""
    make_folder(folder)
    path = folder / "installation.env"
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(FILE.format(key=secrets.token_urlsafe(50)))
    return path


def start_migration(folder: Path) -> int:
    """Have this machine's web servers wait before they listen, until every copy of the returned file descriptor is closed. Makes the
    data folder if there is none."""
    make_folder(folder)
    handle = os.open(folder / "migration.lock", os.O_WRONLY | os.O_CREAT, 0o600)
    fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def wait_for_migration(folder: Path, meanwhile: Callable[[], object]) -> None:
    """Return once no `up --migrate` of this data folder is migrating the database; while one is, call `meanwhile` once."""
    with contextlib.suppress(FileNotFoundError), open(folder / "migration.lock", "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            meanwhile()
            fcntl.flock(lock, fcntl.LOCK_SH)


if __name__ == "__main__":
    prepare(DATA_DIR)
