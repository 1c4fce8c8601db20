"""What a request may ask of its answer: who may be chosen, how many, from which probability on; and what it is told was not heeded."""

import pytest

from agents_app import pools
from agents_app.models import Agent
from tests.training_app.served import Application
from training_app.answering import decisions, replays, serving, wishes
from training_app.models import Decision

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("model")]
ALL = "billing, shipping and a technical fault"


def route(app: Application, **body: object):
    answer = app.route(ALL, **body)
    assert answer.status_code == 200, answer.content
    return answer.json()


@pytest.mark.parametrize(
    ("wished", "agents"),
    [
        ({}, [0, 1, 2]),
        ({"only": [0, 2]}, [0, 2]),
        ({"exclude": [0]}, [1, 2]),
        ({"only": [0, 1], "exclude": [1]}, [0]),
        ({"only": []}, []),
        ({"only": ["billing", 2]}, [0, 2]),
        ({"exclude": ["billing"]}, [1, 2]),
        ({"max_agents": 2}, [0, 1]),
        ({"threshold": 0.5}, [0, 1, 2]),
        ({"threshold": 0.99}, []),
        ({"operating_point": 0.5}, []),
        ({"operating_point": -0.5}, [0, 1, 2]),
        ({"only": None, "exclude": None, "min_agents": None, "max_agents": None, "threshold": None}, [0, 1, 2]),
    ],
)
def test_the_set_is_as_wished(app: Application, wished: dict, agents: list[int]) -> None:
    told = route(app, **wished)
    assert told["agents"] == agents
    assert "warnings" not in told
    assert set(map(int, told["scores"])) >= set(agents)
    if wished.get("exclude") and wished["exclude"] != ["billing"]:
        assert str(wished["exclude"][0]) not in told["scores"]
    (one,) = app.batch(ALL, **wished).json()["results"]
    assert one["agents"] == agents


def test_the_fewest_agents(app: Application) -> None:
    assert len(app.route("nothing at all", min_agents=2).json()["agents"]) == 2
    assert len(app.route("nothing at all", min_agents=2, only=[1]).json()["agents"]) == 1


@pytest.mark.parametrize(
    ("wished", "field"),
    [
        ({"only": "0"}, "only"), ({"only": [True]}, "only"), ({"exclude": [1.5]}, "exclude"), ({"exclude": [0] * 1_001}, "exclude"),
        ({"min_agents": -1}, "min_agents"), ({"max_agents": 0}, "max_agents"), ({"max_agents": 1.0}, "max_agents"),
        ({"min_agents": 3, "max_agents": 2}, "min_agents"), ({"threshold": 1.01}, "threshold"), ({"threshold": "0.5"}, "threshold"),
        ({"threshold": True}, "threshold"), ({"operating_point": 10.1}, "operating_point"),
        ({"operating_point": "0"}, "operating_point"), ({"operating_point": 0.1, "threshold": 0.5}, "operating_point"),
    ],
)  # fmt: skip
def test_wishes_that_do_not_hold_are_refused(app: Application, wished: dict, field: str) -> None:
    for answer in (app.route(ALL, **wished), app.batch(ALL, **wished)):
        assert answer.status_code == 400
        assert answer.json()["error"]["field"] == field


def test_what_is_not_heeded_is_told(app: Application) -> None:
    told = route(app, colour="red", exclude=[7])
    assert told["warnings"] == ["'colour' is no field of this address.", "exclude: the pool has no agent 7."]
    told = route(app, only=["billing", "nobody", "0"])
    assert (told["agents"], told["warnings"]) == ([0], ["only: the pool has no agent nobody, 0."])
    batch = app.batch(ALL, explain=True).json()
    assert batch["warnings"] == ["'explain' is no field of this address."]
    assert len(route(app, **{f"x{number}": 1 for number in range(50)})["warnings"]) == 5


@pytest.mark.parametrize(
    "wished",
    [
        {"exclude": [1]},
        {"max_agents": 1},
        {"threshold": 0.5, "max_agents": 2},
        {"only": [2]},
        {"operating_point": 1, "explain": True},
    ],
)
def test_a_replay_meets_the_wishes_again(app: Application, wished: dict) -> None:
    told = route(app, **wished)
    decisions.buffer.write()
    decision = Decision.objects.get(pk=told["decision_id"])
    again = replays.replay(decision, serving.router_of(decision.model))
    assert again.identical
    assert list(again.route.agents) == told["agents"]


def test_limits_are_the_wishers_where_they_meet_the_models() -> None:
    class Limited:
        limits = (2, 3)

    assert wishes.Wishes().limits(Limited()) == (2, 3)  # type: ignore[arg-type]
    assert wishes.Wishes(most=1).limits(Limited()) == (1, 1)  # type: ignore[arg-type]
    assert wishes.Wishes(least=5).limits(Limited()) == (5, 5)  # type: ignore[arg-type]
    assert wishes.Wishes(least=0, most=4).limits(Limited()) == (0, 4)  # type: ignore[arg-type]


def test_answers_name_agents_by_keys_that_outlive_a_name(app: Application) -> None:
    agent = Agent.objects.get(number=1)
    pools.rename(agent, "Parcels", actor=None)
    serving.refresh()
    told = route(app, only=["shipping"])
    assert (told["agents"], told["agent_names"], told["agent_keys"]) == ([1], ["Parcels"], ["shipping"])
    assert app.batch(ALL, only=["shipping"]).json()["results"][0]["agent_keys"] == ["shipping"]
