"""Running a function on a file in a child process that has limits.

The child (`child`) is a fresh interpreter: it has the file, a request, and neither this process's memory nor its environment, where
secrets stand. What it sends back is JSON.
"""

import json
import logging
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    """What a child may use: CPU time, memory, how long it may stay silent while somebody waits for it, and whose places it takes."""

    cpu_seconds: int
    silent_seconds: float
    memory_bytes: int = 500_000_000
    kind: str = "job"


#: While a person waits for a page, and for a job, which may read a large file.
PAGE = Limits(cpu_seconds=8, silent_seconds=10.0, kind="page")
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
    position = position or Position()
    with _turn(limits), _as_file(stream) as file:
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
            yield from _received(child, child.stdout, limits, position)
        finally:
            child.kill()
            child.stdout.close()
            child.wait()


@contextmanager
def _turn(limits: Limits) -> Iterator[None]:
    """One of the machine's places for children. Raises Unreadable where none becomes free."""
    try:
        with turns.turn(limits.kind, limits.silent_seconds):
            yield
    except turns.NoTurn:
        raise Unreadable(_("Other files are being read right now. Try again in a minute.")) from None


def _received(child: "subprocess.Popen[bytes]", answer: IO[bytes], limits: Limits, position: Position) -> Iterator[Any]:
    for line in _lines(answer, limits.silent_seconds):
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
    if child.wait(limits.silent_seconds) == -signal.SIGXCPU:
        raise _too_slow()
    raise _too_large()  # the system ended it, or it could not even say that its memory was used up


def _lines(answer: IO[bytes], silent_seconds: float) -> Iterator[bytes]:
    """The child's lines, each waited for so long and no longer. Raises Unreadable."""
    held = bytearray()
    waiting = select.poll()
    waiting.register(answer, select.POLLIN | select.POLLHUP)
    while True:
        if not waiting.poll(silent_seconds * 1_000):
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
