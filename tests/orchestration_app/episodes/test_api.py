"""POST /api/orchestrate/: a task in, the answer of the agents that were called one after another."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from agents_app.models import Pool
from orchestration_app.models import Episode, Step
from tests.orchestration_app.crew import Served
from tests.training_app.served import Application

pytestmark = pytest.mark.django_db(transaction=True)


def test_agents_are_called_one_after_another_and_the_last_one_answers(
    crew: Pool, conducted: Callable[..., Any], executor: Callable[..., Any], agents: Served, app: Application
) -> None:
    conducted(0, 1)
    executor(0, script={"do": "say", "text": "It is about billing.", "cost": 0.004})
    executor(1, "chat", address=f"{agents.url}/v1", model="m", secret="sk-very-secret", price_in=1.0, price_out=2.0)

    answer = app.post("/api/orchestrate/", {"task": "I was charged twice"}).json()

    assert answer["status"] == "done"
    assert answer["answer"] == "## Triage\n\nIt is about billing.\n\n## Billing\n\nm: I was charged twice"
    assert answer["stop_reason"] == "stop"
    assert answer["steps"] == 2
    episode = Episode.objects.get(pk=answer["episode_id"])
    steps = list(episode.trajectory.all())
    assert [step.agent for step in steps] == [0, 1, None]
    assert steps[2].reason == "stop"
    assert steps[0].cost == 0.004
    tokens = steps[1].metadata
    assert steps[1].cost == pytest.approx((tokens["tokens_in"] + 2 * tokens["tokens_out"]) / 1e6)
    assert answer["cost"] == pytest.approx(steps[0].cost + steps[1].cost)
    assert agents.headers[0]["authorization"] == "Bearer sk-very-secret"
    assert agents.headers[0]["idempotency-key"] == f"{UUID(answer['episode_id']).hex}-1"
    assert "It is about billing." in agents.bodies[0]["messages"][0]["content"]
    assert steps[1].status == Step.Status.DONE


def test_nothing_begins_where_nobody_can_be_called(
    crew: Pool, conducted: Callable[..., Any], executor: Callable[..., Any], app: Application
) -> None:
    conducted(0, 1)
    refused = app.post("/api/orchestrate/", {"task": "refund me"})
    told = refused.json()["error"]
    assert (refused.status_code, told["code"]) == (503, "no_executor")
    assert "Without an active executor: Triage, Billing, Checker." in told["message"]
    assert "/p/crew/settings/executors/" in told["hint"]
    executor(2, script={"do": "say", "text": "checked"})
    only = app.post("/api/orchestrate/", {"task": "refund me", "agents": [0, 1]}).json()["error"]
    assert "Without an active executor: Triage, Billing." in only["message"]
    assert not Episode.objects.exists()
    assert app.post("/api/orchestrate/", {"task": "refund me"}).status_code == 200
