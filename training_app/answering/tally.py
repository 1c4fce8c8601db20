"""How many answers a process made and how many it has accounted for, in a small file that outlives its being killed.

What is in memory when a process is killed is lost; the next one to start on the same machine reads here how much that was. The
file is mapped into memory, so counting costs no system call. A living process holds its file's lock, which the system lets go with
the process.
"""

import fcntl
import logging
import mmap
import os
import struct
import uuid
from pathlib import Path

logger = logging.getLogger(__name__)

_COUNTS = struct.Struct("<QQ")


class Tally:
    """`made` answers, of which `settled` are written or were counted as dropped. In memory alone until `keep_in`."""

    def __init__(self) -> None:
        self._counts: bytearray | mmap.mmap = bytearray(_COUNTS.size)
        self._path: Path | None = None
        self._file = -1

    @property
    def made(self) -> int:
        """Answers that this process made."""
        return int(_COUNTS.unpack_from(self._counts)[0])

    @property
    def settled(self) -> int:
        """Those of them whose fate is known."""
        return int(_COUNTS.unpack_from(self._counts)[1])

    def add(self, made: int = 0, settled: int = 0) -> None:
        """Count more of them; one thread at a time."""
        before = _COUNTS.unpack_from(self._counts)
        _COUNTS.pack_into(self._counts, 0, before[0] + made, before[1] + settled)

    def keep_in(self, folder: Path) -> None:
        """Go on in a file of that folder; where none can be written the counts stay in memory."""
        path = folder / f"{uuid.uuid4().hex}.tally"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)
            os.ftruncate(self._file, _COUNTS.size)
            counts = mmap.mmap(self._file, _COUNTS.size)
        except OSError as error:
            logger.info("What is lost if this process is killed will not be counted: %s", error)
            return
        counts[:] = bytes(self._counts)
        self._counts, self._path = counts, path

    def end(self) -> None:
        """The process ends in order: nothing is left to be counted by the next."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None
            os.close(self._file)
            self._counts = bytearray(bytes(self._counts))


def lost_in(folder: Path) -> int:
    """How many answers processes that are gone left unsettled; their files are removed."""
    lost = 0
    for path in sorted(folder.glob("*.tally")):
        try:
            file = os.open(path, os.O_RDWR)
        except OSError:
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            counts = os.read(file, _COUNTS.size)
            if len(counts) == _COUNTS.size:
                made, settled = _COUNTS.unpack(counts)
                lost += max(made - settled, 0)
                path.unlink(missing_ok=True)
        except BlockingIOError:
            pass  # its process lives
        finally:
            os.close(file)
    return lost
