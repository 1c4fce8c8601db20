"""Many episodes as a picture: agents as nodes sized by use, transitions as edges sized by count; and what goes over time as charts.

Drawn on the server as SVG: who is called early stands left, who is called late stands right, START and STOP at the sides. An edge bows
to its left, so that the two ways of a cycle lie apart.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.formats import date_format
from django.utils.translation import gettext as _

from agents_app.models import Agent
from orchestration_app.episodes.judging.figures import START, STOP, Graph, Group

WIDTH, MARGIN, ROW, HEAD = 960, 70, 110, 40
SMALLEST, LARGEST = 18.0, 42.0
THICKEST = 12.0
#: Edges that are drawn: the most frequent ones.
MOST_EDGES = 60
#: Agents whose use is drawn over time.
MOST_LINES = 8


@dataclass(frozen=True, slots=True)
class Node:
    """A circle: `agent` is None for START and STOP, `title` tells its figures."""

    x: float
    y: float
    r: float
    label: str
    title: str
    agent: Agent | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """A curve with its arrow: `share` is its part of the thickest."""

    path: str
    head: str
    width: float
    share: float
    title: str


@dataclass(frozen=True, slots=True)
class Picture:
    """What the template draws."""

    height: float
    nodes: list[Node]
    edges: list[Edge]


def draw(graph: Graph, agents: Mapping[int, Agent]) -> Picture | None:
    """The picture; None where no agent was called."""
    used = {number: count for number, count in graph.uses.items() if number in agents}
    if not used:
        return None
    nodes, height = _nodes(graph, agents, used)
    edges = sorted(graph.edges.items(), key=lambda edge: -edge[1])[:MOST_EDGES]
    highest = max(count for _ends, count in edges)
    drawn = [
        _edge(nodes[source], nodes[target], count, highest)
        for (source, target), count in reversed(edges)
        if source in nodes and target in nodes
    ]
    return Picture(height, list(nodes.values()), drawn)


def _nodes(graph: Graph, agents: Mapping[int, Agent], used: Mapping[int, int]) -> tuple[dict[Any, Node], float]:
    columns: dict[int, list[int]] = {}
    for number in sorted(used, key=lambda number: (graph.places[number] / used[number], number)):
        columns.setdefault(round(graph.places[number] / used[number]), []).append(number)
    wide = [row for column in sorted(columns) for row in _pieces(columns[column])]
    tallest = max(map(len, wide))
    height = 2 * HEAD + ROW * tallest
    highest = max(used.values())
    step = (WIDTH - 2 * MARGIN) / (len(wide) + 1)
    nodes: dict[Any, Node] = {START: Node(MARGIN / 2, height / 2, 14, _("Start"), _("Every path begins here"))}
    for at, column in enumerate(wide, start=1):
        for row, number in enumerate(column):
            # Every second column a little lower, so that an edge past a column does not run through its nodes.
            y = HEAD + (height - 2 * HEAD) * (row + 0.5) / len(column) + (18 if at % 2 else -18)
            r = SMALLEST + (LARGEST - SMALLEST) * math.sqrt(used[number] / highest)
            title = _("%(agent)s: %(count)d calls, %(failed)d failed") % {
                "agent": agents[number].name, "count": used[number], "failed": graph.failures[number],
            }  # fmt: skip
            nodes[number] = Node(MARGIN + step * at, y, r, agents[number].code, title, agents[number])
    nodes[STOP] = Node(WIDTH - MARGIN / 2, height / 2, 14, _("Stop"), _("Every path ends here"))
    return nodes, height


def _pieces(column: list[int], size: int = 5) -> list[list[int]]:
    return [column[at : at + size] for at in range(0, len(column), size)]


def _edge(source: Node, target: Node, count: int, highest: int) -> Edge:
    width = 1 + (THICKEST - 1) * count / highest
    title = f"{source.label} → {target.label}: {count:,}"
    if source is target:
        x, top = source.x, source.y - source.r + 3
        path = (
            f"M {x - 8:.1f} {top:.1f} C {x - 34:.1f} {top - 47:.1f} {x + 34:.1f} {top - 47:.1f} {x + 8:.1f} {top:.1f}"
        )
        return Edge(path, _head(x + 8, top, x + 20, top - 25, width), width, count / highest, title)
    dx, dy = target.x - source.x, target.y - source.y
    length = math.hypot(dx, dy) or 1.0
    bow = 0.18 * length if dx >= 0 else 0.28 * length
    cx, cy = (source.x + target.x) / 2 + bow * dy / length, (source.y + target.y) / 2 - bow * dx / length
    sx, sy = _rim(source, cx, cy, 1)
    ex, ey = _rim(target, cx, cy, 7 + width)
    path = f"M {sx:.1f} {sy:.1f} Q {cx:.1f} {cy:.1f} {ex:.1f} {ey:.1f}"
    tip = _rim(target, cx, cy, 2)
    return Edge(path, _head(*tip, cx, cy, width), width, count / highest, title)


def _rim(node: Node, x: float, y: float, gap: float) -> tuple[float, float]:
    """The point of a node's rim, and `gap` beyond it, towards another point."""
    length = math.hypot(x - node.x, y - node.y) or 1.0
    return node.x + (x - node.x) / length * (node.r + gap), node.y + (y - node.y) / length * (node.r + gap)


def _head(x: float, y: float, from_x: float, from_y: float, width: float) -> str:
    """An arrow's head whose tip is at (x, y)."""
    length = math.hypot(x - from_x, y - from_y) or 1.0
    ux, uy = (x - from_x) / length, (y - from_y) / length
    size = 6 + width
    bx, by = x - ux * size, y - uy * size
    half = size * 0.55
    return f"{x:.1f},{y:.1f} {bx - uy * half:.1f},{by + ux * half:.1f} {bx + uy * half:.1f},{by - ux * half:.1f}"


def table(graph: Graph, agents: Mapping[int, Agent]) -> list[tuple[str, str, int]]:
    """The transitions as a table: from, to, how often; most frequent first."""

    def name(end: Any) -> str:
        if end in (START, STOP):
            return _("Start") if end == START else _("Stop")
        return agents[end].name if end in agents else str(end)

    return [
        (name(source), name(target), count)
        for (source, target), count in sorted(graph.edges.items(), key=lambda e: -e[1])
    ]


def uses_chart(days: Mapping[Any, Mapping[int, int]], agents: Mapping[int, Agent]) -> dict[str, Any]:
    """Each agent's share of the day's calls, as `chart` draws it: a line for each of the MOST_LINES that were called most."""
    sums: dict[int, int] = defaultdict(int)
    for uses in days.values():
        for agent, count in uses.items():
            sums[agent] += count
    ranked = sorted((agent for agent in sums if agent in agents), key=lambda agent: (-sums[agent], agent))
    return {
        "type": "line", "labels": [date_format(day, "SHORT_DATE_FORMAT") for day in days], "y": _("share of the calls"),
        "datasets": [
            {"label": agents[a].name, "data": [round(uses.get(a, 0) / sum(uses.values()), 4) for uses in days.values()]}
            for a in ranked[:MOST_LINES]
        ],
    }  # fmt: skip


def charts(days: list[Group], currency: str) -> dict[str, Any]:
    """Success, cost and steps over time, as `chart` draws them."""
    labels = [date_format(day.name, "SHORT_DATE_FORMAT") for day in days]

    def line(label: str, data: list[Any]) -> dict[str, Any]:
        return {"label": label, "data": data}

    return {
        "success_chart": {
            "type": "line", "labels": labels, "y": _("share"),
            "datasets": [
                line(_("Answered"), [round(day.answered, 4) for day in days]),
                line(_("Right, of those judged"), [None if day.success is None else round(day.success, 4) for day in days]),
            ],
        },
        "cost_chart": {
            "type": "line", "labels": labels, "y": currency,
            "datasets": [line(_("Cost of an episode"), [round(day.cost, 6) for day in days])],
        },
        "steps_chart": {
            "type": "line", "labels": labels, "y": _("steps"),
            "datasets": [line(_("Steps of an episode"), [round(day.steps, 3) for day in days])],
        },
    }  # fmt: skip
