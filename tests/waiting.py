"""Waiting for what another process or thread does: by the clock, whatever one look costs."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def until(condition: Callable[[], Found], what: str = "it", seconds: float = 120) -> Found:
    """What was found by looking again and again, for `seconds` at most."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError(f"{what} did not come about within {seconds:.0f} seconds")
