"""Why a route came out as it did, as a picture: one row a step, one column an agent and STOP, and the words that weighed most."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext

from training_app.answering.loaded import LoadedPool
from training_app.engine.data.examples import Agent as EngineAgent
from training_app.engine.routing.routes import Explanation
from training_app.versions.scorecards import RULES

WORDS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Column:
    """An agent as a picture names it."""

    id: int
    code: str
    name: str
    state: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """One action of one step. `value` is None where it could not be taken; `heat` is |value| as 0 to 100 of the picture's largest."""

    value: float | None
    heat: int
    masked: bool
    chosen: bool


@dataclass(frozen=True, slots=True)
class Step:
    """One row: what was on offer, with STOP last, and what was selected (None for STOP)."""

    number: int
    cells: tuple[Cell, ...]
    selected: Column | None


@dataclass(frozen=True, slots=True)
class Word:
    """A part of the text and what it added to an agent's score; `share` is |weight| as 0 to 100 of the largest shown."""

    text: str
    weight: float
    share: int


@dataclass(frozen=True, slots=True)
class Picture:
    """An explanation, ready to be drawn. `scores` are (agent, probability, whether it was taken), likeliest first. `rule` says what
    chose, `left_out` which agents the pool's rules keep out of the set, and why."""

    columns: tuple[Column, ...]
    steps: tuple[Step, ...]
    scores: tuple[tuple[Column, float, bool], ...]
    words: tuple[tuple[Column, tuple[Word, ...]], ...]
    route_agents: tuple[Column, ...]
    rule: str = ""
    left_out: tuple[tuple[Column, str], ...] = ()


def columns_of(agents: tuple[EngineAgent, ...], pool: LoadedPool) -> tuple[Column, ...]:
    """A router's agents by what they are called now; one that the pool no longer lists keeps the router's name."""
    listed = {agent.id: Column(agent.id, agent.code, agent.name, agent.state) for agent in pool.roster}
    return tuple(listed.get(agent.id) or Column(agent.id, agent.code, agent.name) for agent in agents)


def picture(explanation: Explanation, columns: tuple[Column, ...]) -> Picture:
    """The picture of an explanation over `columns`, the router's agents."""
    route, by_id = explanation.route, {column.id: column for column in columns}
    names = {column.id: column.name for column in columns}
    largest = max(
        (
            abs(value)
            for step in explanation.steps
            for value in (*step["q"].values(), step["stop"])
            if math.isfinite(value)
        ),
        default=0.0,
    )
    steps = tuple(
        _step(number, step, columns, by_id, largest) for number, step in enumerate(explanation.steps, start=1)
    )
    ranked = sorted(route.scores.items(), key=lambda item: -item[1])
    explained = [*route.agents, *(agent for agent, _score in ranked if agent not in route.agents)][
        : len(route.agents) + 1
    ]
    return Picture(
        columns,
        steps,
        tuple((by_id[agent], score, agent in route.agents) for agent, score in ranked),
        tuple((by_id[agent], _words(explanation.features.get(agent, []))) for agent in explained),
        tuple(by_id[agent] for agent in route.agents),
        str(RULES[explanation.rule]),
        tuple((by_id[agent], reason.sentence(names, gettext)) for agent, reason in explanation.left_out.items()),
    )


def _step(
    number: int, step: Mapping[str, Any], columns: tuple[Column, ...], by_id: Mapping[int, Column], largest: float
) -> Step:
    masked = set(step["masked"])
    cells = [
        _cell(step["q"].get(column.id), column.id in masked, step["chosen"] == column.id, largest) for column in columns
    ]
    cells.append(_cell(step["stop"], False, step["chosen"] is None, largest))
    return Step(number, tuple(cells), None if step["chosen"] is None else by_id[step["chosen"]])


def _cell(value: float | None, masked: bool, chosen: bool, largest: float) -> Cell:
    if masked or value is None or not math.isfinite(value):
        return Cell(None, 0, True, chosen)
    return Cell(value, round(100 * abs(value) / largest) if largest else 0, False, chosen)


def _words(features: list[tuple[str, float]]) -> tuple[Word, ...]:
    shown = sorted(features, key=lambda pair: -abs(pair[1]))[:WORDS_SHOWN]
    largest = max((abs(weight) for _text, weight in shown), default=0.0)
    return tuple(Word(text, weight, round(100 * abs(weight) / largest) if largest else 0) for text, weight in shown)


def as_json(explanation: Explanation, names: Mapping[int, str]) -> dict[str, Any]:
    """What led to a route, agents by `names`: the rule that chose; per step what was on offer and chosen, with the network's value of
    every agent and of STOP where it was the network; the parts of the text that weighed most; and who was left out by rules."""
    network = explanation.rule == "ddqn"
    return {
        "rule": explanation.rule,
        "steps": [
            {
                "q": {agent: _finite(value) for agent, value in step["q"].items()} if network else {},
                "stop": _finite(step["stop"]) if network else None,
                "masked": step["masked"],
                "chosen": step["chosen"],
            }
            for step in explanation.steps
        ],
        "features": {
            agent: [(part, round(weight, 4)) for part, weight in pairs] for agent, pairs in explanation.features.items()
        },
        "left_out": {agent: reason.sentence(names) for agent, reason in explanation.left_out.items()},
    }


def _finite(value: float) -> float | None:
    # JSON has no infinity, which is what an action that may not be taken is worth.
    return round(value, 4) if math.isfinite(value) else None
