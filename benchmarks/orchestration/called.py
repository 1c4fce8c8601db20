"""Agents behind real servers, called for tasks of several parts: `python -m benchmarks.orchestration.called [PART …] [--json FILE]`.

One pool has an agent behind a2a-sdk's server, one behind mcp's, one behind an OpenAI-compatible server, and a webhook; a set router
that was trained on labeled texts chooses among them.

- `parts`: 300 tasks of two or three parts, faults in 8 % of the calls: each part has to stand in the answer, or be named as missing.
- `kill`: `kill -9` of the process that runs episodes, and of the web server, while episodes run and wait for a person's answer.
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
    """A site with the pool "crew", its four agents, a web server and one process that runs episodes."""

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
        self.web, self.runner = self.site.start("web"), self.site.start("episodes")
        wait_for(self._signs, "a sign of what runs episodes", 60)

    def _signs(self) -> bool:
        status, _answer = asyncio.run(self.episode(tasks(1, (1,))[0][0]))
        return status == 200

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
    """Episodes under way and waiting while processes are killed: all have to end, and nobody is called twice."""
    waiting = [f"which account is locked, {number}: unlock my account login" for number in range(count)]
    running = [text for text, _kinds in tasks(count, (2, 3), seed=3)]
    keys = asyncio.run(_begun(world, [*waiting, *running]))
    killed = 0
    for machine in (world.runner, world.web, world.runner):
        time.sleep(0.5)
        victims: Machine = machine
        victims.kill()
        killed += 1
        part = "web" if machine is world.web else "episodes"
        started = world.site.start(part)
        if part == "web":
            world.web = started
        else:
            world.runner = started
        if killed == 1:
            asyncio.run(_answered(world, keys[: count // 2]))
    states = asyncio.run(_ended(world, keys, len(waiting)))
    return {
        "episodes": len(keys), "that ask a question": len(waiting), "processes killed": killed, "how they ended": states,
        "lost": sum(states.get(state, 0) for state in ("queued", "running", "waiting")),
        "work done twice": len(world.worked_twice()), "load of the machine": os.getloadavg()[0],
    }  # fmt: skip


async def _begun(world: World, texts: list[str]) -> list[str]:
    return [(await world.episode(text, wait=False))[1]["episode_id"] for text in texts]


async def _answered(world: World, keys: list[str]) -> None:
    for key in keys:
        told = await world.call("GET", f"/api/episodes/{key}/")
        if told["status"] == "waiting":
            await world.call("POST", f"/api/episodes/{key}/input/", {"text": "the one of 4711", "wait": False})


async def _ended(world: World, keys: list[str], asking: int) -> dict[str, int]:
    """How the episodes ended, their questions answered meanwhile."""
    until = time.monotonic() + 180
    while True:
        await _answered(world, keys[:asking])
        states = Counter([(await world.call("GET", f"/api/episodes/{key}/"))["status"] for key in keys])
        if not states.keys() & {"queued", "running", "waiting"} or time.monotonic() > until:
            return dict(states)
        await asyncio.sleep(2)


def gateway(world: World, count: int) -> dict[str, Any]:
    """OpenAI's own client, streaming: the time to the first word through the gateway, and from the agent itself."""
    import openai

    address = f"http://127.0.0.1:{world.web.port}/v1"
    through = openai.OpenAI(base_url=address, api_key=world.key, max_retries=0)
    own = openai.OpenAI(
        base_url=f"http://127.0.0.1:{world.agents['openai'].port}/v1", api_key="sk-benchmark", max_retries=0
    )
    text = WORDS["openai"][0]

    def first(client: Any, model: str) -> tuple[float, str]:
        began, took, said = time.perf_counter(), 0.0, []
        messages = [{"role": "user", "content": text}]
        for chunk in client.chat.completions.create(model=model, messages=messages, stream=True):
            piece = chunk.choices[0].delta.content if chunk.choices else None
            if piece:
                took = took or time.perf_counter() - began
                said.append(piece)
        return 1000 * took, "".join(said)

    for _warm in range(5):
        first(through, "agents/crew"), first(own, "m")
    pairs = [(first(through, "agents/crew"), first(own, "m")) for _call in range(count)]
    assert all(mine[1] == its[1] for mine, its in pairs), pairs[0]
    added = [mine[0] - its[0] for mine, its in pairs]
    return {
        "calls": count, "median added, ms": round(median(added), 2), "95th percentile, ms": round(quantiles(added, n=20)[-1], 2),
        "agent alone, ms (median)": round(median(its[0] for _mine, its in pairs), 2), "load of the machine": os.getloadavg()[0],
    }  # fmt: skip


def main() -> None:
    """Measure the parts that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", default=["parts", "kill", "gateway"])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    report: dict[str, Any] = {}
    for part in options.parts:
        with tempfile.TemporaryDirectory() as folder:
            world = World(Path(folder), 0.08 if part == "parts" else 0.0)
            try:
                measure = {"parts": (parts, 300), "kill": (kill, 30), "gateway": (gateway, 200)}[part]
                report[part] = measure[0](world, measure[1])
            finally:
                world.close()
        print(json.dumps({part: report[part]}, indent=1), flush=True)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
