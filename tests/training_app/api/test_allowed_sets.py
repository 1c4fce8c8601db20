"""Which sets of agents are allowed: by the API, in answers and explanations, in replays, and under a request's budget."""

from typing import Any

import pytest

from agents_app import allowed_sets, pools
from agents_app.checks import PoolError
from agents_app.models import Agent, AuditEntry, Pool
from tests.training_app.served import Application, application
from training_app.answering import decisions, replays, serving
from training_app.engine.routing.allowed import Rules
from training_app.models import Decision

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("model")]
ALL = "billing, shipping and a technical fault"


def given(pool: Pool, rules: Rules, costs: tuple[float, ...] = ()) -> None:
    for number, cost in enumerate(costs):
        pools.update_agent(Agent.objects.get(pool=pool, number=number), actor=None, cost=cost)
    allowed_sets.set_rules(pool, rules, actor=None)
    serving.refresh()


def route(app: Application, **body: object) -> dict[str, Any]:
    answer = app.route(ALL, **body)
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize(
    ("rules", "chosen"),
    [
        (Rules(), {0, 1, 2}),
        (Rules(excludes=((0, 1),)), {2}),
        (Rules(groups=(("desk", (0, 1, 2)),)), set()),
        (Rules(most=2), set()),
        (Rules(budget=2.0), {0, 1}),
    ],
)
def test_every_answer_obeys_the_rules(app: Application, pool: Pool, rules: Rules, chosen: set[int]) -> None:
    given(pool, rules, (1.0, 1.0, 5.0))
    found = set(route(app)["agents"])
    assert chosen <= found
    assert rules.priced({0: 1.0, 1: 1.0, 2: 5.0}).permits(found)
    batch = app.post("/api/route/batch/", {"queries": [ALL, ALL]})
    assert [set(one["agents"]) for one in batch.json()["results"]] == [found, found]
    assert set(route(app, threshold=0.5)["agents"]) <= {0, 1, 2}
    assert rules.priced({0: 1.0, 1: 1.0, 2: 5.0}).permits(route(app, threshold=0.5)["agents"])


def test_an_agent_goes_where_the_one_that_it_requires_cannot(app: Application, pool: Pool) -> None:
    given(pool, Rules(requires=((0, 1),)))
    assert route(app, exclude=[1])["agents"] == [2]
    assert route(app)["agents"] == [0, 1, 2]


def test_a_request_has_a_budget_and_the_explanation_says_who_was_over_it(app: Application, pool: Pool) -> None:
    given(pool, Rules(), (1.0, 1.0, 5.0))
    found = route(app, budget=2, explain=True)
    assert sorted(found["agents"]) == [0, 1]
    assert found["explanation"]["left_out"] == {"2": "over the budget"}
    given(pool, Rules(budget=1.0))
    assert len(route(app, budget=2)["agents"]) == 1  # the smaller one counts


def test_a_replay_repeats_the_rules_that_held_then(app: Application, pool: Pool) -> None:
    given(pool, Rules(excludes=((0, 1),)), (1.0, 1.0, 5.0))
    route(app)
    route(app, budget=5.5)
    decisions.buffer.write()
    given(pool, Rules())
    for kept in Decision.objects.all():
        assert "rules" in (kept.detail or {})
        assert replays.replay(kept, serving.router_of(kept.model)).identical


def test_ops_read_and_replace_them(pool: Pool) -> None:
    app = application(pool, scopes=("ops",))
    body = {
        "requires": [[0, 1]],
        "excludes": [[1, 2]],
        "groups": [{"name": "desk", "agents": [0, 2]}],
        "most": 2,
        "budget": 3.5,
    }
    assert app.post("/api/allowed-sets/", body).json() == {"pool": "support", **body}
    assert app.get("/api/allowed-sets/").json() == {"pool": "support", **body}
    assert AuditEntry.objects.filter(action="pool.allowed_sets").count() == 1
    for field, value in (("requires", [[0, 99]]), ("groups", [{"name": "desk", "agents": [0, 99]}])):
        refused = app.post("/api/allowed-sets/", {field: value})
        error = refused.json()["error"]
        assert (refused.status_code, error["code"], error["field"]) == (400, "invalid", field)
        assert "no agent 99" in error["message"]
    assert app.get("/api/allowed-sets/").json()["most"] == 2


@pytest.mark.parametrize(
    "rules", [Rules(requires=((0, 0),)), Rules(groups=(("", (0, 1)),)), Rules(groups=(("a", (1, 1)),))]
)
def test_rules_that_say_nothing_are_refused(pool: Pool, rules: Rules) -> None:
    with pytest.raises(PoolError):
        allowed_sets.set_rules(pool, rules, actor=None)
