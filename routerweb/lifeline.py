"""A process that ends with the one that started it, however that one ended: even by SIGKILL, which nobody can answer to.

Linux sends the signal itself (PR_SET_PDEATHSIG). Elsewhere a thread asks each second who the parent is. The standard library alone is
imported, as every process of the server begins with this.
"""

import ctypes
import os
import signal
import sys
import threading
import time

#: In the environment of a process that is to end with its parent: the parent's process id.
PARENT = "ROUTERWEB_PARENT"
#: prctl(2).
PR_SET_PDEATHSIG = 1
#: Where the system cannot send the signal: seconds between two looks at who the parent is.
LOOK_SECONDS = 1.0


def for_child() -> dict[str, str]:
    """This process's environment for a program that is to end with it."""
    return {**os.environ, PARENT: str(os.getpid())}


def end_with_starter(number: int = signal.SIGKILL) -> None:
    """Get this signal when the process that started this one by `for_child` has ended; nothing where it was started otherwise.

    Call it in the main thread as early as possible: it also ends a process whose parent is gone by now.
    """
    parent = os.environ.pop(PARENT, "")
    if parent.isdecimal():
        end_with(int(parent), number)


def end_with(parent: int, number: int = signal.SIGKILL) -> None:
    """Get this signal when the process `parent`, which started or forked this one, has ended."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
    else:
        threading.Thread(target=_watch, args=(parent, number), name="lifeline", daemon=True).start()
    if os.getppid() != parent:  # it ended before the system knew whom to tell
        os.kill(os.getpid(), number)


def _watch(parent: int, number: int) -> None:
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    os.kill(os.getpid(), number)
