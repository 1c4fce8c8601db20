"""Memory of a process that serves for weeks: what was needed only to load something goes back to the system."""

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from training_app.engine.data.memory import give_back

_C = ctypes.CDLL(None)
_M_ARENA_MAX = -8


def few_arenas() -> None:
    """Before the first thread: threads share two heaps of glibc, where each would hold on to one of its own. One thread at a time
    runs Python, so they seldom wait for each other. Other C libraries are left as they are."""
    if hasattr(_C, "mallopt"):
        _C.mallopt(_M_ARENA_MAX, 2)


def settle() -> None:
    """What stands now stays for the life of the process: the garbage collector need not look at it again, which took 60 ms at a
    time, and what is free goes back to the system."""
    gc.collect()
    gc.freeze()
    give_back()


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Within it, these modules are as if they were not installed, where they are not loaded yet: what a package tries to import for
    a use that this process never makes of it costs megabytes in each process."""
    absent = [name for name in names if name not in sys.modules]
    sys.modules.update(dict.fromkeys(absent))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in absent:
            sys.modules.pop(name, None)
