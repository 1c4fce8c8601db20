"""The options of a request: each does what its row says, is refused where it does not hold, and is carried where the table says."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from agents_app import pools
from agents_app.models import Agent
from tests import orchestration
from tests.training_app.served import Application
from training_app.answering import decisions, replays, serving
from training_app.api import a2a, mcp, option_texts, route_requests
from training_app.api.schema import document
from training_app.engine.routing.options import BadOption, Carrier, NoAgents, Option, RequestOptions
from training_app.models import Decision

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("model")]
ALL = "billing, shipping and a technical fault"


def route(app: Application, **body: object):
    answer = app.route(ALL, **body)
    assert answer.status_code == 200, answer.content
    return answer.json()


#: Options that hold, and the agents that answer ALL under them. Every option that changes the answer is here.
EFFECTS: list[tuple[dict, list[int]]] = [
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
    ({"budget": 1e6}, [0, 1, 2]),
    ({"previous": [0], "sticky": 1}, [0]),
    ({"previous": ["billing"], "sticky": 0}, [0, 1, 2]),
    ({"previous": [0], "sticky": 1, "threshold": 0.5}, [0, 1, 2]),
    ({"previous": [0], "sticky": 1, "min_agents": 2}, [0, 1, 2]),
    ({"sticky": 1}, [0, 1, 2]),
    ({"only": None, "exclude": None, "min_agents": None, "max_agents": None, "threshold": None}, [0, 1, 2]),
]
#: Options that do not hold, and which one is at fault. Every option is here.
REFUSED: list[tuple[dict, str]] = [
    ({"only": "0"}, "only"), ({"only": [True]}, "only"), ({"exclude": [1.5]}, "exclude"), ({"exclude": [0] * 1_001}, "exclude"),
    ({"min_agents": -1}, "min_agents"), ({"max_agents": 0}, "max_agents"), ({"max_agents": 1.0}, "max_agents"),
    ({"min_agents": 3, "max_agents": 2}, "min_agents"), ({"threshold": 1.01}, "threshold"), ({"threshold": "0.5"}, "threshold"),
    ({"threshold": True}, "threshold"), ({"operating_point": 10.1}, "operating_point"),
    ({"operating_point": "0"}, "operating_point"), ({"operating_point": 0.1, "threshold": 0.5}, "operating_point"),
    ({"budget": -1}, "budget"), ({"budget": "2"}, "budget"),
    ({"previous": ""}, "previous"), ({"previous": [1.5]}, "previous"), ({"sticky": 2}, "sticky"), ({"sticky": True}, "sticky"),
    ({"explain": "yes"}, "explain"), ({"sticky_key": ""}, "sticky_key"), ({"sticky_key": "x" * 201}, "sticky_key"),
]  # fmt: skip
if orchestration.INSTALLED:
    REFUSED += [({"preference": "dearest"}, "preference"), ({"preference": {"speed": 1}}, "preference")]


# --- Completeness: every option is tried, described and carried ----------------------------------------------------


def test_every_option_is_tried_here() -> None:
    names = {option.name for option in route_requests.OPTIONS}
    changing = {option.name for option in route_requests.OPTIONS if option.changes_answer}
    assert {name for given, _agents in EFFECTS for name in given} >= changing
    assert {field for _given, field in REFUSED} == names


@orchestration.needed
def test_the_documentation_and_the_client_list_every_option() -> None:
    for path, text in option_texts.texts(route_requests.OPTIONS).items():
        assert path.read_text() == text, f"{path} is out of date: run `{option_texts.COMMAND}`"
        for option in route_requests.OPTIONS:
            assert f"`{option.name}`" in text or f"    {option.name}: " in text


def test_every_option_is_carried_where_its_row_says() -> None:
    schemas = json.loads(document())["components"]["schemas"]
    (tool,) = mcp.tools(["support"])["tools"]
    carried = {
        Carrier.ROUTE: schemas["RouteRequest"]["properties"],
        Carrier.BATCH: schemas["BatchRequest"]["properties"],
        Carrier.MCP: tool["inputSchema"]["properties"],
        Carrier.A2A: a2a.OPTIONS,
    }
    content = {"query", "queries", "messages", "pool"}
    for carrier in Carrier:
        expected = {option.name for option in route_requests.OPTIONS if carrier in option.carried}
        assert set(carried[carrier]) - content == expected, carrier
    for option in route_requests.OPTIONS:
        assert Carrier.ROUTE in option.carried, option.name
        assert carried[Carrier.ROUTE][option.name]["description"] == option.description


def test_what_accepts_a_value_describes_it_in_its_schema() -> None:
    """A value at the bounds of the schema is parsed, one beyond them is refused."""
    for option in route_requests.OPTIONS:
        for value, holds in edges(option.value.schema):
            if holds:
                option.parse(value, NoAgents())
            else:
                with pytest.raises(BadOption, match=option.name):
                    option.parse(value, NoAgents())


def edges(schema: Mapping[str, Any]) -> list[tuple[Any, bool]]:
    """Values at the edge of a schema and beyond it, and whether they hold."""
    if "oneOf" in schema:
        return [edge for one in schema["oneOf"] for edge in edges(one) if edge[1]] + [(("neither",), False)]
    if "enum" in schema:
        return [*((value, True) for value in schema["enum"]), ("none of them", False)]
    match schema["type"]:
        case "boolean":
            return [(True, True), (False, True), ("true", False), (1, False)]
        case "integer" | "number":
            low, high = schema["minimum"], schema["maximum"]
            return [(low, True), (high, True), (low - 1, False), (high + 1, False), (str(low), False), (True, False)]
        case "string":
            longest = schema["maxLength"]
            return [("x", True), ("x" * longest, True), ("", False), ("x" * (longest + 1), False), (1, False)]
        case "array":
            return [([], True), ([1] * schema["maxItems"], True), ([1] * (schema["maxItems"] + 1), False), (1, False)]
        case "object":
            return [(dict.fromkeys(schema["properties"], 1), True), ({}, False), ({"other": 1}, False)]
    raise AssertionError(schema)


@pytest.mark.parametrize("effect", ["explored", "shadowed", "batched"])
def test_one_option_that_forbids_something_forbids_it_for_the_answer(effect: str) -> None:
    value = route_requests.OPTIONS[0].value
    plain, strict = Option("plain", value, ""), Option("strict", value, "", **{effect: False}, replayed=True)
    assert RequestOptions.of({"plain": 1}, (plain, strict)) is None
    options = RequestOptions.of({"plain": 1, "strict": 2}, (plain, strict))
    assert options is not None
    allowed = {"explored": options.explored, "shadowed": options.shadowed, "batched": options.batched}
    assert allowed == {"explored": True, "shadowed": True, "batched": True} | {effect: False}
    assert (options.values, options.replayed) == ({"strict": 2}, {"strict": 2})


# --- Effects ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "agents"), EFFECTS)
def test_the_set_is_as_the_options_say(app: Application, given: dict, agents: list[int]) -> None:
    told = route(app, **given)
    assert told["agents"] == agents
    assert "warnings" not in told
    assert set(map(int, told["scores"])) >= set(agents)
    if given.get("exclude") and given["exclude"] != ["billing"]:
        assert str(given["exclude"][0]) not in told["scores"]
    (one,) = app.batch(ALL, **given).json()["results"]
    assert one["agents"] == agents


def test_the_fewest_agents(app: Application) -> None:
    assert len(app.route("nothing at all", min_agents=2).json()["agents"]) == 2
    assert len(app.route("nothing at all", min_agents=2, only=[1]).json()["agents"]) == 1


@pytest.mark.parametrize(("given", "field"), REFUSED)
def test_options_that_do_not_hold_are_refused(app: Application, given: dict, field: str) -> None:
    ways = [app.route]
    if all(Carrier.BATCH in option.carried for option in route_requests.OPTIONS if option.name in given):
        ways.append(app.batch)
    for way in ways:
        answer = way(ALL, **given)
        assert answer.status_code == 400
        assert answer.json()["error"]["field"] == field


@pytest.mark.parametrize("option", ["only", "exclude"])
def test_limits_that_name_nobody_of_the_pool_are_refused(app: Application, option: str) -> None:
    for named, words in (
        ([7], "the pool has no agent 7"),
        (["billing", "nobody", "0"], "the pool has no agent nobody, 0"),
        (["Billing"], "the pool has no agent Billing; agents are chosen by id or key: billing"),
    ):
        for way in (app.route, app.batch):
            answer = way(ALL, **{option: named})
            error = answer.json()["error"]
            assert (answer.status_code, error["code"], error["field"]) == (400, "invalid", option)
            assert error["message"] == f"{option}: {words}."
            assert "/api/agents/" in error["hint"]


def test_an_agent_that_was_retired_may_still_be_named(app: Application) -> None:
    pools.retire(Agent.objects.get(number=0), actor=None)
    told = route(app, only=[0, 2], exclude=["billing"])
    assert (told["agents"], "warnings" in told) == ([2], False)


def test_what_has_no_effect_is_in_the_warnings(app: Application) -> None:
    assert route(app, previous=[7])["warnings"] == ["previous: the pool has no agent 7."]
    batch = app.batch(ALL, previous=["nobody"]).json()
    assert batch["warnings"] == ["previous: the pool has no agent nobody."]


@pytest.mark.parametrize(
    "given",
    [
        {"exclude": [1]},
        {"max_agents": 1},
        {"threshold": 0.5, "max_agents": 2},
        {"only": [2]},
        {"operating_point": 1, "explain": True},
        {"previous": [2], "sticky": 1},
    ],
)
def test_a_replay_uses_the_same_options(app: Application, given: dict) -> None:
    told = route(app, **given)
    decisions.buffer.write()
    decision = Decision.objects.get(pk=told["decision_id"])
    again = replays.replay(decision, serving.router_of(decision.model))
    assert again.identical
    assert list(again.route.agents) == told["agents"]


def test_the_requests_limits_win_over_the_models() -> None:
    class Limited:
        limits = (2, 3)

    def limits(**values: int) -> tuple[int, int]:
        return RequestOptions(values, values).limits(Limited())  # type: ignore[arg-type]

    assert limits() == (2, 3)
    assert limits(max_agents=1) == (1, 1)
    assert limits(min_agents=5) == (5, 5)
    assert limits(min_agents=0, max_agents=4) == (0, 4)


def test_answers_name_agents_by_keys_that_outlive_a_name(app: Application) -> None:
    agent = Agent.objects.get(number=1)
    pools.rename(agent, "Parcels", actor=None)
    serving.refresh()
    told = route(app, only=["shipping"])
    assert (told["agents"], told["agent_names"], told["agent_keys"]) == ([1], ["Parcels"], ["shipping"])
    assert app.batch(ALL, only=["shipping"]).json()["results"][0]["agent_keys"] == ["shipping"]
