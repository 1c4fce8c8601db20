"""Places for the children that read files: so many on a machine, whichever of its processes start them.

A place is a locked file in DATA_DIR, so it is free again when its process ends, however that ended. Pages and jobs have places of
their own: nobody waits at a page for a job's long file.
"""

import fcntl
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

log = logging.getLogger(__name__)

#: Children of one machine at a time, for pages and as many for jobs, so that a core is left for pages; a further file waits.
AT_ONCE = max(1, (os.cpu_count() or 2) // 2)
KINDS = ("page", "job")
#: Between two looks for a place that another process has left.
LOOK_SECONDS = 0.02
_own = {kind: threading.BoundedSemaphore(AT_ONCE) for kind in KINDS}


class NoTurn(Exception):
    """No place became free in time."""


@contextmanager
def turn(kind: str, seconds: float) -> Iterator[None]:
    """One of the machine's places of a kind of KINDS, waited for so long. Raises NoTurn."""
    until = time.monotonic() + seconds
    if not _own[kind].acquire(timeout=seconds):
        raise NoTurn
    try:
        place = _place(kind, until)
        try:
            yield
        finally:
            if place is not None:
                os.close(place)
    finally:
        _own[kind].release()


def _place(kind: str, until: float) -> int | None:
    """A locked file, to be closed; None where none can be written, so that only this process's places count. Raises NoTurn."""
    folder = Path(settings.DATA_DIR) / "reading"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        while True:
            for number in range(AT_ONCE):
                place = os.open(folder / f"{socket.gethostname()}-{kind}-{number}", os.O_RDWR | os.O_CREAT, 0o600)
                try:
                    fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return place
                except BlockingIOError:
                    os.close(place)
            if time.monotonic() >= until:
                raise NoTurn
            time.sleep(LOOK_SECONDS)
    except OSError as error:
        log.info("How many files the whole machine reads at once is not bounded: %s", error)
        return None
