"""The table and the plot of growth, from the points that `run.py` measured. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Point = dict[str, Any]

FIXED_AGENTS, FIXED_QUERIES = 20, 10_000

#: What is drawn: title, and one or two figures of a point, each with its label.
PANELS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    ("training, CPU seconds", (("cpu_seconds", ""),)),
    ("peak memory, MB", (("peak_mb", ""),)),
    ("one route, µs", (("route_us_p50", "median"), ("route_us_p99", "p99"))),
)
WIDTH, HEIGHT = 380, 230  # of one panel, with its margins
LEFT, RIGHT, TOP, BOTTOM, INSET = 56, 28, 40, 40, 22

# The picture is shown as an image, where it cannot ask its page for colours: it asks the reader's system instead.
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2937 }
.title { font-weight: 600; font-size: 13px }
.faint { fill: #4b5563 }
.grid { stroke: #d1d5db; stroke-width: 1 }
.line { fill: none; stroke: #0e6774; stroke-width: 2 }
.dashed { stroke-dasharray: 5 4 }
.dot { fill: #0e6774; stroke: #0e6774; stroke-width: 2 }
.hollow { fill: #ffffff }
.ground { fill: #ffffff }
@media (prefers-color-scheme: dark) {
  text { fill: #e5e7eb }
  .faint { fill: #9ca3af }
  .grid { stroke: #374151 }
  .line { stroke: #5bc0cf }
  .dot { fill: #5bc0cf; stroke: #5bc0cf }
  .hollow { fill: #111827 }
  .ground { fill: #111827 }
}
"""


def series(points: Sequence[Point]) -> list[tuple[str, str, list[Point]]]:
    """The two ways to grow: (what grows, heading, the points along it in order)."""
    by_queries = [p for p in points if p["agents"] == FIXED_AGENTS]
    by_agents = [p for p in points if p["queries"] == FIXED_QUERIES]
    return [
        ("queries", f"queries, with {FIXED_AGENTS} agents", sorted(by_queries, key=lambda p: p["queries"])),
        ("agents", f"agents, with {FIXED_QUERIES:,} queries", sorted(by_agents, key=lambda p: p["agents"])),
    ]


def table(points: Sequence[Point]) -> str:
    """All points as a table in Markdown, by agents and queries."""
    head = (
        "agents", "queries", "scorer", "test Jaccard", "best baseline", "train CPU s", "of these scorer", "policy", "baselines",
        "peak MB", "model MB", "route µs p50", "p99",
    )  # fmt: skip
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for p in sorted(points, key=lambda p: (p["agents"], p["queries"])):
        cells = (
            f"{p['agents']}", f"{p['queries']:,}", p["encoder"], f"{p['jaccard']:.3f}",
            f"{max(p['baselines'].values()):.3f}" if p["baselines"] else "–", f"{p['cpu_seconds']:.0f}",
            f"{p['phases']['scorer']:.0f}", f"{p['phases']['policy']:.0f}", f"{p['phases'].get('baselines', 0):.0f}",
            f"{p['peak_mb']:,.0f}", f"{p['artifact_mb']:,.0f}", f"{p['route_us_p50']:.0f}", f"{p['route_us_p99']:.0f}",
        )  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def svg(points: Sequence[Point]) -> str:
    """The plot: one row of panels for each figure, one column for each way to grow, both axes logarithmic."""
    ways = [way for way in series(points) if len(way[2]) > 1]
    width, height = WIDTH * max(1, len(ways)), HEIGHT * len(PANELS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'aria-label="Training time, memory and route time as queries and agents grow; the table beside it has the figures">',
        f"<style>{STYLE}</style>",
        f'<rect class="ground" width="{width}" height="{height}"/>',
    ]
    for row, (title, figures) in enumerate(PANELS):
        values = [p[name] for _, _, along in ways for p in along for name, _ in figures]
        for column, (what, heading, along) in enumerate(ways):
            parts.append(f'<g transform="translate({column * WIDTH} {row * HEIGHT})">')
            parts += _panel(title, heading, what, figures, along, values)
            parts.append("</g>")
    return "\n".join([*parts, "</svg>"])


def _panel(
    title: str,
    heading: str,
    what: str,
    figures: Sequence[tuple[str, str]],
    along: Sequence[Point],
    values: Sequence[float],
) -> list[str]:
    """One panel; `values` are all that its row shows, so that panels of a row share their scale."""
    low, high = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values) * 1.0001))
    first, last = along[0][what], along[-1][what]
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x(value: float) -> float:
        return LEFT + INSET + (inner_width - INSET) * math.log(value / first) / math.log(last / first)

    def y(value: float) -> float:
        return TOP + inner_height * (1 - math.log(value / low) / math.log(high / low))

    parts = [f'<text class="title" x="{LEFT}" y="20">{title}</text>']
    tick = low
    while tick <= high:
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        parts.append(f'<text class="faint" x="{LEFT - 6}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:,}</text>')
        tick *= 10
    for point in along:
        at = f'x="{x(point[what]):.1f}" y="{HEIGHT - BOTTOM + 16}"'
        parts.append(f'<text class="faint" {at} text-anchor="middle">{point[what]:,}</text>')
    parts.append(f'<text x="{LEFT + inner_width / 2}" y="{HEIGHT - 6}" text-anchor="middle">{heading}</text>')
    for number, (name, label) in enumerate(figures):
        places = [(x(p[what]), y(p[name]), p[name]) for p in along]
        path = " ".join(f"{px:.1f},{py:.1f}" for px, py, _ in places)
        parts.append(f'<polyline class="line{" dashed" if number else ""}" points="{path}"/>')
        for px, py, value in places:
            parts.append(f'<circle class="dot{" hollow" if number else ""}" cx="{px:.1f}" cy="{py:.1f}" r="4"/>')
            below = len(figures) == 2 and number == 0
            place = f'x="{px:.1f}" y="{py + (18 if below else -9):.1f}"'
            parts.append(f'<text {place} text-anchor="middle">{value:,.0f}</text>')
        if label:
            parts.append(
                f'<text class="faint" x="{LEFT + 4}" y="{places[0][1] + (32 if number == 0 else -22):.1f}">{label}</text>'
            )
    return parts
