"""Agents behind real servers, called for tasks of several parts: `python -m benchmarks.orchestration.called [PART …] [--json FILE]`.

One pool has an agent behind a2a-sdk's server, one behind mcp's, one behind an OpenAI-compatible server, and a webhook; a set router
that was trained on labeled texts chooses among them.

- `parts`: 300 tasks of two or three parts, faults in 8 % of the calls: each part has to stand in the answer, or be named as missing.
- `kill`: 1,000 episodes, half of which wait for a person's answer, while `kill -9` meets every four seconds the process that runs
  episodes, the web server, and the worker, in turn.
- `gateway`: OpenAI's own client, streaming through `/v1/chat/completions`; what that adds to the agent's own stream.
"""

import argparse
import asyncio
import itertools
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks.machines.site import ROOT, Machine, Site, free_port, wait_for
from benchmarks.orchestration.run import ask

KINDS = ("a2a", "mcp", "openai", "webhook")
NAMES = {"a2a": "Account", "mcp": "Stock", "openai": "Writer", "webhook": "Billing"}
WORDS = {
    "a2a": ("reset my password", "unlock my account login", "change the account e-mail"),
    "mcp": ("how many chairs are in stock", "is the lamp available in the warehouse", "check the stock of tables"),
    "openai": ("write a thank-you note", "draft a letter to my landlord", "compose a short poem"),
    "webhook": ("I was charged twice on my invoice", "refund the payment", "send me the invoice again"),
}
SET_UP = """
import json, os
from agents_app import pools
from agents_app.models import AgentSource
from agents_app.sources import catalog
from orchestration_app import executors, prefilled
from orchestration_app.models import Executor
ports = json.loads(os.environ["AGENT_PORTS"])
pool = pools.create_pool("Crew", "crew")
catalog.approve(catalog.look(pool, f"http://127.0.0.1:{ports['a2a']}", AgentSource.Kind.CARD, actor=None), actor=None)
catalog.approve(catalog.look(pool, f"http://127.0.0.1:{ports['mcp']}/mcp", AgentSource.Kind.TOOLS, actor=None), actor=None)
prefilled.set_up(pool, actor=None)
writer, billing = (pools.add_agent(pool, name, cost=0.001) for name in ("Writer", "Billing"))
chat = {"kind": "chat", "address": f"http://127.0.0.1:{ports['openai']}/v1", "model": "m", "price_in": 1.0, "price_out": 2.0}
executors.save(writer, chat, secret="sk-benchmark", actor=None)
hook = {"kind": "webhook", "address": f"http://127.0.0.1:{ports['webhook']}/hook"}
executors.save(billing, hook, secret="a secret of a benchmark", actor=None)
stock = Executor.objects.get(agent__name="Stock")
executors.save(stock.agent, {"options": {"tool": "answer"}}, actor=None)
for row in Executor.objects.select_related("agent"):
    executors.save(row.agent, {"seconds": 5.0, "retries": 3, "repeatable": False}, actor=None)
"""


class Agent:
    """One agent's server as a process of its own."""

    def __init__(self, kind: str, *words: str) -> None:
        self.kind, self.port = kind, free_port()
        module = "benchmarks.orchestration.protocol_servers"
        self.process = subprocess.Popen(
            [sys.executable, "-m", module, kind, str(self.port), *words], cwd=ROOT, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_for(self._answers, f"the first answer of {kind}", 60)

    def _answers(self) -> bool:
        try:
            return bool(self.counts())
        except OSError:
            return False

    def counts(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/counts", timeout=10) as answer:
            counts: dict[str, Any] = json.load(answer)
            return counts


class World:
    """A site with the pool "crew", its four agents, a web server, a worker and one process that runs episodes."""

    def __init__(self, folder: Path, faults: float = 0.0) -> None:
        self.agents = {kind: Agent(kind, "--faults", str(faults)) for kind in KINDS}
        self.site = Site(folder, f"sqlite:///{folder / 'db.sqlite3'}", INTERNAL_HOSTS="127.0.0.1")
        self.site.environment["AGENT_PORTS"] = json.dumps({kind: one.port for kind, one in self.agents.items()})
        self.site.manage("migrate", "--verbosity", "0")
        self.site.manage("shell", "-c", SET_UP)
        file = folder / "queries.jsonl"
        ids = {"a2a": 0, "mcp": 1, "openai": 2, "webhook": 3}
        rows = [
            {"text": text, "required_agents": [ids[kind] for kind in kinds]} for text, kinds in tasks(400, (1, 2, 3), seed=1)
        ]  # fmt: skip
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.site.manage("import_queries", str(file), "--pool", "crew")
        self.site.manage("dataset_split", "--pool", "crew")
        self.site.manage("train", "--pool", "crew", "--set", "recipe=classifier", "--promote")
        self.key = self.site.key("crew", "route")
        self.machines = {part: self.site.start(part) for part in ("web", "episodes", "worker")}
        wait_for(self._signs, "a sign of what runs episodes", 60)

    def _signs(self) -> bool:
        status, _answer = asyncio.run(self.episode(tasks(1, (1,))[0][0]))
        return status == 200

    @property
    def web(self) -> Machine:
        return self.machines["web"]

    async def episode(self, task: str, **body: Any) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self.key}"}
        return await ask(self.web.port, "POST", "/api/orchestrate/", {"task": task, **body}, **headers)

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        return (await ask(self.web.port, method, path, body, Authorization=f"Bearer {self.key}"))[1]

    def worked_twice(self) -> list[str]:
        return [key for one in self.agents.values() for key in one.counts()["worked_twice"]]

    def close(self) -> None:
        self.site.close()
        for one in self.agents.values():
            one.process.terminate()


def tasks(count: int, sizes: tuple[int, ...], seed: int = 0) -> list[tuple[str, tuple[str, ...]]]:
    """Texts of so many parts, and the agents that each needs."""
    draw = random.Random(seed)
    found = []
    for size in itertools.islice(itertools.cycle(sizes), count):
        kinds = tuple(draw.sample(KINDS, size))
        found.append((" and ".join(draw.choice(WORDS[kind]) for kind in kinds), kinds))
    return found


def parts(world: World, count: int) -> dict[str, Any]:
    """What of the tasks' parts is in the answers, and what is named as missing."""
    asked = tasks(count, (2, 3), seed=2)
    before = {kind: one.counts()["calls"] for kind, one in world.agents.items()}
    answers = asyncio.run(_many(world, [text for text, _kinds in asked]))
    there = named = lost = 0
    for (_text, kinds), (_status, answer) in zip(asked, answers, strict=True):
        said = {one["name"] for one in answer["outputs"] if one["output"] and one["output"] in (answer["answer"] or "")}
        missing = {one["name"] for one in answer["missing"]}
        needed = {NAMES[kind] for kind in kinds}
        there += len(needed & said)
        named += len((needed - said) & missing)
        lost += answer["status"] == "done" and bool(needed - said)
    counts = {kind: one.counts() for kind, one in world.agents.items()}
    return {
        "tasks": count, "status": dict(Counter(answer["status"] for _status, answer in answers)),
        "parts": sum(len(kinds) for _text, kinds in asked), "parts in the answer": there, "parts named as missing": named,
        "done with a part lost": lost, "calls": {kind: counts[kind]["calls"] - before[kind] for kind in KINDS},
        "faults": sum(sum(one["faults"].values()) for one in counts.values()),
        "attempts": sum(one["attempts"] for one in counts.values()), "work done twice": len(world.worked_twice()),
        "load of the machine": os.getloadavg()[0],
    }  # fmt: skip


async def _many(world: World, texts: list[str]) -> list[tuple[int, Any]]:
    places = asyncio.Semaphore(10)

    async def one(text: str) -> tuple[int, Any]:
        async with places:
            return await world.episode(text)

    return await asyncio.gather(*map(one, texts))


def kill(world: World, count: int) -> dict[str, Any]:
    """So many episodes, every second of which asks a question, while each process in turn is killed and started again, until all
    have ended. The client sends what was not answered again, under the same Idempotency-Key."""
    running = [text for text, _kinds in tasks(count // 2, (2, 3), seed=3)]
    waiting = [f"which account is locked, {number}: unlock my account login" for number in range(count - len(running))]
    texts = [text for pair in zip(running, waiting, strict=True) for text in pair]
    ended, killed = threading.Event(), Counter()  # type: ignore[var-annotated]
    killer = threading.Thread(target=_kill_in_turn, args=(world, ended, killed))
    killer.start()
    try:
        keys, states = asyncio.run(_begun_and_ended(world, texts))
    finally:
        ended.set()
        killer.join()
    return {
        "episodes": len(set(keys)), "that ask a question": len(waiting), "processes killed": dict(killed),
        "how they ended": states, "lost": sum(states.get(state, 0) for state in OPEN),
        "calls": sum(one.counts()["calls"] for one in world.agents.values()),
        "work done twice": len(world.worked_twice()), "load of the machine": os.getloadavg()[0],
    }  # fmt: skip


OPEN = ("queued", "running", "waiting")
#: Seconds between two kills.
BETWEEN_KILLS = 4.0


def _kill_in_turn(world: World, ended: threading.Event, killed: Counter[str]) -> None:
    for part in itertools.cycle(("episodes", "web", "worker")):
        if ended.wait(BETWEEN_KILLS):
            return
        world.machines[part].kill()
        killed[part] += 1
        world.machines[part] = world.site.start(part)


async def _begun_and_ended(world: World, texts: list[str]) -> tuple[list[str], dict[str, int]]:
    places = asyncio.Semaphore(8)

    async def whole(number: int, text: str) -> tuple[str, str]:
        async with places:
            begun = await _insisting(
                world, "POST", "/api/orchestrate/", {"task": text, "wait": False}, f"begin {number}"
            )
        key, status = begun["episode_id"], "queued"
        until = time.monotonic() + 600
        while status in OPEN and time.monotonic() < until:
            await asyncio.sleep(2)
            async with places:
                status = (await _insisting(world, "GET", f"/api/episodes/{key}/"))["status"]
                if status == "waiting":
                    said = {"text": "the one of 4711", "wait": False}
                    await _insisting(world, "POST", f"/api/episodes/{key}/input/", said, f"answer {number}")
        return key, status

    found = await asyncio.gather(*(whole(*numbered) for numbered in enumerate(texts)))
    return [key for key, _status in found], dict(Counter(status for _key, status in found))


async def _insisting(world: World, method: str, path: str, body: Any = None, once: str = "") -> Any:
    """What the web server says once it is there: it is killed and started at another port meanwhile."""
    headers = {"Authorization": f"Bearer {world.key}"} | ({"Idempotency-Key": once} if once else {})
    while True:
        try:
            status, answer = await asyncio.wait_for(ask(world.web.port, method, path, body, **headers), 30)
        except (OSError, TimeoutError, ValueError, IndexError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.5)
            continue
        if status < 500:
            return answer
        await asyncio.sleep(0.5)


def gateway(world: World, count: int) -> dict[str, Any]:
    """OpenAI's own client: what the gateway adds to the agent's own answer, whole, to a stream's first word, and to its end."""
    import openai

    address = f"http://127.0.0.1:{world.web.port}/v1"
    through = openai.OpenAI(base_url=address, api_key=world.key, max_retries=0)
    own = openai.OpenAI(
        base_url=f"http://127.0.0.1:{world.agents['openai'].port}/v1", api_key="sk-benchmark", max_retries=0
    )
    messages = [{"role": "user", "content": WORDS["openai"][0]}]

    def asked(client: Any, model: str) -> tuple[dict[str, float], str]:
        began, first, said = time.perf_counter(), 0.0, []
        for chunk in client.chat.completions.create(model=model, messages=messages, stream=True):
            piece = chunk.choices[0].delta.content if chunk.choices else None
            if piece:
                first = first or time.perf_counter() - began
                said.append(piece)
        end = time.perf_counter() - began
        client.chat.completions.create(model=model, messages=messages)
        whole = time.perf_counter() - began - end
        return {"whole answer": 1000 * whole, "first word": 1000 * first, "end of a stream": 1000 * end}, "".join(said)

    for _warm in range(5):
        asked(through, "agents/crew"), asked(own, "m")
    pairs = [(asked(through, "agents/crew"), asked(own, "m")) for _call in range(count)]
    assert all(mine[1] == its[1] for mine, its in pairs), pairs[0]
    return {
        "calls": count,
        "ms": {
            what: {
                "the agent alone, median": round(median(its[0][what] for _mine, its in pairs), 2),
                "added, median": round(median(mine[0][what] - its[0][what] for mine, its in pairs), 2),
                "added, 95th percentile": round(quantiles([mine[0][what] - its[0][what] for mine, its in pairs], n=20)[-1], 2),
            }
            for what in pairs[0][0][0]
        },
        "load of the machine": os.getloadavg()[0],
    }  # fmt: skip


def main() -> None:
    """Measure the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["parts", "kill", "gateway"])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--episodes", type=int, default=1_000, help="of the part `kill`")
    options = parser.parse_args()
    report: dict[str, Any] = {}
    for part in options.parts:
        with tempfile.TemporaryDirectory() as folder:
            world = World(Path(folder), 0.08 if part == "parts" else 0.0)
            try:
                measure = {"parts": (parts, 300), "kill": (kill, options.episodes), "gateway": (gateway, 200)}[part]
                report[part] = measure[0](world, measure[1])
            finally:
                world.close()
        print(json.dumps({part: report[part]}, indent=1), flush=True)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
