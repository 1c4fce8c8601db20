"""`kill -9` of each process while many episodes run and wait for a person: none is lost, and no agent does a call twice.

CI has a few episodes, CHAOS=full a thousand. The third agent knows no Idempotency-Key: where a process died during its call, nobody
knows whether it worked, so it is not called again, and its part is named as missing. CHAOS_REPORT names a file that gets the figures.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import orchestration
from tests.chaos.conftest import environment_of
from tests.chaos.installation import EPISODES, SENTINEL, UP, WEB, WORKER, Installation
from tests.chaos.test_every_kind import report

pytestmark = [
    pytest.mark.process,
    pytest.mark.both_databases,
    pytest.mark.at_length,
    orchestration.needed,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the processes in /proc, which only Linux has"),
]
COUNT = 1_000 if os.environ.get("CHAOS") == "full" else 40
VICTIMS = (EPISODES, WEB, WORKER, EPISODES, SENTINEL, UP, EPISODES, WEB)
MINUTES = 20


class Crew:
    """The installation, its agents, and a client that asks again until it is answered."""

    def __init__(self, installation: Installation, careful: Any, careless: Any, key: str) -> None:
        self.installation, self.careful, self.careless = installation, careful, careless
        self._headers = {"Authorization": f"Bearer {key}"}

    def post(self, path: str, body: dict[str, Any], **headers: str) -> int:
        """The status of an answer; a web server that was killed is asked again, as clients do."""

        def answered() -> int:
            try:
                address = f"{self.installation.address}{path}"
                status = httpx.post(address, json=body, headers={**self._headers, **headers}, timeout=20).status_code
            except httpx.TransportError:
                return 0
            return status if status < 500 else 0

        return self.installation.until(answered, f"an answer of {path}", 120)

    def begin(self, task: str) -> None:
        status = self.post("/api/orchestrate/", {"task": task, "wait": False}, **{"Idempotency-Key": task})
        assert status in (200, 202), status

    def states(self) -> dict[str, int]:
        found: dict[str, int] = self.installation.act("crew_states")
        return found

    def answer(self, keys: list[str]) -> None:
        for key in keys:  # 409: the answer had arrived, and the server died before it said so
            assert self.post(f"/api/episodes/{key}/input/", {"text": "4711", "wait": False}) in (200, 202, 409)

    def kill(self, what: str) -> None:
        self.installation.kill(WORKER if what == EPISODES else what, EPISODES if what == EPISODES else "jobs")
        if what == UP:
            self.installation.until(lambda: not self.installation.left(), "the end of every process")
            self.installation.up()

    def worked_twice(self) -> list[str]:
        """The calls of an agent for a task that it worked on more than once: an answer to a question is a call of its own."""
        worked: Counter[tuple[str, str, int]] = Counter()
        for server in (self.careful, self.careless):
            seen: set[str] = set()
            for body, headers in zip(list(server.bodies), list(server.headers), strict=False):
                key = headers["idempotency-key"]
                if server.keys and key in seen:
                    continue  # answered from what it had kept
                seen.add(key)
                name = body.get("agent", {}).get("name", "Triage")
                task = body.get("task") or body["messages"][-1]["content"]
                worked[name, task, len(body.get("exchanges", ()))] += 1
        return [f"{call} {times} times" for call, times in worked.items() if times > 1]


@pytest.fixture
def crew(tmp_path: Path, migrated_sqlite: Path) -> Iterator[Crew]:
    from tests.orchestration_app.crew import Served

    environment = environment_of(tmp_path, migrated_sqlite) | {
        "INTERNAL_HOSTS": "127.0.0.1",
        "EPISODES_AT_ONCE": str(COUNT // 8),
    }
    with ExitStack() as stack:
        careful, careless = stack.enter_context(Served()), stack.enter_context(Served())
        careful.delay = careless.delay = 0.5
        careless.keys = False
        installation = Installation(environment, tmp_path)
        stack.callback(installation.close)
        key = installation.act("furnish_crew", careful.url, careless.url)
        installation.up()
        yield Crew(installation, careful, careless, key)


def _more_calls(crew: Crew, than: int) -> bool:
    return crew.states()["calls"] > than


def test_whatever_is_killed_no_episode_is_lost_and_nobody_is_called_twice(
    crew: Crew, record_property: Callable[[str, object], None]
) -> None:
    began = time.monotonic()
    tasks = [f"task {n}" + (": which account" if n % 3 == 0 else "") for n in range(COUNT)]
    at_kill: list[dict[str, int]] = []
    share = COUNT // len(VICTIMS)
    for turn, victim in enumerate(VICTIMS):
        for task in tasks[turn * share : COUNT if turn == len(VICTIMS) - 1 else (turn + 1) * share]:
            crew.begin(task)
        calls = crew.states()["calls"]
        crew.installation.until(partial(_more_calls, crew, calls), "a call that ends", 120)
        crew.answer(crew.installation.act("waiting_episodes")[1::2])  # half of them go on waiting
        at_kill.append(crew.states())
        crew.kill(victim)
        crew.installation.whole()

    def over() -> bool:
        crew.answer(crew.installation.act("waiting_episodes"))
        return not crew.states().keys() & {"queued", "running", "waiting"}

    crew.installation.until(over, "the end of all episodes", 60 * MINUTES)
    running, waiting = ([one.get(state, 0) for one in at_kill] for state in ("running", "waiting"))
    attempts = len(crew.careful.bodies) + len(crew.careless.bodies)
    figures = {
        "episodes": COUNT, "killed": list(VICTIMS), "running when killed": running, "waiting when killed": waiting,
        "states": crew.states(), "attempts": attempts, "seconds": round(time.monotonic() - began),
    }  # fmt: skip
    record_property("figures", figures)
    report(figures)
    assert sum(running) > 0
    assert sum(waiting) > 0
    assert crew.installation.act("crew_faults", tasks) == []
    assert crew.worked_twice() == []
