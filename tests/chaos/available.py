"""Time as an installation had it: a second counts unless one of its processes waited for a processor that other programs had.

Linux says for each thread how long it was ready and did not run. On a busy machine that is most of the time, above all for training,
which gives way to others. A process that sleeps, or waits for a lock or another process, waits for no processor: that counts.
So does what the installation's own processes take from each other.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Found = TypeVar("Found")
TICKS = os.sysconf("SC_CLK_TCK")
#: Seconds between two looks.
LOOK_SECONDS = 0.25
#: However busy the machine is, nothing is waited for longer than this many times its limit.
AT_MOST = 15


@dataclass(frozen=True, slots=True)
class Reading:
    """At a moment (`at`, seconds of any clock): the processor seconds that all `others` have had, and for each thread of the
    installation how many seconds it has waited for a processor."""

    at: float
    others: float
    waited: dict[int, float]


class AvailableTime:
    """A clock that goes on when `look` is called, every LOOK_SECONDS or so: the seconds since its beginning that have `passed`, and
    those of them that were `available`."""

    def __init__(self, read: Callable[[], Reading]) -> None:
        self._read, self._last = read, read()
        self.passed = self.available = 0.0

    def look(self) -> None:
        """Add the time since the last look."""
        last, now = self._last, self._read()
        passed = now.at - last.at
        waited = max((seconds - last.waited.get(thread, 0.0) for thread, seconds in now.waited.items()), default=0.0)
        self.passed += passed
        self.available += max(0.0, passed - min(waited, max(0.0, now.others - last.others)))
        self._last = now


def reader(processes: Callable[[], Iterable[int]]) -> Callable[[], Reading]:
    """Reads /proc for the processes that there are at each look."""
    had: dict[int, float] = {}

    def read() -> Reading:
        waited: dict[int, float] = {}
        for process in processes():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                had[process] = (int(words[11]) + int(words[12])) / TICKS
                for thread in Path(f"/proc/{process}/task").iterdir():
                    waited[int(thread.name)] = int((thread / "schedstat").read_text().split()[1]) / 1e9
        user, nice, system, _idle, _disk, irq, softirq, steal = _all_processors()
        busy = user + nice + system + irq + softirq + steal
        return Reading(time.monotonic(), busy - sum(had.values()), waited)

    return read


def _all_processors() -> list[float]:
    return [int(word) / TICKS for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]


def until(condition: Callable[[], Found], what: str, seconds: float, clock: AvailableTime) -> Found:
    """What was found by looking again and again, until so many seconds are available on a new clock. Raises AssertionError."""
    while True:
        if found := condition():
            clock.look()
            return found
        clock.look()
        if clock.available >= seconds or clock.passed >= AT_MOST * seconds:
            limits = f"{clock.passed:.0f} passed, {clock.available:.0f} were available"
            raise AssertionError(f"{what} did not come about within {seconds:.0f} seconds: {limits}")
        time.sleep(LOOK_SECONDS)
