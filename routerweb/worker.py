"""`python -m routerweb.worker` is one process of the web server: it listens once the settings, the applications and the models are
loaded, beside as many others as there are on the same port, and ends on SIGTERM when it has answered what it has."""

import os
import sys
from typing import Any

from granian.constants import Interfaces
from granian.log import LogLevels
from granian.server import MPServer

from routerweb import listening, memory

#: Seconds that one thread may compute while another waits to: Python's own 5 ms are longer than ten routes.
TURN_SECONDS = 0.001


class Server(MPServer):
    """Granian's server with its one worker in this process instead of a child of it."""

    def _spawn_workers(self, spawn_target: Any, target_loader: Any) -> None:
        self._spawn_worker(0, spawn_target, target_loader).inner.run()
        self.signal_handler_interrupt()


def server() -> Server:
    """The server as the settings describe it."""
    return Server(
        "routerweb.wsgi:application",
        address=listening.LISTEN_HOST,
        port=listening.PORT,
        interface=Interfaces.WSGI,
        blocking_threads=listening.WEB_THREADS,
        log_level=LogLevels.info if listening.DEBUG else LogLevels.warning,
    )


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
    # One text is too little work for several threads of a matrix product, each of which would hold memory of its own.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.setswitchinterval(TURN_SECONDS)
    memory.few_arenas()
    server().serve()
