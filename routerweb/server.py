"""`python -m routerweb.server` runs the web server, Granian, until Ctrl-C or SIGTERM.

It took fewer microseconds of processor time a request than gunicorn in `benchmarks/http`, which measures both. The parent only
listens and restarts a worker that died. Each worker loads the applications and the models for itself, after its fork, so that
neither a thread nor a database connection is carried over; it takes traffic once they are loaded.
"""

import os
import signal
from collections.abc import Callable
from typing import Any

from django.conf import settings
from granian.constants import Interfaces
from granian.log import LogLevels
from granian.server import MPServer


def server() -> MPServer:
    """The server as the settings describe it."""
    return MPServer(
        "routerweb.server:application",
        factory=True,
        address=settings.LISTEN_HOST,
        port=settings.PORT,
        interface=Interfaces.WSGI,
        workers=settings.WEB_WORKERS,
        blocking_threads=settings.WEB_THREADS,
        respawn_failed_workers=True,
        workers_kill_timeout=10,
        log_level=LogLevels.info if settings.DEBUG else LogLevels.warning,
    )


def application() -> Callable[..., Any]:
    """What a worker serves, loaded in it.

    Ctrl-C reaches all processes of a terminal at once. The parent answers it by ending its workers; a worker of Granian 2.8 that also
    hears it itself does not end until it is killed, and would lose the decisions that it still has in memory.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    from routerweb.wsgi import application

    return application


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
    server().serve()
