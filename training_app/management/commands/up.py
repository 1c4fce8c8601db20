"""`manage.py up`: the web server and the job clusters as children of one process, until Ctrl-C."""

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from routerweb import health
from training_app.installation import demo_card

#: What a part starts; `worker` is both clusters.
PARTS = {
    "web": ("web server",),
    "jobs": ("job cluster",),
    "training": ("training cluster",),
    "worker": ("job cluster", "training cluster"),
}
#: How long a cluster may take to finish its jobs after Ctrl-C; then its workers are told, and hand their runs back to the queue.
FINISH_SECONDS = 4
#: How long they may take for that before they are killed.
GRACE_SECONDS = 8


def commands(parts: Sequence[str]) -> dict[str, tuple[list[str], dict[str, str]]]:
    """The arguments of each child and what its environment has beyond this one's, by a name for messages."""
    cluster = [sys.executable, str(Path(settings.BASE_DIR) / "manage.py"), "qcluster"]
    children = {
        "web server": ([sys.executable, "-m", "routerweb.server"], {}),
        "job cluster": (cluster, {}),
        # By the environment, not by --name: with that django-q2 would listen to the default queue.
        "training cluster": (cluster, {"Q_CLUSTER_NAME": "train"}),
    }
    wanted = {name for part in parts for name in PARTS[part]}
    return {name: child for name, child in children.items() if name in wanted}


class Command(BaseCommand):
    help = (
        "Start the web server and the job clusters, and stop them all with Ctrl-C. "
        "Example: python manage.py up, or python manage.py up web"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "parts",
            nargs="*",
            metavar="part",
            help="web, jobs, training, or worker for both of these; all when none is named",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        parts = options["parts"] or list(PARTS)
        unknown = set(parts) - set(PARTS)
        if unknown:
            raise CommandError(f"Unknown part {', '.join(sorted(unknown))}: choose from {', '.join(PARTS)}.")
        asked_to_stop = threading.Event()

        def stop(_number: int, _frame: FrameType | None) -> None:
            asked_to_stop.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        # Each in a session of its own: Ctrl-C in the terminal reaches this process alone, which asks the others to end. A cluster's
        # own children must not get the signal, or they die before the cluster can end them in order.
        children = {
            name: subprocess.Popen(  # noqa: S603 - our own programs
                arguments, env={**os.environ, **extra}, cwd=settings.BASE_DIR, start_new_session=True
            )
            for name, (arguments, extra) in commands(parts).items()
        }
        if "web" in parts:
            threading.Thread(target=self._welcome, args=(asked_to_stop,), daemon=True).start()
        while not asked_to_stop.wait(0.3) and all(child.poll() is None for child in children.values()):
            pass
        ended = [name for name, child in children.items() if child.poll() is not None]
        self._end(children)
        if not asked_to_stop.is_set():
            raise CommandError(f"The {ended[0]} ended by itself; its lines above say why.")
        self.stdout.write("Routerweb has stopped.")

    def _end(self, children: dict[str, subprocess.Popen[bytes]]) -> None:
        """Ask every child to end, then its own children, then end whatever is left."""
        for child in children.values():
            child.terminate()
        if self._left(children, FINISH_SECONDS):
            for child in self._left(children, 0).values():
                os.killpg(child.pid, signal.SIGTERM)
        for name, child in self._left(children, GRACE_SECONDS).items():
            self.stderr.write(f"The {name} did not end by itself and is killed.")
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()

    def _left(self, children: dict[str, subprocess.Popen[bytes]], seconds: float) -> dict[str, subprocess.Popen[bytes]]:
        """The children that still run after at most so many seconds."""
        deadline = time.monotonic() + seconds
        while (left := {name: child for name, child in children.items() if child.poll() is None}) and (
            time.monotonic() < deadline
        ):
            time.sleep(0.1)
        return left

    def _welcome(self, asked_to_stop: threading.Event) -> None:
        """Once the web server answers, say where it is and how to call it."""
        address = f"http://127.0.0.1:{settings.PORT}"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                health.ask(settings.PORT, settings.ALLOWED_HOSTS)
            except (OSError, ValueError, http.client.HTTPException):
                if asked_to_stop.wait(0.25):
                    return
            else:
                self.stdout.write(demo_card(address) or f"\n  Routerweb is running at {address}\n")
                self.stdout.flush()
                return
        self.stderr.write(f"The web server did not answer at {address} within a minute; its lines above say why.")
