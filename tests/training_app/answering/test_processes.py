"""The live path in a real web server: a shadow scores in its own thread, a canary and a paused agent come and go without a restart."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.routerweb.test_server import Server, prepared, python, server  # noqa: F401
from tests.training_app import trained
from tests.waiting import until

BEGIN = """
import django; django.setup()
from agents_app import pools
from agents_app.models import Agent, Pool
from training_app.rollout import trials
from training_app.versions import registry
from training_app.models import RouterModel, ShadowScore, LiveTally
pool = Pool.objects.get(slug="support")
"""
SECOND = """
import json
model = registry.register(None, pool, open("model.zip", "rb").read(), json.load(open("scorecard.json")))
trials.start_shadow(model, actor=None)
trials.start_canary(model, 0.5, actor=None, override="to see it work")
"""
STOP = "trials.stop_canary(pool, actor=None)"
PAUSE = "pools.set_available(Agent.objects.get(pool=pool, number=1), False, actor=None)"
COLD = """
pools.add_agent(pool, "Legal", "Reads contracts, answers legal questions", ["lawyer", "contract"])
trials.change_settings(pool, [("cold", True)], actor=None)
"""
SCORED = "print(ShadowScore.objects.count(), sum(LiveTally.objects.values_list('errors', flat=True)))"
QUERIES = [f"the parcel is late {number}" for number in range(24)]  # half for each


@pytest.fixture
def told(server: Server) -> Callable[[str], str]:  # noqa: F811
    """Does something in another process that shares the server's database."""
    (server.folder / "scorecard.json").write_text(json.dumps(trained.result().scorecard))
    return lambda words: python(server.folder, "-c", BEGIN + words)


@pytest.mark.at_length
@pytest.mark.process
@pytest.mark.any_database
def test_a_running_server_follows(server: Server, told: Callable[[str], str], tmp_path: Path) -> None:  # noqa: F811
    def models() -> set[str]:
        return {server.route(query)["model"] for query in QUERIES}

    assert models() == {"support-1"}
    told(SECOND)
    until(lambda: models() == {"support-1", "support-2"})
    # The server may have learnt of both in the middle of that look: what comes from now on is surely scored by the shadow.
    assert models() == {"support-1", "support-2"}
    until(lambda: int(told(SCORED).split()[0]) >= 5, "a shadow's scores")
    assert told(SCORED).split()[1] == "0"
    told(STOP)
    until(lambda: models() == {"support-1"})
    assert server.route("the parcel is late")["agents"] == [1]
    told(PAUSE)
    until(lambda: 1 not in server.route("the parcel is late")["agents"])
    told(COLD)
    until(lambda: server.route("may a lawyer read the contract").get("cold") is True)
    assert server.route("may a lawyer read the contract")["agents"] == [3]
