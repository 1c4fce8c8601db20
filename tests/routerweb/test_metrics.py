"""What Prometheus reads of a real server of two processes: every answer is counted once, whichever process made it."""

import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.routerweb.test_server import Server, prepared, python  # noqa: F401

pytestmark = [pytest.mark.process, pytest.mark.any_database]
OPS = """
import django; django.setup()
from agents_app import keys
from agents_app.models import Pool
print(keys.create_key("prometheus", list(Pool.objects.all()), ["ops"])[1])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[Path, str]) -> Path:  # noqa: F811
    return Path(shutil.copytree(prepared[0], tmp_path_factory.mktemp("metrics") / "installation"))


@pytest.fixture(scope="module")
def ops(folder: Path) -> dict[str, str]:
    return {"Authorization": f"Bearer {python(folder, '-c', OPS)}"}


@pytest.fixture(scope="module")
def server(folder: Path, prepared: tuple[Path, str], ops: dict[str, str]) -> Iterator[Server]:  # noqa: F811
    # Started after the key of ops was made: a running server learns of a new key within a second.
    started = Server(folder, prepared[1], METRICS="1", WEB_WORKERS="2")
    yield started
    os.killpg(started.process.pid, signal.SIGKILL)
    started.process.wait(10)


def read(server: Server, ops: dict[str, str]) -> dict[tuple[str, ...], float]:
    """The values by name and labels."""
    answer = httpx.get(f"{server.address}/metrics", headers=ops, timeout=30)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/plain")
    samples = [sample for family in text_string_to_metric_families(answer.text) for sample in family.samples]
    return {(one.name, *(f"{k}={v}" for k, v in sorted(one.labels.items()))): one.value for one in samples}


def labeled(found: dict[tuple[str, ...], float], metric: str, label: str) -> dict[str, float]:
    """The values of a metric by one of its labels."""
    values: dict[str, float] = {}
    for (name, *labels), value in found.items():
        for one in labels:
            if name == metric and one.startswith(f"{label}="):
                values[one.removeprefix(f"{label}=")] = values.get(one.removeprefix(f"{label}="), 0) + value
    return values


@pytest.mark.at_length
def test_every_answer_of_every_process_is_counted(server: Server, ops: dict[str, str]) -> None:
    told = []
    for n in range(30):  # each with a connection of its own, so that both processes answer
        told.append(server.route(("billing", "shipping", "hello")[n % 3]))
    until = time.monotonic() + 60
    while True:
        found = read(server, ops)
        decisions = sum(value for name, value in found.items() if name[0] == "routerweb_decisions_total")
        if decisions == 30 or time.monotonic() > until:
            break
        time.sleep(0.2)
    assert decisions == 30
    agents = Counter(name for answer in told for name in answer["agent_names"])
    assert labeled(found, "routerweb_agent_decisions_total", "agent") == agents
    reasons = Counter(answer["stop_reason"] for answer in told)
    assert labeled(found, "routerweb_decisions_total", "stop_reason") == reasons
    assert found["routerweb_route_seconds_count", "pool=support"] == 30
    assert found["routerweb_route_seconds_bucket", "le=+Inf", "pool=support"] == 30
    models = {name for name in found if name[0] == "routerweb_decisions_total"}
    assert all("model=support-1" in name for name in models)


@pytest.mark.at_length
def test_it_is_for_ops(server: Server) -> None:
    assert httpx.get(f"{server.address}/metrics").status_code == 401
    assert httpx.get(f"{server.address}/metrics", headers={"Authorization": f"Bearer {server.key}"}).status_code == 403


@pytest.mark.at_length
def test_ready(server: Server) -> None:
    assert httpx.get(f"{server.address}/api/ready/").json() == {"status": "ready"}
