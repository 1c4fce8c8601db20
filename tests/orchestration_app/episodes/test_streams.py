"""Episodes streamed by the real server: steps come as they happen, cancelled ones end, and many listeners hold no thread."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.routerweb.test_server import ROOT, Server, environment, prepared, python  # noqa: F401
from tests.thorough import EVERYTHING

pytestmark = [pytest.mark.process, pytest.mark.any_database]

#: How many listen at once, and how long an agent takes that answers after all of them are there.
LISTENERS, SECONDS = (100, 20.0) if EVERYTHING else (40, 8.0)
#: The first agent of "refund the invoice and the app crashes" answers at once, the other, which needs what the first said, after a
#: time that no test waits out but one.
EXECUTORS = f"""
import django
django.setup()
from orchestration_app import executors
from agents_app.models import Agent
for agent in Agent.objects.all():
    script = {{"do": "say", "text": agent.name, "seconds": {SECONDS} if agent.name == "Technical" else 0.0}}
    values = {{"kind": "scripted", "script": script, "seconds": 60, "most_cost": agent.number}}
    executors.save(agent, {{**values, "reads_others": agent.name == "Technical"}}, secret=None, actor=None)
"""
TWO = {"task": "refund the invoice and the app crashes"}


class Runner:
    """The process that runs the episodes of an installation; started again, it is in the same slot."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._slot = folder, os.urandom(6).hex()
        self.start()

    def start(self) -> None:
        with (self._folder / "episodes.log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "manage.py", "run_episodes"],
                env=environment(self._folder, ROUTERWEB_CLUSTER=self._slot), cwd=ROOT, stdout=log, stderr=log,
            )  # fmt: skip

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(20)


def signed(folder: Path) -> bool:
    """Whether a process that runs episodes has said so."""
    with contextlib.closing(sqlite3.connect(folder / "web.sqlite3")) as database:
        return database.execute("SELECT count(*) FROM agents_app_clustersign WHERE queue = 'episodes'").fetchone() != (
            0,
        )


@pytest.mark.at_length
def test_a_call_that_waits_is_refused_while_nobody_runs_episodes(
    tmp_path: Path,
    prepared: tuple[Path, str],  # noqa: F811
) -> None:
    folder = Path(shutil.copytree(prepared[0], tmp_path / "installation"))
    python(folder, "-c", EXECUTORS)
    alone = Server(folder, prepared[1])
    try:
        refused = asyncio.run(answer(alone, "POST", "/api/orchestrate/", TWO))
        assert refused["error"]["code"] == "no_runner"
        assert "manage.py up episodes" in refused["error"]["hint"]
        with contextlib.closing(sqlite3.connect(folder / "web.sqlite3")) as database:
            assert database.execute("SELECT count(*) FROM orchestration_app_episode").fetchone() == (0,)
        queued = asyncio.run(answer(alone, "POST", "/api/orchestrate/", {**TWO, "wait": False}))
        assert queued["status"] == "queued"
    finally:
        os.killpg(alone.process.pid, signal.SIGKILL)
        alone.process.wait(10)


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[Path, str]) -> Path:  # noqa: F811
    folder = Path(shutil.copytree(prepared[0], tmp_path_factory.mktemp("streams") / "installation"))
    python(folder, "-c", EXECUTORS)
    return folder


@pytest.fixture(scope="module")
def runner(installation: Path) -> Iterator[Runner]:
    started = Runner(installation)
    yield started
    started.end(signal.SIGKILL)


@pytest.fixture(scope="module")
def server(installation: Path, runner: Runner, prepared: tuple[Path, str]) -> Iterator[Server]:  # noqa: F811
    started = Server(installation, prepared[1])
    until = time.monotonic() + 60
    while not signed(installation):
        assert time.monotonic() < until, "the process that runs episodes gave no sign"
        time.sleep(0.1)
    yield started
    os.killpg(started.process.pid, signal.SIGKILL)
    started.process.wait(10)


class Stream:
    """One streamed episode: its events, one after another."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def event(self) -> tuple[str, Any]:
        """The next one, a word and what there is to say."""
        word = ""
        async with asyncio.timeout(120):
            while line := await self._reader.readline():
                if line.startswith(b"event: "):
                    word = line[7:].strip().decode()
                elif line.startswith(b"data: "):
                    return word, json.loads(line[6:])
        raise AssertionError("the stream ended")


@contextlib.asynccontextmanager
async def streamed(server: Server, body: dict[str, Any]) -> AsyncIterator[Stream]:
    reader, writer = await asked(server, "POST", "/api/orchestrate/", body, "Accept: text/event-stream\r\n")
    assert b" 200 " in await reader.readline()
    yield Stream(reader)
    writer.transport.abort()


async def asked(
    server: Server, method: str, path: str, body: Any, more: str = ""
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.address.rpartition(":")[2]))
    raw = json.dumps(body).encode()
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {server.key}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(raw)}\r\n{more}\r\n"
    )
    writer.write(head.encode() + raw)
    return reader, writer


async def answer(server: Server, method: str, path: str, body: Any = None) -> Any:
    reader, writer = await asked(server, method, path, {} if body is None else body)
    async with asyncio.timeout(120):
        whole = await reader.read()
    writer.close()
    content = whole.partition(b"\r\n\r\n")[2]
    return json.loads(content[content.index(b"{") : content.rindex(b"}") + 1])


@pytest.mark.at_length
def test_steps_come_while_the_episode_goes_on_and_a_cancelled_one_ends(server: Server) -> None:
    async def listen() -> None:
        async with streamed(server, TWO) as stream:
            word, told = await stream.event()
            assert word == "episode"
            path = f"/api/episodes/{told['episode_id']}/"
            assert (await stream.event())[0] == "chosen"
            word, step = await stream.event()
            assert (word, step["name"], step["output"]) == ("step", "Billing", "Billing")
            word, chosen = await stream.event()
            assert (word, chosen["names"]) == ("chosen", ["Technical"])
            assert (await answer(server, "GET", path))["status"] == "running"
            await answer(server, "POST", f"{path}cancel/")
            word, end = await stream.event()
            assert (word, end["status"], end["stop_reason"]) == ("end", "cancelled", "cancelled")

    asyncio.run(listen())


@pytest.mark.at_length
@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_many_streams_hold_no_thread_and_their_episodes_go_on_without_them(server: Server) -> None:
    async def listen() -> None:
        async with streamed(server, TWO) as first:
            await first.event()
        before = threads(server)
        listening = [streamed(server, TWO) for _ in range(LISTENERS)]
        streams = await asyncio.gather(*(one.__aenter__() for one in listening))
        begun = await asyncio.gather(*(one.event() for one in streams))
        assert threads(server) < before + 20
        assert (await answer(server, "POST", "/api/route/", {"query": "the parcel is late"}))["agents"] == [1]
        await asyncio.gather(*(one.__aexit__(None, None, None) for one in listening))  # they go away
        for _word, told in begun:
            path = f"/api/episodes/{told['episode_id']}/"
            async with asyncio.timeout(120):
                while (await answer(server, "GET", path))["status"] in ("queued", "running"):
                    await asyncio.sleep(0.2)
            assert "## Technical\n\nTechnical" in (await answer(server, "GET", path))["answer"]

    asyncio.run(listen())


@pytest.mark.at_length
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_end_of_their_process_loses_no_step_and_calls_nobody_twice(
    server: Server, runner: Runner, number: int
) -> None:
    """The second agent is called when the process ends; its successor goes on from there at once, in the same slot."""

    async def listen() -> None:
        async with streamed(server, TWO) as stream:
            key = (await stream.event())[1]["episode_id"]
            assert [(await stream.event())[0] for _ in range(3)] == ["chosen", "step", "chosen"]
            runner.end(number)
            runner.start()
            word, step = await stream.event()
            assert (word, step["name"], step["output"]) == ("step", "Technical", "Technical")
            word, end = await stream.event()
            assert (word, end["status"], end["steps"]) == ("end", "done", 2)
            assert end["answer"].endswith("Technical")
            told = await answer(server, "GET", f"/api/episodes/{key}/")
            calls = [one["name"] for one in told["trajectory"] if one["agent"] is not None]
            assert calls == ["Billing", "Technical"]

    asyncio.run(listen())


def threads(server: Server) -> int:
    """Of the process that answers."""
    return sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in server.workers())
