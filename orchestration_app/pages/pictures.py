"""What the pages of backends draw: the triangle of preferences, cost against quality, the Q-table and the pair matrix as heat."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from django.utils.translation import gettext as _

from agents_app.models import Agent
from orchestration_app.backends.figures import AgentBackend
from orchestration_app.engine.backends.choosing import Preference, choose
from orchestration_app.engine.backends.measures import hull
from orchestration_app.engine.backends.online import Table
from orchestration_app.engine.backends.pair_table import PairTable
from orchestration_app.models import Backend

#: The 66 preferences in tenths: quality, cost, speed.
SIMPLEX = [(a, b, 10 - a - b) for a in range(10, -1, -1) for b in range(11 - a)]
SIDE, TOP, LEFT = 300.0, 26.0, 60.0
HIGH = SIDE * 3**0.5 / 2
WIDTH, HEIGHT = 460.0, 270.0


class Dot(NamedTuple):
    """One preference of the triangle: where it lies, what it takes, and its address."""

    x: float
    y: float
    key: int
    letter: str
    title: str
    query: str
    here: bool


class Named(NamedTuple):
    """One backend of a legend: how many of the 66 preferences take it."""

    backend: Backend
    letter: str
    key: int
    picks: int


@dataclass(frozen=True, slots=True)
class Triangle:
    """An agent's triangle."""

    agent: Agent
    dots: list[Dot]
    legend: list[Named]


def triangles(rows: Sequence[AgentBackend], tried: dict[str, float], currency: str) -> list[Triangle]:
    """A triangle for each agent that has a choice, from what is expected of its backends now, everybody free."""
    shapes = []
    whole = sum(tried.values()) or 1.0
    near = min(
        SIMPLEX, key=lambda w: sum((part / 10 - tried[name] / whole) ** 2 for part, name in zip(w, tried, strict=True))
    )
    for agent, some in _by_agent(rows):
        of = {row.backend.pk: row for row in some}
        letters = {row.backend.pk: chr(65 + at % 26) for at, row in enumerate(some)}
        dots = []
        for quality, cost, latency in SIMPLEX:
            choice = choose([row.expected for row in some], Preference.of(quality, cost, latency)).candidate
            backend = of[choice.key].backend
            title = _("quality %(q)d, cost %(c)d, speed %(l)d: %(backend)s, success %(p)s, %(cost)s %(currency)s, %(ms)s ms") % {
                "q": quality, "c": cost, "l": latency, "backend": backend, "p": f"{choice.success:.1%}",
                "cost": f"{choice.cost:.5f}", "currency": currency, "ms": f"{choice.service:,.0f}",
            }  # fmt: skip
            # Quality on top, cost left below, speed right below.
            x = LEFT + SIDE * (latency + quality / 2) / 10
            y = TOP + HIGH * (1 - quality / 10)
            query = f"quality={quality / 10}&cost={cost / 10}&latency={latency / 10}"
            at = list(letters).index(choice.key) % 6
            dots.append(Dot(x, y, at, letters[choice.key], title, query, (quality, cost, latency) == near))
        legend = [
            Named(
                row.backend, letters[row.backend.pk], at % 6, sum(dot.letter == letters[row.backend.pk] for dot in dots)
            )
            for at, row in enumerate(some)
        ]
        shapes.append(Triangle(agent, dots, legend))
    return shapes


class Mark(NamedTuple):
    """One backend of the picture of cost and quality."""

    x: float
    y: float
    letter: str
    key: int
    title: str


@dataclass(frozen=True, slots=True)
class Traded:
    """Cost against quality of one agent: a point a backend, and the curve that preferences between the two choose along."""

    agent: Agent
    marks: list[Mark]
    line: str
    ticks: list[tuple[float, str]]
    levels: list[tuple[float, str]]


def traded(rows: Sequence[AgentBackend]) -> list[Traded]:
    """One picture for each agent that has a choice."""
    points = []
    for agent, some in _by_agent(rows):
        max_cost = max(row.expected.cost for row in some) * 1.08 or 1.0
        low = max(min(row.expected.success for row in some) - 0.05, 0.0)
        high = min(max(row.expected.success for row in some) + 0.03, 1.0)

        def at(
            cost: float, success: float, max_cost: float = max_cost, low: float = low, high: float = high
        ) -> tuple[float, float]:
            return 56 + (WIDTH - 76) * cost / max_cost, 12 + (HEIGHT - 52) * (high - success) / max(high - low, 1e-9)

        marks = [
            Mark(
                *at(row.expected.cost, row.expected.success), chr(65 + place % 26), place % 6,
                f"{row.backend}: {row.expected.success:.1%}, {row.expected.cost:.5f}",
            )
            for place, row in enumerate(some)
        ]  # fmt: skip
        corners = hull([(row.expected.cost, row.expected.success) for row in some])
        line = " ".join(
            f"{x:.1f},{y:.1f}" for x, y in (at(*corner) for corner in [*corners, (max_cost, corners[-1][1])])
        )
        ticks = [(at(max_cost * step / 4, low)[0], f"{max_cost * step / 4:.2g}") for step in range(4)]
        levels = [
            (at(0, low + (high - low) * step / 4)[1], f"{low + (high - low) * step / 4:.0%}") for step in range(5)
        ]
        points.append(Traded(agent, marks, line, ticks, levels))
    return points


def _by_agent(rows: Sequence[AgentBackend]) -> list[tuple[Agent, list[AgentBackend]]]:
    by_agent: dict[int, list[AgentBackend]] = {}
    for row in rows:
        if row.backend.active:
            by_agent.setdefault(row.backend.agent.number, []).append(row)
    return [(some[0].backend.agent, some) for some in by_agent.values() if len(some) > 1]


@dataclass(frozen=True, slots=True)
class Heat:
    """One agent's part of the published Q-table.

    `rows` are (who is hot, cells, whom it takes, None before a first visit); a cell is (value, visits, heat, taken).
    """

    agent: Agent
    backends: list[Backend]
    rows: list[tuple[Backend | None, list[tuple[float, int, float, bool]], Backend | None]]
    visits: int


def q_heat(table: Table, rows: Sequence[AgentBackend]) -> list[Heat]:
    """A heat map by load state for each agent that has a choice."""
    of = {row.backend.pk: row.backend for row in rows}
    tables = []
    for agent, _some in _by_agent(rows):
        states = table.states(agent.number)
        largest = (
            max((abs(value) for _hot, cells, _taken in states for _key, value, _visits in cells), default=0.0) or 1.0
        )
        lines = [
            (
                None if hot is None else of[hot],
                [
                    (
                        value,
                        visits,
                        100 * abs(value) / largest,
                        key == best_key and any(visits for _k, _v, visits in cells),
                    )
                    for key, value, visits in cells
                ],
                of[best_key] if any(visits for _key, _value, visits in cells) else None,
            )
            for hot, cells, best_key in states
        ]
        visits = sum(cell[1] for _hot, cells, _taken in lines for cell in cells)
        tables.append(Heat(agent, [of[key] for key, _value, _visits in states[0][1]], lines, visits))
    return tables


Member = TypeVar("Member", Agent, Backend)


def pair_heat(members: Sequence[Member], table: PairTable) -> list[tuple[Member, list[tuple[float, int, float]]]]:
    """A row a member: (how well each does after it, chains, heat); heat is the distance from not knowing, in percent."""
    matrix = table.matrix()
    return [
        (member, [
            (float(matrix[a, b]), int(table.seen[a, b]), 200 * float(matrix[a, b] - 0.5)) for b in range(len(members))
        ])
        for a, member in enumerate(members)
    ]  # fmt: skip


def spent_by_day(log: Sequence[Any], budget: float | None) -> list[tuple[Any, float, float]]:
    """(day, what was billed, share of the largest day or of the budget) of each day of the log, newest first."""
    days: dict[Any, float] = {}
    for call in log:
        days[call.at.date()] = days.get(call.at.date(), 0.0) + call.cost
    largest = max([*days.values(), budget or 0.0], default=0.0) or 1.0
    return [(day, spent, spent / largest) for day, spent in sorted(days.items(), reverse=True)]
