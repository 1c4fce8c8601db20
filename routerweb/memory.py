"""Memory of a process that serves for weeks: what was needed only to load something goes back to the system."""

import ctypes
import gc

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


def give_back() -> None:
    """Free memory goes back to the system, where the C library can."""
    if hasattr(_C, "malloc_trim"):
        _C.malloc_trim(0)
