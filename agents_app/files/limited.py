"""Running a function on a file in a child process that has limits.

The child (`child`) is a fresh interpreter: it has the file, a request, and neither this process's memory nor its environment, where
secrets stand. What it sends back is JSON.
"""

import json
import logging
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import IO, Any, BinaryIO, cast

from django.utils.translation import gettext as _

from agents_app.files import turns
from agents_app.files.formats import Unreadable
from routerweb.lifeline import PARENT

log = logging.getLogger(__name__)

ROOT = Path(__file__).resolve().parents[2]
#: What a child may know of this process's environment.
ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "COVERAGE_PROCESS_START")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a child may use: CPU time, memory, how long it may stay silent while somebody waits for it, and whose places it takes.

    `place_seconds` is how long to wait for a place at most, `waiting_seconds` for the place and all that the child sends.
    """

    cpu_seconds: int
    silent_seconds: float
    memory_bytes: int = 500_000_000
    kind: str = "job"
    place_seconds: float = math.inf
    waiting_seconds: float = math.inf


#: While a person waits for a page, and for a job, which may read a large file.
PAGE = Limits(cpu_seconds=8, silent_seconds=10.0, kind="page", place_seconds=6.0, waiting_seconds=10.0)
JOB = Limits(cpu_seconds=600, silent_seconds=120.0)


@dataclass(slots=True)
class Position:
    """How far a child has read, in bytes of the file."""

    bytes_read: int = 0


def run(
    function: Callable[..., Iterator[Any]],
    stream: BinaryIO,
    *arguments: Any,
    limits: Limits = JOB,
    position: Position | None = None,
) -> Iterator[Any]:
    """What `function(file, *arguments)` yields in a child process, as JSON values.

    `function` stands in a module that knows no Django; `arguments` are JSON values; the file is read from its beginning. Raises
    Unreadable with a sentence for people: the function's own, or that the file needs more time or memory than a file may.
    """
    request = {
        "function": f"{function.__module__}:{function.__qualname__}",
        "arguments": arguments,
        "cpu_seconds": limits.cpu_seconds,
        "memory_bytes": limits.memory_bytes,
    }
    position, patience = position or Position(), _Patience(limits)
    with _turn(limits, patience), _as_file(stream) as file:
        child = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-s", "-m", "agents_app.files.child", json.dumps(request)],
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            env={name: os.environ[name] for name in ENVIRONMENT if name in os.environ} | {PARENT: str(os.getpid())},
        )
        assert child.stdout is not None
        try:
            yield from _received(child, child.stdout, patience, position)
        finally:
            child.kill()
            child.stdout.close()
            child.wait()


class _Patience:
    """How long to go on waiting: `at_once` without a sign of life, and what is left of the whole."""

    def __init__(self, limits: Limits) -> None:
        self.at_once, self._left = limits.silent_seconds, limits.waiting_seconds

    def seconds(self) -> float:
        return max(0.0, min(self.at_once, self._left))

    @contextmanager
    def spent(self) -> Iterator[None]:
        """Counts the time that the block takes."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._left -= time.monotonic() - began


@contextmanager
def _turn(limits: Limits, patience: _Patience) -> Iterator[None]:
    """One of the machine's places for children. Raises Unreadable where none becomes free."""
    place = turns.turn(limits.kind, min(limits.place_seconds, patience.seconds()))
    try:
        with ExitStack() as stack:
            with patience.spent():
                stack.enter_context(place)
            yield
    except turns.NoTurn:
        raise Unreadable(_("Other files are being read right now. Try again in a minute.")) from None


def _received(
    child: "subprocess.Popen[bytes]", answer: IO[bytes], patience: _Patience, position: Position
) -> Iterator[Any]:
    for line in _lines(answer, patience):
        message = json.loads(line)
        if isinstance(message, list):
            position.bytes_read, values = message
            yield from values
            continue
        if message["end"] == "whole":
            return
        if message["end"] == "unreadable":
            raise Unreadable(_(message["message"]), **message["values"])
        if message["end"] == "memory":
            raise _too_large()
        log.error("a file's child process failed: %s", message["why"])
        raise Unreadable(_("The file cannot be read: its content is damaged. Save it again, best as CSV or JSONL."))
    if child.wait(patience.at_once) == -signal.SIGXCPU:
        raise _too_slow()
    raise _too_large()  # the system ended it, or it could not even say that its memory was used up


def _lines(answer: IO[bytes], patience: _Patience) -> Iterator[bytes]:
    """The child's lines, waited for with patience. Raises Unreadable."""
    held = bytearray()
    waiting = select.poll()
    waiting.register(answer, select.POLLIN | select.POLLHUP)
    while True:
        with patience.spent():
            ready = waiting.poll(patience.seconds() * 1_000)
        if not ready:
            raise _too_slow()
        piece = os.read(answer.fileno(), 1 << 18)
        if not piece:
            return
        held += piece
        if b"\n" in piece:
            *whole, rest = held.split(b"\n")
            held = bytearray(rest)
            yield from map(bytes, whole)


def _too_slow() -> Unreadable:
    return Unreadable(_("The file takes too long to read. Save it as CSV or JSONL, or split it."))


def _too_large() -> Unreadable:
    return Unreadable(_("The file needs too much memory. Save it as CSV or JSONL, or split it."))


def _as_file(stream: BinaryIO) -> IO[bytes]:
    """The stream as a file that a child can be given, read from its beginning; the caller closes it."""
    try:
        number = stream.fileno()
        if S_ISREG(os.fstat(number).st_mode):
            file = cast("IO[bytes]", os.fdopen(os.dup(number), "rb"))
            file.seek(0)
            return file
    except (AttributeError, OSError):
        pass
    copy = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    try:
        if _can_seek(stream):
            stream.seek(0)
        while piece := stream.read(1 << 20):
            copy.write(piece)
        copy.seek(0)
    except BaseException:
        copy.close()
        raise
    return copy


def _can_seek(stream: BinaryIO) -> bool:
    try:
        return stream.seekable()
    except AttributeError:
        return False
