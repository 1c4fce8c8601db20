"""An answer that is still to come: a view begins it, and the server's event loop waits for it, so that no thread does.

The web server puts a `Later` into the request's environment under NAME. A view that finds one there may set `pieces`; what it returns
then gives status and headers, and the body is what comes out of `pieces`; they may set another `status` before the first. A server
without an event loop puts none there, and the view has to wait itself.
"""

from collections.abc import AsyncIterator, Callable

NAME = "routerweb.serving.later"


class Later:
    """What a view leaves to the event loop; without `pieces`, nothing. `status` is the answer's, where it is not the view's."""

    __slots__ = ("pieces", "status")

    def __init__(self) -> None:
        self.pieces: Callable[[], AsyncIterator[bytes]] | None = None
        self.status: int | None = None
