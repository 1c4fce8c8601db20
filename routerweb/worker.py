"""`python -m routerweb.worker` is one process of the web server: it listens once the settings, the applications and the models are
loaded, beside as many others as there are on the same port, and ends on SIGTERM when it has answered what it has."""

import asyncio
import os
import resource
import signal
import socket
import sys

from uvicorn import Config, Server

from routerweb import listening, memory

#: Seconds that one thread may compute while another waits to: Python's own 5 ms are longer than ten routes.
TURN_SECONDS = 0.001
#: How long answers may take that are being made when the server is to end.
END_SECONDS = 8
#: Connections that the system keeps until they are taken up.
BACKLOG = 2048
#: Turns of the server's clock, ten a second, between two looks at who is late.
TURNS_BETWEEN_LOOKS = 5
#: Where so many connections were open and most have closed, the memory that they took goes back to the system.
MANY_CONNECTIONS = 100


class Worker(Server):
    """uvicorn's server, which ends the connections of clients that are late. `most_open` is how many were open at once since memory
    was last given back."""

    most_open = 0

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: whether to end."""
        from routerweb import connections

        if counter % TURNS_BETWEEN_LOOKS == 0:
            connections.expire(self.server_state.connections, asyncio.get_running_loop().time())
            self.tidy(len(self.server_state.connections))
        return await super().on_tick(counter)

    def tidy(self, now_open: int) -> None:
        """Give back, beside the event loop, what a crowd of connections held once it has gone."""
        self.most_open = max(self.most_open, now_open)
        if self.most_open >= MANY_CONNECTIONS and now_open < self.most_open / 4:
            self.most_open = now_open
            asyncio.get_running_loop().run_in_executor(None, memory.collect)


def listen() -> socket.socket:
    """The socket of this process; processes on the same port are given connections in turn by the system."""
    version6 = ":" in listening.LISTEN_HOST
    # Named as TCP, asyncio sends each piece of an answer at once: else the body waits until the head was acknowledged, 40 ms.
    found = socket.socket(socket.AF_INET6 if version6 else socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "SO_REUSEPORT"):
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    found.bind((listening.LISTEN_HOST, listening.PORT))
    found.set_inheritable(False)
    return found


def server() -> Worker:
    """The server as the settings describe it; loads everything that requests are answered from."""
    from routerweb.connections import Connection

    return Worker(
        Config(
            "routerweb.asgi:application",
            http=Connection,
            loop="asyncio",
            ws="none",
            lifespan="off",
            interface="asgi3",
            backlog=BACKLOG,
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=END_SECONDS,
        )
    )


def many_files() -> None:
    """As many connections as the system lets this process have."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
    # One text is too little work for several threads of a matrix product, each of which would hold memory of its own.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.setswitchinterval(TURN_SECONDS)
    memory.few_arenas()
    many_files()
    import routerweb.wsgi  # noqa: F401  (the applications and the models, before anybody is listened to)

    try:
        taken = listen()
    except OSError as error:
        sys.exit(
            f"Cannot listen at {listening.LISTEN_HOST}:{listening.PORT}: {error.strerror}. Set PORT to a free one."
        )
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn raises it again once it has ended, which would kill this process before the decisions are written.
        signal.signal(number, lambda *_: None)
    server().run(sockets=[taken])
