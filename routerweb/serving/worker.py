"""`python -m routerweb.serving.worker` is one process of the web server: granian with this project's settings.

It listens once the settings, the applications and the models are loaded and the database is migrated, beside as many others as there
are on the same port. On SIGTERM it tells its clients to close their connections, answers what it has, and ends.
"""

import asyncio
import os
import resource
import signal
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from granian.constants import HTTPModes, Interfaces
from granian.http import HTTP1Settings
from granian.server.embed import Server

from routerweb import lifeline, paths
from routerweb.serving import listening, memory

if TYPE_CHECKING:
    from routerweb.serving.client_limits import Application, ClientLimits

#: Seconds that one thread may compute while another waits to: Python's own 5 ms are longer than ten routes.
SWITCH_SECONDS = 0.001
#: At the end: so long no client may have sent a request before connections are closed, and so long that is waited for at most.
QUIET_SECONDS, LEAVING_SECONDS = 0.5, 3.0
#: How long answers that are being made may take then. All of it is less than the supervisor waits.
ANSWER_SECONDS = 5.0
#: Connections that the system holds until they are accepted.
BACKLOG = 2048
#: Files that a process needs beside its connections.
OTHER_FILES = 200


def server(application: "Application") -> Server:
    """granian for `application`, with the limits of the settings."""
    from django.conf import settings

    from routerweb.serving.client_limits import MAX_HEAD_BYTES

    return Server(
        application,
        address=listening.address()[0],
        port=listening.PORT,
        interface=Interfaces.ASGINL,
        http=HTTPModes.http1,
        websockets=False,
        backlog=BACKLOG,
        backpressure=min(settings.WEB_CONNECTIONS, _max_files() - OTHER_FILES),
        http1_settings=HTTP1Settings(
            header_read_timeout=int(settings.KEEP_ALIVE_SECONDS * 1000), max_buffer_size=MAX_HEAD_BYTES
        ),
        log_enabled=False,
    )


async def serve(application: "Application", limits: "ClientLimits") -> None:
    """Serve until SIGTERM or SIGINT, then end in order; `limits` tells clients."""
    from django.conf import settings

    asked_to_end = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, asked_to_end.set)
    running = server(application)
    serving = asyncio.create_task(running.serve())
    while not drop_unread_answers(settings.ANSWER_SECONDS) and not serving.done():
        await asyncio.sleep(0.01)
    ending = asyncio.create_task(asked_to_end.wait())
    await asyncio.wait({serving, ending}, return_when=asyncio.FIRST_COMPLETED)
    if not serving.done():
        await limits.end(quiet_seconds=QUIET_SECONDS, seconds=LEAVING_SECONDS)
        running.stop()
        await asyncio.wait({serving}, timeout=ANSWER_SECONDS)
    ending.cancel()
    if serving.done():
        serving.result()


def drop_unread_answers(seconds: float) -> bool:
    """Have the kernel drop a connection whose client has read nothing of its answer for so long; whether this process listens yet.

    Accepted connections inherit the option from the sockets that listen, which granian opens itself.
    """
    if not hasattr(socket, "TCP_USER_TIMEOUT"):
        return True
    listens = False
    for link in Path("/proc/self/fd").iterdir():
        try:
            if not os.readlink(link).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(link.name))) as opened:
                if opened.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(seconds * 1000))
                    listens = True
        except OSError:  # closed meanwhile, or no TCP
            continue
    return listens


def _max_files() -> int:
    """As many open files as the system lets this process have."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else sys.maxsize


if __name__ == "__main__":
    lifeline.end_with_starter(signal.SIGTERM)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
    os.environ[paths.WEB_PROCESS] = str(os.getpid())
    # One text is too little work for several threads of a matrix product, each of which would hold memory of its own.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.setswitchinterval(SWITCH_SECONDS)
    memory.few_arenas()
    try:
        listening.check_address()
    except OSError as error:
        sys.exit(
            f"Cannot listen at {listening.LISTEN_HOST}:{listening.PORT}: {error.strerror}. Set PORT to a free one."
        )
    import routerweb.wsgi  # noqa: F401  (the applications and the models, before anybody can connect)
    from routerweb.asgi import application, limits

    asyncio.run(serve(application, limits))
