"""Orchestration under load, with real servers and processes: `python -m benchmarks.orchestration.run [PART …] [--json FILE]`.

- `faults`: episodes whose agents misbehave (time-outs, 429, 500, cut off, 10 MB, malformed, dripping, reset) in a third of the calls:
  each has to end with an answer or a clear error, nothing may be lost, no budget exceeded, no work done twice.
- `once`: the same where agents know no Idempotency-Key, and executors may not be called again.
- `parts`: 150 tasks of two parts and 150 of three, faults in 8 % of the calls: each part has to stand in the answer, or be named as
  missing.
- `overhead`: 2, 10, 30 and 100 episodes at once, agents that answer in 200 ms: what a step takes beyond that, in time and in processor
  time, and what routing takes beside it. `--postgresql` does it on a PostgreSQL server of its own.
- `kill`: `kill -9` of the process that runs episodes, of the one that went on, and of the web server, in mid-episode.
"""

import argparse
import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from contextlib import nullcontext
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import mean, quantiles
from typing import Any

import psycopg

from benchmarks.machines.site import ROOT, Machine, Site, free_port, wait_for
from tests import on_postgresql

HERE = Path(__file__).parent
BUDGET = 0.02


class Agents:
    """The agents' server as a process of its own."""

    def __init__(self, *words: str) -> None:
        self.port = free_port()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.orchestration.agents", str(self.port), *words],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
        )
        wait_for(lambda: self._answers(), "the agents' first answer", 30)

    def _answers(self) -> bool:
        try:
            return bool(self.counts())
        except OSError:
            return False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def counts(self) -> dict[str, Any]:
        """What they were asked."""
        found: dict[str, Any] = asyncio.run(ask(self.port, "GET", "/counts"))[1]
        return found

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


async def ask(port: int, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """One request on a connection of its own; the status, and the JSON of the answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    raw = b"" if body is None else json.dumps(body).encode()
    fields = {"Host": f"127.0.0.1:{port}", "Connection": "close", "Content-Length": str(len(raw)), **headers}
    if raw:
        fields["Content-Type"] = "application/json"
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
    writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + raw)
    await writer.drain()
    status = int((await reader.readline()).split(b" ")[1])
    chunked, length = False, -1
    while (line := await reader.readline()) not in (b"\r\n", b""):
        name, _colon, value = line.decode("latin-1").partition(":")
        chunked |= name.lower() == "transfer-encoding" and "chunked" in value
        length = int(value) if name.lower() == "content-length" else length
    content = await _chunks(reader) if chunked else await (reader.readexactly(length) if length >= 0 else reader.read())
    writer.close()
    return status, json.loads(content) if content else None


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    found = b""
    while size := int(await reader.readline(), 16):
        found += await reader.readexactly(size)
        await reader.readline()
    return found


class World:
    """A site with the pool "crew", one web server, one process that runs episodes, and the agents."""

    def __init__(self, folder: Path, agents: Agents, *, calls: int, database: str = "", **more: str) -> None:
        self.agents, self.database = agents, database or f"sqlite:///{folder / 'db.sqlite3'}"
        self.site = Site(folder, self.database, INTERNAL_HOSTS="127.0.0.1", SECRET_KEY="k7Qz" * 12 + "abcdefghijkl")
        self.site.environment |= {"AGENTS": agents.url, "CALLS": str(calls), **more}
        self.site.manage("migrate", "--verbosity", "0")
        self.site.manage("shell", "-c", (HERE / "crew.py").read_text())
        self.key = self.site.key("crew", "route")
        self.web = self.site.start("web")
        self.episodes = self.start()

    def start(self) -> Machine:
        """One more process that runs episodes."""
        before = self._signs()
        started = self.site.start("episodes")
        wait_for(lambda: self._signs() > before, "a sign of what runs episodes", 60)
        return started

    def _signs(self) -> int:
        return int(self.rows("SELECT count(*) FROM agents_app_clustersign WHERE queue = 'episodes'")[0][0])

    async def episode(self, task: str, key: str = "", **body: Any) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self.key}", **({"Idempotency_Key": key} if key else {})}
        return await ask(self.web.port, "POST", "/api/orchestrate/", {"task": task, **body}, **headers)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        if self.database.startswith("postgresql:"):
            with psycopg.connect(self.database) as server:
                return server.execute(sql.encode()).fetchall()
        with sqlite3.connect(self.database.removeprefix("sqlite:///"), timeout=30) as connection:
            return connection.execute(sql).fetchall()

    def processor_seconds(self) -> float:
        """What the web server's processes and those that run episodes have used so far."""
        ticks = 0
        for pid in [*self.web.processes(), *self.episodes.processes()]:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self.site.close()
        self.agents.close()


# --- Faults -----------------------------------------------------------------------------------------------------------


def faults(folder: Path, count: int, *words: str, **more: str) -> dict[str, Any]:
    """Episodes with agents that misbehave."""
    agents = Agents("--faults", "0.33", *words)
    world = World(folder, agents, calls=3, SECONDS="2", WEBHOOKS="1", **more)
    try:
        began = time.monotonic()
        answers = asyncio.run(_many(world, count, 200))
        seconds = time.monotonic() - began
        again = asyncio.run(_many(world, 20, 20))  # the same Idempotency-Keys: the same episodes
        counts = agents.counts()
        ended = [answer for status, answer in answers if status == 200]
        return {
            "episodes": count,
            "seconds": round(seconds, 1),
            "answered": sum(one["status"] == "done" for one in ended),
            "partial, missing parts named": sum(one["status"] == "partial" and bool(one["missing"]) for one in ended),
            "with a clear error": sum(one["status"] == "failed" and bool(one["error"]) for one in ended),
            "neither": count - sum(one["status"] == "done" or bool(one["error"]) for one in ended),
            "other answers": [[status, answer] for status, answer in answers if status != 200][:3],
            "faults in the log": _logged(world.web) + _logged(world.episodes),
            "rows": world.rows("SELECT count(*) FROM orchestration_app_episode")[0][0],
            "rows that still run": world.rows(
                "SELECT count(*) FROM orchestration_app_episode WHERE status IN ('queued', 'running')"
            )[0][0],
            "steps that still run": world.rows("SELECT count(*) FROM orchestration_app_step WHERE status = 'running'")[
                0
            ][0],
            "budget exceeded": sum(one["cost"] > BUDGET + 1e-9 for one in ended),
            "retries that were another episode": sum(
                a[1]["episode_id"] != b[1]["episode_id"] for a, b in zip(answers, again, strict=False)
            ),
            "failures": dict(
                world.rows("SELECT failure, count(*) FROM orchestration_app_step WHERE failure != '' GROUP BY failure")
            ),
            "agents": {name: value if not isinstance(value, list) else len(value) for name, value in counts.items()},
        }
    finally:
        world.close()


def _logged(web: Machine) -> list[str]:
    """The last lines of each traceback."""
    lines = web.log.read_text().splitlines()
    return sorted(
        {line for line in lines if line and line[0].isalpha() and ("Error: " in line or "Exception: " in line)}
    )


async def _many(world: World, count: int, at_once: int) -> list[tuple[int, Any]]:
    places = asyncio.Semaphore(at_once)

    async def one(number: int) -> tuple[int, Any]:
        async with places:
            return await world.episode(f"task {number}", f"key-{number}", budget=BUDGET)

    return await asyncio.gather(*(one(number) for number in range(count)))


# --- Parts ------------------------------------------------------------------------------------------------------------


def parts(folder: Path, count: int) -> dict[str, Any]:
    """Tasks of so many parts, by chats and a webhook: what of them is in the answer, and what is named as missing."""
    return {f"tasks of {wanted} parts": _of_parts(folder / str(wanted), wanted, count) for wanted in (2, 3)}


def _of_parts(folder: Path, wanted: int, count: int) -> dict[str, Any]:
    folder.mkdir()
    agents = Agents("--faults", "0.08")
    world = World(folder, agents, calls=wanted, SECONDS="2", WEBHOOKS="1")
    try:
        answers = [answer for status, answer in asyncio.run(_many(world, count, 20)) if status == 200]
        counts = agents.counts()
        return {
            "tasks": count,
            "status": dict(Counter(answer["status"] for answer in answers)),
            "parts": wanted * count,
            "parts in the answer": sum(_there(answer) for answer in answers),
            "parts named as missing": sum(len(answer["missing"]) for answer in answers),
            "done with a part lost": sum(one["status"] == "done" and _there(one) < wanted for one in answers),
            "calls": counts["calls"],
            "attempts": counts["attempts"],
            "work done twice": len(counts["worked_twice"]),
        }
    finally:
        world.close()


def _there(answer: dict[str, Any]) -> int:
    """The parts whose output stands in the answer under its agent's name."""
    whole = answer["answer"] or ""
    return sum(one["name"] in whole and one["output"] in whole for one in answer["outputs"])


# --- Overhead ---------------------------------------------------------------------------------------------------------


def overhead(folder: Path, calls: int, delay: float, database: str = "") -> dict[str, Any]:
    """More and more episodes at once, and routing beside the most of them."""
    agents = Agents("--delay", str(delay))
    world = World(folder, agents, calls=calls, database=database, SECONDS="30")
    try:
        asyncio.run(_wave(world, 5))  # everything loaded
        alone = asyncio.run(_decisions(world, seconds=4.0))
        return {
            "an agent's answer, ms": delay * 1000,
            "calls of an episode": calls,
            "at once": {count: _at_once(world, count, calls, delay) for count in (2, 10, 30, 100)},
            "a decision of the API alone, ms": _figures([1000 * value for value in alone]),
            "connections at the agents": agents.counts()["busiest"],
            "load of the machine": os.getloadavg()[0],
        }
    finally:
        world.close()


def _at_once(world: World, count: int, calls: int, delay: float) -> dict[str, Any]:
    """So many episodes that begin in the same moment: first alone, then beside decisions of `/api/orchestrate/next/`."""
    before = {key for (key,) in world.rows("SELECT id FROM orchestration_app_episode")}
    used, began = world.processor_seconds(), time.monotonic()
    took = asyncio.run(_wave(world, count))
    seconds, used = time.monotonic() - began, world.processor_seconds() - used
    beyond = [1000 * (one - calls * delay) / calls for one in took]
    between = _between(world, delay, before)
    beside = asyncio.run(_beside(world, count))
    return {
        "from one step's beginning to the next, less the agent, ms": _figures(between),
        "of a whole episode, a step, ms": _figures(beyond),
        "processor time a step, ms": round(1000 * used / (calls * count), 2),
        "steps a second": round(calls * count / seconds, 1),
        "a decision of the API beside them, ms": _figures([1000 * value for value in beside]),
    }


def _between(world: World, delay: float, before: set[Any]) -> list[float]:
    """Milliseconds from the row of a call to the row of the next, less what its agent took: all that a step costs beside it."""
    rows = world.rows("SELECT episode_id, at FROM orchestration_app_step ORDER BY episode_id, turn")
    times = [(key, _seconds(at)) for key, at in rows if key not in before]
    return [1000 * (b[1] - a[1] - delay) for a, b in pairwise(times) if a[0] == b[0]]


def _seconds(at: datetime | str) -> float:
    return (datetime.fromisoformat(at) if isinstance(at, str) else at).timestamp()


async def _wave(world: World, count: int) -> list[float]:
    async def one(number: int) -> float:
        began = time.monotonic()
        status, answer = await world.episode(f"task {number}")
        assert status == 200, answer
        assert answer["status"] == "done", answer
        return time.monotonic() - began

    return await asyncio.gather(*(one(number) for number in range(count)))


async def _decisions(world: World, seconds: float) -> list[float]:
    """What a next-step decision takes: a whole request of the API, with its policy."""
    took, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        headers = {"Authorization": f"Bearer {world.key}"}
        status, _answer = await ask(world.web.port, "POST", "/api/orchestrate/next/", {"task": "a task"}, **headers)
        assert status == 200
        took.append(time.monotonic() - began)
        await asyncio.sleep(0.02)
    return took


async def _beside(world: World, count: int) -> list[float]:
    wave = asyncio.ensure_future(_wave(world, count))
    took: list[float] = []
    while not wave.done():
        took += await _decisions(world, 0.2)
    await wave
    return took


def _figures(values: list[float]) -> dict[str, float]:
    cuts = quantiles(values, n=100)
    return {"mean": round(mean(values), 2), "p50": round(cuts[49], 2), "p99": round(cuts[98], 2)}


# --- Kill -9 ----------------------------------------------------------------------------------------------------------


def kill(folder: Path, count: int) -> dict[str, Any]:
    """`kill -9` of the process that runs episodes, then of its successor, then of the web server."""
    agents = Agents("--delay", "1.5")
    world = World(folder, agents, calls=40, SECONDS="20")
    try:
        asyncio.run(_begin(world, count))
        wait_for(lambda: _done(world) >= 2 * count, "two steps of each", 120)
        first, world.episodes = world.episodes, world.start()
        killed = {"the first": _killed(world, first)}
        wait_for(lambda: _done(world) >= 5 * count, "five steps of each", 180)
        second, world.episodes = world.episodes, world.start()
        killed["its successor"] = _killed(world, second)
        world.web.kill()
        wait_for(lambda: not _running(world), "the end of all", 400)
        counts = agents.counts()
        return {
            "episodes": count,
            "killed": killed,
            "answered": world.rows("SELECT count(*) FROM orchestration_app_episode WHERE status = 'done'")[0][0],
            "steps": dict(
                world.rows("SELECT status, count(*) FROM orchestration_app_step WHERE call IS NOT NULL GROUP BY status")
            ),
            "calls": counts["calls"],
            "attempts": counts["attempts"],
            "work done twice": len(counts["worked_twice"]),
        }
    finally:
        world.close()


async def _begin(world: World, count: int) -> None:
    for number in range(count):
        status, _answer = await world.episode(f"task {number}", uuid.uuid4().hex, wait=False)
        assert status == 202


def _killed(world: World, machine: Machine) -> dict[str, Any]:
    kept, attempts = _done(world), dict(world.rows("SELECT id, attempts FROM orchestration_app_episode"))
    machine.kill()
    began = time.monotonic()

    def resumed() -> int:
        now = world.rows("SELECT id, attempts FROM orchestration_app_episode WHERE status != 'queued'")
        return sum(count > attempts[key] for key, count in now)

    waiting = len(world.rows("SELECT id FROM orchestration_app_episode WHERE status = 'running'"))
    first = wait_for(lambda: resumed() and time.monotonic() - began, "the first that is resumed", 120)
    wait_for(lambda: resumed() >= waiting, "all that were resumed", 120)
    return {
        "in mid-episode": waiting, "first resumed after, s": round(first, 1),
        "all resumed after, s": round(time.monotonic() - began, 1), "steps before": kept, "steps lost": max(kept - _done(world), 0),
    }  # fmt: skip


def _done(world: World) -> int:
    return int(
        world.rows("SELECT count(*) FROM orchestration_app_step WHERE status = 'done' AND call IS NOT NULL")[0][0]
    )


def _running(world: World) -> int:
    return int(world.rows("SELECT count(*) FROM orchestration_app_episode WHERE status IN ('queued', 'running')")[0][0])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["faults", "once", "parts", "overhead", "kill"])
    parser.add_argument("--episodes", type=int, default=1_000, help="of the part faults")
    parser.add_argument("--postgresql", action="store_true", help="of the part overhead")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report: dict[str, Any] = {}
    for part in options.parts:
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
            if part == "faults":
                report[part] = faults(Path(folder), options.episodes)
            elif part == "once":
                report[part] = faults(Path(folder), options.episodes, "--no-keys", REPEATABLE="0")
            elif part == "parts":
                report[part] = parts(Path(folder), 150)
            elif part == "overhead":
                with on_postgresql.server() if options.postgresql else nullcontext("") as database:
                    report[part] = overhead(Path(folder), 10, 0.2, database)
            else:
                report[part] = kill(Path(folder), 40)
        print(json.dumps({part: report[part]}, indent=1), flush=True)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))
