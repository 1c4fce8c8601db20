"""`python -m agents_app.files.child REQUEST` reads one file, on standard input, and writes what it holds as lines of JSON.

The request names a function of a module that knows no Django, its arguments, and this process's limits. Each line of the answer is
`[bytes read so far, [values…]]`; the last one says how it ended. Whatever the file does to this process, the one that started it sees
an answer that ends early, and no more.
"""

import os

#: The child gives way to whatever else the machine does: people wait for pages, and seconds more for a file harm nobody.
NICE = 10
if __name__ == "__main__":
    os.nice(NICE)  # before the imports, which take more time than most files

# ruff: noqa: E402
import importlib
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from agents_app.files.formats import Unreadable
from routerweb import lifeline

#: Values are sent on in pieces of so many, so many characters, or so many seconds' work.
PIECE, PIECE_CHARACTERS, PIECE_SECONDS = 200, 1 << 18, 0.1
#: Held back for telling that the memory ran out.
RESERVE = 1 << 20


def limit(cpu_seconds: int, memory_bytes: int) -> None:
    """Bound this process for good: CPU time, memory, and that it writes no file and starts no process."""
    bounds = {
        "RLIMIT_CPU": cpu_seconds + 1,
        "RLIMIT_AS": memory_bytes,
        "RLIMIT_FSIZE": 0,
        "RLIMIT_CORE": 0,
        "RLIMIT_NOFILE": 64,
    }
    for name, value in bounds.items():
        which = getattr(resource, name, None)
        if which is None:
            continue
        _soft, hard = resource.getrlimit(which)
        ceiling = value if hard == resource.RLIM_INFINITY else min(value, hard)
        try:
            # A second between the signal that says why the process ends and the one that says nothing.
            resource.setrlimit(which, (max(ceiling - 1, 1), ceiling) if name == "RLIMIT_CPU" else (ceiling, ceiling))
        except (ValueError, OSError):  # macOS bounds no address space
            continue


def function(name: str) -> Callable[..., Iterator[Any]]:
    """The function that `module:name` names."""
    module, _colon, attribute = name.partition(":")
    target: Callable[..., Iterator[Any]] = getattr(importlib.import_module(module), attribute)
    return target


class Sending:
    """Lines of the answer, sent whenever enough has gathered."""

    def __init__(self) -> None:
        self._items: list[str] = []
        self._characters = 0
        self._since = time.monotonic()

    def add(self, value: Any) -> None:
        line = json.dumps(value)
        self._items.append(line)
        self._characters += len(line)
        full = len(self._items) >= PIECE or self._characters >= PIECE_CHARACTERS
        if full or time.monotonic() - self._since >= PIECE_SECONDS:
            self.flush()

    def flush(self) -> None:
        if self._items:
            position = os.lseek(0, 0, os.SEEK_CUR)
            self._write(f"[{position},[{','.join(self._items)}]]\n")
        self._items, self._characters, self._since = [], 0, time.monotonic()

    def end(self, how: dict[str, Any]) -> None:
        self._write(json.dumps(how) + "\n")

    @staticmethod
    def _write(line: str) -> None:
        sys.stdout.write(line)
        sys.stdout.flush()


def main() -> None:
    request = json.loads(sys.argv[1])
    reserve: bytearray | None = bytearray(RESERVE)
    limit(request["cpu_seconds"], request["memory_bytes"])
    sending = Sending()
    try:
        for value in function(request["function"])(sys.stdin.buffer, *request["arguments"]):
            sending.add(value)
        sending.flush()
        sending.end({"end": "whole"})
    except Unreadable as error:
        sending.flush()
        sending.end({"end": "unreadable", "message": error.message, "values": error.values})
    except MemoryError:
        reserve = None  # noqa: F841 - room for the line below
        sending.end({"end": "memory"})
    except BrokenPipeError:
        os._exit(0)  # nobody listens any more
    except Exception as error:
        sending.flush()
        sending.end({"end": "fault", "why": f"{type(error).__name__}: {error}"[:500]})


if __name__ == "__main__":
    lifeline.end_with_starter()
    main()
