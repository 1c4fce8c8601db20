"""An installation as `manage.py up` runs it, with its processes by what they do, and a second process that acts in its database."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from tests import orchestration
from tests.chaos.available import AvailableTime, Found, reader, until

ROOT = Path(__file__).parents[2]
#: The clusters by the words in their environment.
CLUSTERS = {"jobs": "default", "training": "train"}
#: The process that runs episodes, which is worker and guard in one.
EPISODES = "episodes"
WORKER, MONITOR, PUSHER, SENTINEL, WEB, UP = "worker", "monitor", "pusher", "sentinel", "web", "up"


def children(pid: int) -> list[int]:
    """The processes that this one started, the oldest first."""
    found: list[int] = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += [int(child) for child in (task / "children").read_text().split()]
    return sorted(found)


def descendants(pid: int) -> list[int]:
    """Every process below this one."""
    return [one for child in children(pid) for one in (child, *descendants(child))]


def alive(pid: int) -> bool:
    """Whether the process still runs; one that has ended and waits for its parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def _read(pid: int, name: str) -> list[str]:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
        return Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace").split("\0")
    return []


class Driver:
    """A process with the installation's settings that calls functions of `tests.chaos.work` by their names."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.work"],
            cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log.open("a"), text=True,
        )  # fmt: skip

    def __call__(self, name: str, *arguments: Any) -> Any:
        """What the function returned. Raises AssertionError with what it raised."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, *arguments]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '{"raised": "the driver has ended"}')
        if "raised" in answer:
            raise AssertionError(f"{name}{arguments}: {answer['raised']}")
        return answer["returned"]

    def processes(self) -> list[int]:
        """It and the commands that it has started."""
        return [self._process.pid, *descendants(self._process.pid)]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class Installation:
    """`manage.py up` in a folder of its own. `close` ends every process."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self.environment, self.folder = environment, folder
        self.address = f"http://127.0.0.1:{environment['PORT']}"
        self.log = folder / "up.log"
        self._started: list[subprocess.Popen] = []
        self._seen: set[int] = set()
        self.act = Driver(environment, folder / "driver.log")

    def up(self, *parts: str) -> None:
        """Start it, and wait until every process is there."""
        self._started.append(
            subprocess.Popen(
                [sys.executable, "manage.py", "up", *parts],
                cwd=ROOT,
                env=self.environment,
                stdout=self.log.open("a"),
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        )
        self.whole(*parts)

    def whole(self, *parts: str) -> None:
        """Wait until all clusters have their processes, episodes have theirs, and the web server answers."""
        wanted = parts or ("web", "jobs", "training", *([EPISODES] if orchestration.INSTALLED else []))
        for cluster in CLUSTERS:
            if cluster in wanted:
                self.until(lambda cluster=cluster: self.family(cluster), f"the processes of {cluster}")
        if EPISODES in wanted:
            self.until(self.of_episodes, "the process of episodes")
        if "web" in wanted:
            self.until(self.answers, "an answer of the web server")

    def clock(self) -> AvailableTime:
        """A new clock of the seconds in which processors were free for this installation and its driver."""
        return AvailableTime(reader(lambda: (*self.processes(), *self.act.processes())))

    def until(
        self, condition: Callable[[], Found], what: str, seconds: float = 60, clock: AvailableTime | None = None
    ) -> Found:
        """What was found by looking again and again, for so many seconds of a new clock. Raises AssertionError."""
        return until(condition, what, seconds, clock or self.clock())

    @property
    def root(self) -> int:
        return self._started[-1].pid

    def processes(self) -> list[int]:
        """Every process of the installation that lives now, `up` among them."""
        roots = (self.root,) if self._started else ()
        found = [pid for root in roots for pid in (root, *descendants(root)) if alive(pid)]
        self._seen.update(found)
        return found

    def left(self) -> list[int]:
        """Those of all processes that were ever seen which still live."""
        return [pid for pid in self._seen if alive(pid)]

    def parent_of_web(self) -> int:
        """The process that keeps the web workers alive; 0 while there is none."""
        return next(
            (pid for pid in self.processes() if any("supervisor.py" in word for word in _read(pid, "cmdline"))), 0
        )

    def family(self, cluster: str) -> dict[str, int]:
        """What a process does in a cluster, and its id: sentinel, worker, "worker 2" and so on, monitor, pusher. Empty while they are
        not all there."""
        name = CLUSTERS[cluster]
        for pid in self.processes():
            command = _read(pid, "cmdline")
            named = "Q_CLUSTER_NAME=train" in _read(pid, "environ")
            if "manage.py" not in " ".join(command) or named != (name == "train") or "up" in command:
                continue
            own = [child for child in children(pid) if alive(child) and _read(child, "cmdline") == command]
            if len(own) >= (3 if named else 4):  # of training one worker, of all other jobs two
                more = {f"{WORKER} {number}": worker for number, worker in enumerate(own[1:-2], start=2)}
                return {SENTINEL: pid, WORKER: own[0], **more, MONITOR: own[-2], PUSHER: own[-1]}
        return {}

    def of_episodes(self) -> int:
        """The process that runs episodes, 0 while there is none."""
        return next((pid for pid in self.processes() if "run_episodes" in _read(pid, "cmdline")), 0)

    def web(self) -> int:
        """One process that answers requests."""
        for pid in self.processes():
            if "routerweb.serving.worker" in _read(pid, "cmdline") and _read(pid, "cmdline")[1:2] != ["-I"]:
                return pid
        raise AssertionError("there is no web process")

    def pid_of(self, what: str, cluster: str) -> int:
        """The process of that kind: of the web, of all, of episodes, or of a cluster."""
        if what == UP:
            return self.root
        if cluster == EPISODES:
            return self.until(self.of_episodes, "the process of episodes")
        if what == WEB:
            return self.web()
        return self.until(lambda: self.family(cluster), f"the processes of {cluster}")[what]

    def kill(self, what: str, cluster: str = "jobs") -> int:
        """`kill -9` of a process of that kind; its id."""
        self.processes()
        pid = self.pid_of(what, cluster)
        os.kill(pid, signal.SIGKILL)
        if what == UP:
            self._started[-1].wait()
        return pid

    def answers(self) -> bool:
        """Whether the web server does."""
        try:
            return httpx.get(f"{self.address}/login/", timeout=5).status_code == 200
        except httpx.TransportError:
            return False

    def close(self) -> None:
        self.act.close()
        for process in self._started:
            if process.poll() is None:
                process.terminate()
        end = time.monotonic() + 30
        while time.monotonic() < end and any(process.poll() is None for process in self._started):
            time.sleep(0.1)
        for pid in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self._started:
            process.kill()
            process.wait()
