"""The figures of `studies` and `benchmark` in SVG: bars for ways that are compared, lines for what changes along something.

Values stand beside their bars, so that a picture alone tells what the figures do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

Rows = Sequence[Mapping[str, Any]]
BAR, GAP, NAMES, WIDE = 14, 10, 190, 460  # pixels: a bar's height, between groups, for names, of the longest bar
LEFT, TOP, ALONG, UP = 60, 34, 520, 260  # of a picture with lines
WIDTH_PX, HEIGHT_PX, BELOW_PX = 760, 440, 44  # of the picture of cost and quality
HUES = (221, 12, 150, 280, 40, 190, 330, 95)

#: Of `policies`: the measure, how it is called, and what its figures are multiplied by.
OF_WAYS = (
    ("success", "success", 1.0),
    ("cost", "cost of a call, thousandths of a dollar", 1000.0),
    ("latency", "mean latency, seconds", 1.0),
    ("p95", "p95 latency, seconds", 1.0),
    ("efficiency", "efficiency: success / (thousandths of a dollar + seconds)", 1.0),
    ("imbalance", "fairness of load: σ/μ of the backends' shares, 0 is even", 1.0),
)


def pictures(study: str, results: Any) -> dict[str, str]:
    """The pictures of what a study found, by file name without ending."""
    rows: Rows = results if isinstance(results, list) else [results]
    drawn = {f"{study}-{name}": picture for name, picture in OF_STUDY[study](rows).items()}
    return {name.removesuffix("-"): picture for name, picture in drawn.items()}


def _policies(rows: Rows) -> dict[str, str]:
    ways = [row["way"] for row in rows]
    series = {
        name: bars(title, ways, {"": [row[name] * scale for row in rows]}) for name, title, scale in OF_WAYS
    }  # fmt: skip
    series["by-category"] = bars("success by category", ways, _turned(rows, "by_category", "categories"))
    series["distribution"] = bars("share of calls by backend", ways, _turned(rows, "shares", "backends"), stacked=True)
    return series


def _turned(rows: Rows, values: str, names: str) -> dict[str, list[float]]:
    return {name: [row[values][place] for row in rows] for place, name in enumerate(rows[0][names])}


def _noise(rows: Rows) -> dict[str, str]:
    first = rows[0]
    beside = {
        name: [row[name] / first[name] for row in rows] for name in ("success", "cost", "efficiency") if first[name]
    }  # fmt: skip
    return {"": lines("beside no noise, by σ of the noise on the complexity", [row["noise"] for row in rows], beside)}


def _counts(rows: Rows) -> dict[str, str]:
    times = {name: [row[name] for row in rows] for name in ("p50", "p99")}
    return {"": lines("µs of one choice, by number of backends", [row["backends"] for row in rows], times)}


def _load(rows: Rows) -> dict[str, str]:
    at = [row["load"] for row in rows]
    late = {
        "with the queue of now": [row["p95"] for row in rows],
        "largest alone": [row["p95_constant"] for row in rows],
    }
    shares = {"share of the largest": [row["taken"] for row in rows], "success": [row["success"] for row in rows]}
    return {
        "latency": lines("p95 latency in seconds, by λ / μ of the largest backend", at, late),
        "taken": lines("who is taken, by λ / μ of the largest backend", at, shares),
    }


def _gap(rows: Rows) -> dict[str, str]:
    series = {}
    for name, title, by_pair in (("agents", "an agent", False), ("pairs", "one pair alone", True)):
        some = [row for row in rows if row["by_pair"] == by_pair]
        looks = list(some[0]["share"])
        shares = {row["learner"]: list(row["share"].values()) for row in some}
        series[name] = lines(f"share of the gap closed by outcomes; the specialist is {title}", looks, shares)
    return series


def _preferences(rows: Rows) -> dict[str, str]:
    along = rows[0]["cost_by_its_weight"]
    at = [f"{place / (len(along) - 1):.2g}" if place % 4 == 0 else "" for place in range(len(along))]
    return {
        "cost": lines(
            "mean cost of a call, thousandths of a dollar, by its weight", at, {"": [1000 * c for c in along]}
        )
    }


def _hot(rows: Rows) -> dict[str, str]:
    (row,) = rows
    values = [row["imbalance_off"], row["imbalance_on"], row["success_lost"], row["within"]]
    names = ["σ/μ without the penalty", "σ/μ with it", "success lost", "± (95 %)"]
    return {"": bars("the load penalty under a hot backend", names, {"": values})}


def _ppo(rows: Rows) -> dict[str, str]:
    (row,) = rows
    names = ["ppo", "direct estimate", "difference", "within"]
    return {"": bars(f"worth of a call after {row['steps']:,} steps", names, {"": [row[name] for name in names]})}


def _collaboration(rows: Rows) -> dict[str, str]:
    names = [f"{row['who']}, {row['steps']:,}{' (published)' if row['published'] else ''}" for row in rows]
    return {"": bars("earned a round, after so many steps", names, {"": [row["a_round"] for row in rows]})}


def _estimator(rows: Rows) -> dict[str, str]:
    figures = {name: value for name, value in rows[0].items() if isinstance(value, float)}
    names = [name.replace("_", " ") for name in figures]
    return {"": bars("the estimator on made-up queries", names, {"": list(figures.values())})}


OF_STUDY: dict[str, Callable[[Rows], dict[str, str]]] = {
    "policies": _policies, "preferences": _preferences, "hot": _hot, "load": _load, "noise": _noise, "counts": _counts,
    "gap": _gap, "ppo": _ppo, "collaboration": _collaboration, "estimator": _estimator,
}  # fmt: skip


# --- Drawing ------------------------------------------------------------------------------------------------------


def bars(title: str, names: Sequence[str], series: Mapping[str, Sequence[float]], *, stacked: bool = False) -> str:
    """A group of bars for each name, one for each series; `stacked` puts a group's bars behind one another."""
    beside = 1 if stacked else len(series)
    step = beside * BAR + GAP
    key = 18 if len(series) > 1 else 0
    ends = [sum(abs(s[row]) for s in series.values()) for row in range(len(names))] if stacked else []
    highest = max([*ends, *(abs(value) for values in series.values() for value in values), 1e-12])
    parts = _begun(NAMES + WIDE + 70, TOP + key + step * len(names) + 6, title)
    x = float(NAMES)
    for place, name in enumerate(series if key else ()):
        parts.append(f'<rect x="{x:.0f}" y="{TOP - 8}" width="10" height="10" fill="{_colour(place)}"/>')
        parts.append(f'<text x="{x + 14:.0f}" y="{TOP + 1}">{escape(name)}</text>')
        x += 30 + 6.2 * len(name)
    for row, name in enumerate(names):
        y, end = TOP + key + row * step, 0.0
        parts.append(f'<text x="{NAMES - 6}" y="{y + step / 2:.1f}" text-anchor="end">{escape(name)}</text>')
        for place, values in enumerate(series.values()):
            width = WIDE * abs(values[row]) / highest
            at = y if stacked else y + place * BAR
            parts.append(
                f'<rect x="{NAMES + end:.1f}" y="{at}" width="{width:.1f}" height="{BAR - 2}" fill="{_colour(place)}">'
                f"<title>{escape(name)}: {_shown(values[row])}</title></rect>"
            )
            if stacked:
                end += width
            else:
                parts.append(f'<text x="{NAMES + width + 5:.1f}" y="{at + BAR - 4}">{_shown(values[row])}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def lines(title: str, at: Sequence[Any], series: Mapping[str, Sequence[float]]) -> str:
    """A line for each series over what stands `at`, evenly spaced; from 0, or from below it, up to the largest value."""
    values = [value for some in series.values() for value in some]
    low, high = min([0.0, *values]), max([1e-12, *values])
    across = [LEFT + ALONG * (place + 0.5) / len(at) for place in range(len(at))]

    def up(value: float) -> float:
        return TOP + UP * (high - value) / (high - low)

    parts = _begun(LEFT + ALONG + 190, TOP + UP + 28, title)
    for step in range(5):
        value = low + (high - low) * step / 4
        parts.append(f'<line x1="{LEFT}" y1="{up(value):.1f}" x2="{LEFT + ALONG}" y2="{up(value):.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{up(value) + 4:.1f}" text-anchor="end">{_shown(value)}</text>')
    for x, mark in zip(across, at, strict=True):
        parts.append(f'<text x="{x:.1f}" y="{TOP + UP + 18}" text-anchor="middle">{escape(str(mark))}</text>')
    for place, (name, some) in enumerate(series.items()):
        points = " ".join(f"{x:.1f},{up(value):.1f}" for x, value in zip(across, some, strict=True))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{_colour(place)}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{x:.1f}" cy="{up(value):.1f}" r="3" fill="{_colour(place)}"><title>{_shown(value)}</title></circle>'
            for x, value in zip(across, some, strict=True)
        ]
        y = TOP + 14 * (place + 1)
        if name:
            parts.append(f'<rect x="{LEFT + ALONG + 12}" y="{y - 8}" width="10" height="10" fill="{_colour(place)}"/>')
            parts.append(f'<text x="{LEFT + ALONG + 28}" y="{y + 1}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _begun(width: int, height: int, title: str) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(title)}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="12" y="18" font-size="13" font-weight="600">{escape(title)}</text>',
    ]


def _colour(place: int) -> str:
    return f"hsl({HUES[place % len(HUES)]} 60% 45%)"


def _shown(value: float) -> str:
    return f"{value:.3g}"


def cost_and_quality(figures: dict[str, Any]) -> str:
    """Cost against quality as RouterBench draws it: each backend a point, each router its hull, the oracle dashed."""
    backends, routers = figures["backends"], {n: p for n, p in figures["points"].items() if len(p) > 1}
    highest_cost = max(backend["cost"] for backend in backends) * 1.05
    qualities = [backend["quality"] for backend in backends] + [q for points in routers.values() for _, q in points]
    low, high = min(qualities) - 0.02, max(qualities) + 0.02

    def at(cost: float, quality: float) -> tuple[float, float]:
        x = LEFT + (WIDTH_PX - LEFT - 12) * cost / highest_cost
        return x, HEIGHT_PX - BELOW_PX - (HEIGHT_PX - BELOW_PX - 12) * (quality - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH_PX} {HEIGHT_PX}" font-family="sans-serif" font-size="11">',
        f'<text x="{WIDTH_PX / 2}" y="{HEIGHT_PX - 8}" text-anchor="middle">mean cost of a query, thousandths of a dollar</text>',
        f'<text x="14" y="{HEIGHT_PX / 2}" text-anchor="middle" transform="rotate(-90 14 {HEIGHT_PX / 2})">quality</text>',
    ]
    for step in range(6):
        x, y = at(highest_cost * step / 5, low + (high - low) * step / 5)
        parts.append(
            f'<text x="{x:.0f}" y="{HEIGHT_PX - BELOW_PX + 14}" text-anchor="middle">{highest_cost * step / 5 * 1000:.2f}</text>'
        )
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">{low + (high - low) * step / 5:.2f}</text>'
        )
    for place, (name, points) in enumerate(routers.items()):
        line = [*points, (highest_cost, points[-1][1])]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in line if point[0] <= highest_cost))
        dash = ' stroke-dasharray="5 4"' if name == "oracle" else ""
        colour = f"hsl({HUES[place % len(HUES)]} 60% 45%)"
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.6"{dash} points="{path}"/>')
        parts.append(
            f'<text x="{WIDTH_PX - 180}" y="{HEIGHT_PX - BELOW_PX - 14 - 15 * place}" fill="{colour}">{escape(name)}</text>'
        )
    for backend in backends:
        x, y = at(backend["cost"], backend["quality"])
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5"><title>{escape(backend["backend"])}</title></circle>')
    return "\n".join([*parts, "</svg>"]) + "\n"
