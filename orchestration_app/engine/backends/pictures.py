"""Cost against quality as RouterBench draws it, in SVG: each backend a point, each router its hull, the oracle dashed."""

from __future__ import annotations

from html import escape
from typing import Any

WIDTH, HEIGHT, LEFT, BELOW = 760, 440, 60, 44
HUES = (221, 12, 150, 280, 40, 190, 330, 95)


def cost_and_quality(figures: dict[str, Any]) -> str:
    """The picture of a benchmark's figures."""
    backends, routers = figures["backends"], {n: p for n, p in figures["points"].items() if len(p) > 1}
    most = max(one["cost"] for one in backends) * 1.05
    qualities = [one["quality"] for one in backends] + [q for points in routers.values() for _, q in points]
    low, high = min(qualities) - 0.02, max(qualities) + 0.02

    def at(cost: float, quality: float) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - 12) * cost / most
        return x, HEIGHT - BELOW - (HEIGHT - BELOW - 12) * (quality - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="11">',
        f'<text x="{WIDTH / 2}" y="{HEIGHT - 8}" text-anchor="middle">mean cost of a query, thousandths of a dollar</text>',
        f'<text x="14" y="{HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 14 {HEIGHT / 2})">quality</text>',
    ]
    for step in range(6):
        x, y = at(most * step / 5, low + (high - low) * step / 5)
        parts.append(
            f'<text x="{x:.0f}" y="{HEIGHT - BELOW + 14}" text-anchor="middle">{most * step / 5 * 1000:.2f}</text>'
        )
        parts.append(
            f'<text x="{LEFT - 6}" y="{y + 4:.0f}" text-anchor="end">{low + (high - low) * step / 5:.2f}</text>'
        )
    for place, (name, points) in enumerate(routers.items()):
        line = [*points, (most, points[-1][1])]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in line if point[0] <= most))
        dash = ' stroke-dasharray="5 4"' if name == "oracle" else ""
        colour = f"hsl({HUES[place % len(HUES)]} 60% 45%)"
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.6"{dash} points="{path}"/>')
        parts.append(
            f'<text x="{WIDTH - 180}" y="{HEIGHT - BELOW - 14 - 15 * place}" fill="{colour}">{escape(name)}</text>'
        )
    for one in backends:
        x, y = at(one["cost"], one["quality"])
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5"><title>{escape(one["backend"])}</title></circle>')
    return "\n".join([*parts, "</svg>"]) + "\n"
