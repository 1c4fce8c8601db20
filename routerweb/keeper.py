"""`python -I -S keeper.py PLAN` keeps the processes of an installation alive until Ctrl-C or SIGTERM, then ends them in order.

`manage.py up` becomes this program once it knows what to start. It stands beside them for as long as they run, so it imports the
standard library alone: 10 MB, where `up` with its applications is ten times that.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

WEB = "web server"
#: How long the children may take to end in order; a cluster needs twelve seconds at most to hand its jobs back.
END_SECONDS = 18
#: A child that ends so soon after its start will not do better when it is started again at once.
YOUNG_SECONDS = 5.0
#: The longest pause before a child that keeps ending is started once more.
PAUSE_SECONDS = 30.0
#: The status by which a cluster asks for another start: `agents_app.clusters.AGAIN`.
AGAIN = 3


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
        """Start it, as one that ends with this process (`lifeline`)."""
        # In a session of its own: Ctrl-C in the terminal reaches this process alone, which asks the others to end. A cluster's own
        # children must not get the signal, or they die before the cluster can end them in order.
        self.process = subprocess.Popen(  # noqa: S603 - our own programs
            self._arguments,
            env={**os.environ, "ROUTERWEB_PARENT": str(os.getpid()), **self._more},
            start_new_session=True,
        )
        self._began = time.monotonic()

    @property
    def running(self) -> bool:
        """Whether it runs now."""
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


class Setup:
    """The process that `up` started before it became this program, which migrates the database and sets up the demo. `log` is the file
    of what the demo says, None without the demo."""

    def __init__(self, pid: int, log: str | None) -> None:
        self.pid, self.log = pid, log
        self.status: int | None = None

    def ended(self) -> bool:
        """Whether it has ended."""
        if self.status is None:
            self.status = _status(self.pid)
        return self.status is not None

    def failed(self) -> str:
        """Why nothing can start after it, "" where it goes on or did its work: whoever was killed may not have migrated everything."""
        if not self.ended() or self.status is None:
            return ""
        if self.status < 0:
            return f"The setup of the database was killed by signal {-self.status}"
        return "The migration of the database failed" if self.status == NOT_MIGRATED else ""

    def end(self) -> None:
        """Ask it to end, and wait until it has."""
        if not self.ended():
            os.kill(self.pid, signal.SIGTERM)
            os.waitpid(self.pid, 0)

    def say(self) -> None:
        """How the demo's setup ended, on the terminal."""
        if self.log and self.status:
            sys.stderr.write(f"The demo could not be set up:\n{Path(self.log).read_text('utf-8', 'replace')}\n")
        elif self.log:
            print(
                "  The first router answers now. A fuller one is being trained; it takes over if it passes the gate: see Home.\n",
                flush=True,
            )


def _status(pid: int) -> int | None:
    """With what status a child ended, None while it runs."""
    gone, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if gone else None


def _asked(signals: list[int]) -> bool:
    """Whether a signal has come, after a pause. No Event: its `set` in a signal's handler never returns if it interrupts `wait`."""
    time.sleep(0.3)
    return bool(signals)


def watch(children: Sequence[Child], asked_to_stop: list[int], setup: Setup | None, welcome: int | None) -> str:
    """Keep all children running until this process is asked to stop; which of them is not worth another start, in words. `welcome` is
    the process that says where the server is; after it comes how the demo's setup ended."""
    while not _asked(asked_to_stop):
        if setup and (failed := setup.failed()):
            return failed
        for child in children:
            if ended := child.look():
                if child.hopeless:
                    return ended
                sys.stderr.write(f"{ended}; it is started again.\n")
        if welcome is not None and (status := _status(welcome)) is not None:
            welcome = None
            setup = setup if status == SAYS_TRAINING else None
        if setup and welcome is None and setup.ended():
            setup.say()
            setup = None
    return ""


#: The status of a welcome that said that the demo's router was being trained.
SAYS_TRAINING = 7
#: The status of a setup that could not migrate the database.
NOT_MIGRATED = 8


def end(children: Sequence[Child]) -> None:
    """Ask every child to end, then end whatever is left."""
    for child in children:
        if child.process is not None and child.running:
            child.process.terminate()
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline and any(child.running for child in children):
        time.sleep(0.1)
    for child in children:
        if child.process is not None and child.running:
            sys.stderr.write(f"The {child.name} did not end by itself and is killed.\n")
            os.killpg(child.process.pid, signal.SIGKILL)
            child.process.wait()


def main(plan: dict[str, Any]) -> int:
    """Start and watch what the plan names, and the status to end with: `children` as (name, arguments, environment), and of what `up`
    has started `setup` as (pid, log) and `welcome` as its pid, null for none."""
    asked_to_stop: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        asked_to_stop.append(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    setup = Setup(*plan["setup"]) if plan["setup"] else None
    children = [Child(*child) for child in plan["children"]]
    for child in children:
        if setup and child.name != WEB:
            # The first router is trained beside the web server's start: whoever waits, waits for these two.
            child.wait(setup.ended)
        else:
            child.start()
    ended = watch(children, asked_to_stop, setup, plan["welcome"])
    end(children)
    if setup:
        setup.end()
    if ended:
        sys.stderr.write(f"{ended}; its lines above say why.\n")
        return 1
    print("Routerweb has stopped.", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
