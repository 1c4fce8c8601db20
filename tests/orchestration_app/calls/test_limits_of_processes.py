"""The limits of a provider hold over real processes that share a database."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import migrated
from tests.thorough import EVERYTHING

ROOT = Path(__file__).parents[3]
PROCESSES, CALLS, AT_ONCE = (3, 20, 4) if EVERYTHING else (2, 8, 4)
#: Calls one provider as often and as much at once as it is let; prints when each call began and ended, by the clock that all share.
CALLER = """
import asyncio, json, sys, threading, time
import django
django.setup()
from orchestration_app.calls.parts import Spec
from orchestration_app.calls.ledger import Ledger
from orchestration_app.calls.limits import Limits
ledger, made, over = Ledger(), [], False
threading.Thread(target=ledger.serve, args=(lambda: over,), daemon=True).start()
# Each agent is another; the provider is the same.
spec = Spec(int(sys.argv[1]), "Agent", "", "chat", address="https://models.example:8443/v1", pk=int(sys.argv[1]))

async def call(limits):
    assert await limits.take(spec)
    began = time.monotonic()
    await asyncio.sleep(0.03)
    made.append((began, time.monotonic()))
    limits.leave(spec)

async def main():
    limits = Limits(ledger)
    settling = asyncio.create_task(limits.settle_for_ever())
    await asyncio.gather(*(call(limits) for _ in range(int(sys.argv[2]))))
    settling.cancel()

asyncio.run(main())
print(json.dumps(made))
"""


@pytest.mark.at_length
@pytest.mark.process
@pytest.mark.any_database
def test_processes_together_call_a_provider_no_more_at_once_than_its_setting(
    migrated_sqlite: Path, tmp_path: Path
) -> None:
    migrated.copy(migrated_sqlite, tmp_path / "shared.sqlite3")
    environment = {
        **os.environ, "DJANGO_SETTINGS_MODULE": "routerweb.settings", "DATA_DIR": str(tmp_path), "PYTHONPATH": str(ROOT),
        "DATABASE_URL": f"sqlite:///{tmp_path / 'shared.sqlite3'}", "PLAIN_HTTP": "1",
        "PROVIDER_LIMITS": f"https://models.example:8443={AT_ONCE}/0",
    }  # fmt: skip
    callers = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", CALLER, str(number), str(CALLS)],
            env=environment,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    calls = [tuple(call) for caller in callers for call in json.loads(caller.communicate(timeout=300)[0])]
    assert len(calls) == PROCESSES * CALLS
    edges = sorted([(began, 1) for began, _ended in calls] + [(ended, -1) for _began, ended in calls])
    busy = busiest = 0
    for _at, change in edges:
        busy += change
        busiest = max(busiest, busy)
    assert 1 < busiest <= AT_ONCE
