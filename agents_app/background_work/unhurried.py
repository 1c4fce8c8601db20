"""The pace of long work in the background: people who wait for a page come first, on whatever machine the work and they share."""

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

#: Work that has taken so many seconds is long.
LONG = 1.0
#: Rest behind a part of long work, as a share of the time that it took: a third of a processor, and of the database, stays free.
REST = 0.5
#: The same of nightly work, which nobody waits for: two thirds stay free.
NIGHTLY = 2.0


def each(parts: Iterable[T], rest: float = REST) -> Iterator[T]:
    """The parts of a piece of work; once it is long, with a rest behind each, for making the part and for what is done with it."""
    done, began = 0.0, time.monotonic()
    for part in parts:
        yield part
        took = time.monotonic() - began
        done += took
        if done > LONG:
            time.sleep(rest * took)
        began = time.monotonic()
