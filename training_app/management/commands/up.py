"""`manage.py up`: the processes of an installation as children of one process, until Ctrl-C."""

import http.client
import os
import signal
import subprocess
import threading
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from agents_app.accounts import setup
from agents_app.background_work import processes
from agents_app.clusters import AGAIN
from routerweb import health, lifeline, paths
from training_app.installation import demo_card, read_demo

WEB = "web server"
#: How long the children may take to end in order; a cluster needs twelve seconds at most to hand its jobs back.
END_SECONDS = 18
#: A child that ends so soon after its start will not do better when it is started again at once.
YOUNG_SECONDS = 5.0
#: The longest pause before a child that keeps ending is started once more.
PAUSE_SECONDS = 30.0


def parts() -> dict[str, tuple[str, ...]]:
    """What each part starts; `worker` is all but the web server."""
    workers = {"jobs": "job cluster", "training": "training cluster"}
    workers |= {process.part: process.name for process in processes.added()}
    if settings.DEMO:
        workers["reset"] = "demo's reset"
    return {"web": (WEB,), **{part: (name,) for part, name in workers.items()}, "worker": tuple(workers.values())}


def commands(wanted: Sequence[str]) -> dict[str, tuple[list[str], dict[str, str]]]:
    """The arguments of each child of these parts and what its environment has beyond this one's, by a name for messages."""
    children: dict[str, tuple[list[str], dict[str, str]]] = {
        WEB: (paths.module("routerweb.serving.server"), {}),
        "job cluster": (paths.manage("run_cluster"), {}),
        # By the environment: django-q2 reads it before a command's arguments.
        "training cluster": (paths.manage("run_cluster"), {"Q_CLUSTER_NAME": "train"}),
        **{process.name: (paths.manage(*process.command), {}) for process in processes.added()},
        "demo's reset": (paths.manage("reset_demo", "--hourly"), {}),
    }
    names = {name for part in wanted for name in parts()[part]}
    return {name: child for name, child in children.items() if name in names}


class Child:
    """One child, started again whenever it ends by itself."""

    def __init__(self, name: str, arguments: list[str], more: dict[str, str]) -> None:
        self.name, self._arguments = name, arguments
        # The slot of what does jobs is its successor's too, which by it takes over what the last one left.
        self._more = more if name == WEB else {**more, "ROUTERWEB_CLUSTER": os.urandom(6).hex()}
        self._pause = self._at = self._began = 0.0
        self.lived = self.hopeless = False
        self.process: subprocess.Popen[bytes] | None = None
        self._ready: Callable[[], bool] = lambda: True

    def wait(self, ready: Callable[[], bool]) -> None:
        """Have its first start wait until `ready`."""
        self._ready = ready

    def start(self) -> None:
        # In a session of its own: Ctrl-C in the terminal reaches this process alone, which asks the others to end. A cluster's own
        # children must not get the signal, or they die before the cluster can end them in order.
        self.process = subprocess.Popen(  # noqa: S603 - our own programs
            self._arguments,
            env={**lifeline.for_child(), **self._more},
            cwd=paths.WORKING_DIR,
            start_new_session=True,
        )
        self._began = time.monotonic()

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def look(self) -> str:
        """Start it again if it has ended and its pause is over; what is to be said of its end, "" where there is nothing new."""
        if self.running:
            self.lived = self.lived or time.monotonic() - self._began > YOUNG_SECONDS
            return ""
        if self.process is None:
            if time.monotonic() >= self._at and self._ready():
                self.start()
            return ""
        status, age = self.process.returncode, time.monotonic() - self._began
        self.process = None
        self._pause = min(max(1.0, 2 * self._pause), PAUSE_SECONDS) if age < YOUNG_SECONDS else 0.0
        self._at = time.monotonic() + self._pause
        # Settings that are wrong, or a port that is taken: starting it once more would not help.
        self.hopeless = status > 0 and status != AGAIN and not self.lived
        self.lived = True
        return f"The {self.name} ended by itself, with status {status}"


class Command(BaseCommand):
    help = (
        "Start every process of an installation, or the named parts alone, and stop them all with Ctrl-C. "
        "Example: python manage.py up, or python manage.py up web"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "parts",
            nargs="*",
            metavar="part",
            help=f"{', '.join(parts())} (worker is all but web); all when none is named",
        )
        parser.add_argument(
            "--demo", action="store_true", help="set up the demo pools meanwhile, as `demo --queue` does"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        wanted = options["parts"] or list(parts())
        unknown = set(wanted) - set(parts())
        if unknown:
            raise CommandError(f"Unknown part {', '.join(sorted(unknown))}: choose from {', '.join(parts())}.")
        asked_to_stop = threading.Event()

        def stop(_number: int, _frame: FrameType | None) -> None:
            asked_to_stop.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        children = [Child(name, arguments, more) for name, (arguments, more) in commands(wanted).items()]
        demo = self._demo() if options["demo"] or (settings.DEMO and "reset" in wanted) else None
        for child in children:
            if demo and child.name != WEB:
                # The first router is trained beside the web server's start: whoever waits, waits for these two.
                child.wait(lambda: demo.poll() is not None)
            else:
                child.start()
        if "web" in wanted:
            threading.Thread(target=self._welcome, args=(asked_to_stop, demo), daemon=True).start()
        ended = self._watch(children, asked_to_stop)
        self._end(children)
        if demo and demo.poll() is None:
            demo.terminate()
            demo.wait()
        if ended:
            raise CommandError(f"{ended}; its lines above say why.")
        self.stdout.write("Routerweb has stopped.")

    def _watch(self, children: Sequence[Child], asked_to_stop: threading.Event) -> str:
        """Keep all children running until this process is asked to stop; which of them is not worth another start, in words."""
        while not asked_to_stop.wait(0.3):
            for child in children:
                if ended := child.look():
                    if child.hopeless:
                        return ended
                    self.stderr.write(f"{ended}; it is started again.")
        return ""

    def _end(self, children: Sequence[Child]) -> None:
        """Ask every child to end, then end whatever is left."""
        for child in children:
            if child.process is not None and child.running:
                child.process.terminate()
        deadline = time.monotonic() + END_SECONDS
        while time.monotonic() < deadline and any(child.running for child in children):
            time.sleep(0.1)
        for child in children:
            if child.process is not None and child.running:
                self.stderr.write(f"The {child.name} did not end by itself and is killed.")
                os.killpg(child.process.pid, signal.SIGKILL)
                child.process.wait()

    def _demo(self) -> subprocess.Popen[bytes]:
        """The demo's setup, in a process of its own; what it says goes to a file unless it fails."""
        with (Path(settings.DATA_DIR) / "demo.log").open("wb") as log:
            return subprocess.Popen(  # noqa: S603 - our own program
                paths.manage("demo", "--queue"),
                env=lifeline.for_child(),
                cwd=paths.WORKING_DIR,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _welcome(self, asked_to_stop: threading.Event, demo: subprocess.Popen[bytes] | None) -> None:
        """Once the web server answers, say where it is and how to call it; of a demo also when its first router answers."""
        address = f"http://127.0.0.1:{settings.PORT}"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                health.ask(settings.PORT, settings.ALLOWED_HOSTS)
            except (OSError, ValueError, http.client.HTTPException):
                if asked_to_stop.wait(0.25):
                    return
            else:
                while demo and demo.poll() is None and read_demo() is None and not asked_to_stop.wait(0.1):
                    pass
                training = demo is not None and demo.poll() is None
                self._say(demo_card(address, training=training) or self._card(address))
                if demo and training:
                    self._first_route(demo, asked_to_stop)
                return
        self.stderr.write(f"The web server did not answer at {address} within a minute; its lines above say why.")

    def _card(self, address: str) -> str:
        """Where an installation without the demo is, and while it is new the link that makes its first account."""
        if setup.is_new():
            return f"\n  Routerweb is running. Set it up, within a day, at\n\n  {address}{setup.link()}\n"
        return f"\n  Routerweb is running at {address}\n"

    def _first_route(self, demo: subprocess.Popen[bytes], asked_to_stop: threading.Event) -> None:
        """Say when the demo's setup has ended, and how."""
        while demo.poll() is None:
            if asked_to_stop.wait(0.1):
                return
        if demo.returncode:
            log = (Path(settings.DATA_DIR) / "demo.log").read_text("utf-8", "replace")
            self.stderr.write(f"The demo could not be set up:\n{log}")
        else:
            self._say(
                "  The first router answers now. A better one is being trained and takes over by itself: see Home.\n"
            )

    def _say(self, text: str) -> None:
        self.stdout.write(text)
        self.stdout.flush()
