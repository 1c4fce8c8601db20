"""An installation on several machines: a PostgreSQL server, web servers and workers as real processes, each with its own folder.

They are started by `manage.py up web` and `manage.py up worker`, as `make web` and `make worker` do.
"""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 120, every: float = 0.2) -> Any:
    """What the condition gave once it gave something. Raises AssertionError after so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(every)
    raise AssertionError(f"{what} did not happen within {seconds:.0f} seconds")


def tree(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += tree(int(child))
    return found


def owner_of_port(port: int, among: list[int]) -> int | None:
    """Which of these processes holds the local end of a TCP connection at that port."""
    inodes = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        columns = line.split()
        if int(columns[1].split(":")[1], 16) == port:
            inodes.add(f"socket:[{columns[9]}]")
    for pid in among:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            for handle in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):
                    if str(handle.readlink()) in inodes:
                        return pid
    return None


@dataclass
class Machine:
    """One started part: its process, and the port where it is a web server."""

    name: str
    process: subprocess.Popen
    log: Path
    port: int = 0

    def processes(self) -> list[int]:
        return tree(self.process.pid)

    def kill(self) -> None:
        """What a power cut does: nobody can say goodbye."""
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def get(self, path: str, key: str = "") -> tuple[int, Any]:
        return self._ask("GET", path, key, None)

    def post(self, path: str, key: str, body: dict) -> tuple[int, Any]:
        return self._ask("POST", path, key, body)

    def _ask(self, method: str, path: str, key: str, body: dict | None) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"} if key else {}
            connection.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())


class Site:
    """The machines of one installation; `close` ends them all."""

    def __init__(self, folder: Path, database: str, **settings: str) -> None:
        self.folder = folder
        outer = {name: value for name, value in os.environ.items() if name not in ("DATA_DIR", "DATABASE_URL", "PORT")}
        self.environment = {
            **outer, "DATABASE_URL": database, "SECRET_KEY": "only-for-this-site-of-a-benchmark", "PLAIN_HTTP": "1",
            "DATA_DIR": str(self._data("here")), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **settings,
        }  # fmt: skip
        self.machines: list[Machine] = []

    def _data(self, name: str) -> Path:
        data = self.folder / name
        (data / "static").mkdir(parents=True, exist_ok=True)
        return data

    def manage(self, *words: str, check: bool = True) -> subprocess.CompletedProcess:
        done = subprocess.run(
            [sys.executable, "manage.py", *words],
            cwd=ROOT, env=self.environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        if check and done.returncode:
            raise AssertionError(f"manage.py {' '.join(words)}\n{done.stdout}\n{done.stderr}")
        return done

    def start(self, part: str, port: int = 0) -> Machine:
        """One more machine: part is web or worker. A web server listens at a free port where none is given."""
        name = f"{part}-{len(self.machines) + 1}"
        port = port or free_port()
        data, log = self._data(name), self.folder / f"{name}.log"
        with log.open("w") as out:
            process = subprocess.Popen(
                [sys.executable, "manage.py", "up", part],
                cwd=ROOT, env={**self.environment, "DATA_DIR": str(data), "PORT": str(port)}, stdout=out, stderr=out,
                start_new_session=True,
            )  # fmt: skip
        machine = Machine(name, process, log, port if part == "web" else 0)
        self.machines.append(machine)
        if part == "web":
            wait_for(lambda: healthy(machine), f"the first answer of {name}", 120)
        return machine

    def restart(self, machine: Machine) -> Machine:
        """Stop it in order and start its part again, a web server at the same port."""
        machine.process.terminate()
        machine.process.wait(timeout=60)
        return self.start(machine.name.partition("-")[0], machine.port)

    def close(self) -> None:
        for machine in self.machines:
            if machine.process.poll() is None:
                machine.process.terminate()
        for machine in self.machines:
            try:
                machine.process.wait(timeout=40)
            except subprocess.TimeoutExpired:
                machine.kill()

    def key(self, pool: str, *scopes: str) -> str:
        words = [word for scope in scopes for word in ("--scope", scope)]
        found = re.search(r"rw_\S+", self.manage("create_api_key", "load", "--pool", pool, *words).stdout)
        assert found
        return found[0]


def healthy(machine: Machine) -> bool:
    try:
        return machine.get("/api/health/")[0] == 200
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Answered:
    """One request under load: when it began and ended (monotonic seconds), its status and model; status 0 is a broken connection."""

    began: float
    ended: float
    status: int
    model: str
    said: str
    machine: str


@dataclass
class Load:
    """Connections that route without an end, each waiting `pause` seconds between two queries; stops with the block."""

    machines: list[Machine]
    key: str
    texts: list[str]
    connections: int = 8
    pause: float = 0.02
    answered: list[Answered] = field(default_factory=list)

    def _route(self, number: int) -> None:
        machine = self.machines[number % len(self.machines)]
        headers = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        connection = http.client.HTTPConnection("127.0.0.1", machine.port, timeout=30)
        turn = number
        while not self._end.wait(self.pause):
            turn += 1
            began = time.monotonic()
            try:
                body = json.dumps({"query": self.texts[turn % len(self.texts)]})
                connection.request("POST", "/api/route/", body, headers)
                answer = connection.getresponse()
                said = answer.read()
                model = json.loads(said)["model"] if answer.status == 200 else ""
                found = Answered(
                    began, time.monotonic(), answer.status, model, "" if model else said.decode()[:200], machine.name
                )
            except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
                found = Answered(began, time.monotonic(), 0, "", f"{type(error).__name__}: {error}", machine.name)
                connection.close()
            self.answered.append(found)

    def __enter__(self) -> "Load":
        self._end = threading.Event()
        self._threads = [threading.Thread(target=self._route, args=(i,), daemon=True) for i in range(self.connections)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join(timeout=60)

    @property
    def failed(self) -> list[Answered]:
        return [one for one in self.answered if one.status != 200]


@contextlib.contextmanager
def small_disk(folder: Path, megabytes: int) -> Iterator[Path | None]:
    """A disk of that size, made of memory; None where this user may not mount one."""
    disk = folder / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        yield None
        return
    disk.chmod(0o777)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=False)


def fill(disk: Path) -> Path:
    """Fill a disk to its last byte; deleting the file that is returned frees it."""
    path = disk / "filler"
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * size)
    return path
