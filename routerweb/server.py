"""`python -m routerweb.server` runs the web server, Granian, until Ctrl-C or SIGTERM.

It took fewer microseconds of processor time a request than gunicorn in `benchmarks/http`, which measures both. The parent only
listens and restarts a worker that died, so it loads neither the settings nor the applications. Each worker loads them, and the
models, for itself, after its fork, so that neither a thread nor a database connection is carried over; it takes traffic once they
are loaded.
"""

import gc
import os
import signal
from collections.abc import Callable
from typing import Any

from granian.constants import Interfaces
from granian.log import LogLevels
from granian.server import MPServer

from routerweb import listening, memory


def server() -> MPServer:
    """The server as the settings describe it."""
    return MPServer(
        "routerweb.server:application",
        factory=True,
        address=listening.LISTEN_HOST,
        port=listening.PORT,
        interface=Interfaces.WSGI,
        workers=listening.WEB_WORKERS,
        blocking_threads=listening.WEB_THREADS,
        respawn_failed_workers=True,
        workers_kill_timeout=10,
        log_level=LogLevels.info if listening.DEBUG else LogLevels.warning,
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
    # One text is too little work for several threads of a matrix product, each of which would hold memory of its own.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    memory.few_arenas()
    gc.freeze()  # what the workers share with this process they go on sharing: their collectors leave it alone
    server().serve()
