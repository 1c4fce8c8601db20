"""Work for a client that has left is given up: whoever computes for a long time calls `check` now and then.

Whoever starts the work in a thread passes an event to `run` and sets it when the client leaves.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_left: ContextVar[threading.Event | None] = ContextVar("left", default=None)


class Abandoned(BaseException):
    """The client has left, so nobody waits for this answer. Like asyncio's CancelledError, it passes by `except Exception`."""


def run(client_left: threading.Event, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """What `work` returns. It raises Abandoned at its next `check` once `left` is set, and does not start if it is set already."""
    token = _left.set(client_left)
    try:
        check()
        return work(*args, **kwargs)
    finally:
        _left.reset(token)


def check() -> None:
    """Raise Abandoned if the client for whom this thread computes has left."""
    client_left = _left.get()
    if client_left is not None and client_left.is_set():
        raise Abandoned


def checked(steps: Iterable[T]) -> Iterator[T]:
    """The same items, with a `check` before each: for loops whose every turn is short."""
    for step in steps:
        check()
        yield step
