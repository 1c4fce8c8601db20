"""Where the web server listens and with how many processes: those settings that its parent process reads, which never loads the rest.

`settings` takes them from here.
"""

import socket

from routerweb import env
from routerweb.paths import DATA_DIR

env.load_file(DATA_DIR / "installation.env")

DEBUG = env.boolean("DEBUG", False)
LISTEN_HOST = env.text("LISTEN_HOST", "127.0.0.1")
PORT = env.integer("PORT", 8000, low=1, high=65535)
WEB_WORKERS = env.integer("WEB_WORKERS", 1, low=1)


def address() -> tuple[str, socket.AddressFamily]:
    """The IP address of LISTEN_HOST."""
    family, _type, _protocol, _name, found = socket.getaddrinfo(LISTEN_HOST, PORT, type=socket.SOCK_STREAM)[0]
    return str(found[0]), family


def check_address(*, alone: bool = False) -> None:
    """Raises OSError where this process could not listen: beside others that share the port, or `alone`."""
    host, family = address()
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "SO_REUSEPORT") and not alone:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        probe.bind((host, PORT))
