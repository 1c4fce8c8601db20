"""An ASGI application that answers at an address of its own, in a thread."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn


@contextlib.contextmanager
def running(make: Callable[[str], Any]) -> Iterator[str]:
    """The application that `make` makes for its own address, served in a thread."""
    config = uvicorn.Config(lambda *_given: None, host="127.0.0.1", port=0, log_level="critical")
    socket = config.bind_socket()
    address = f"http://127.0.0.1:{socket.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(make(f"{address}/"), log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    yield address
    server.should_exit = True
    thread.join(20)
