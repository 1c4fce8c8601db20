"""What a way to choose backends is worth: quality, cost, latency, and how they are traded. numpy only.

AIQ (RouterBench, Hu et al. 2024, arXiv 2403.12031) is the area under the non-decreasing convex hull of a router's points of mean cost
and mean quality, over the range of the single backends' mean costs, divided by that range. Beyond its last point a hull is level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Point = tuple[float, float]  # mean cost in dollars, mean quality 0..1
ENOUGH = 1e-12


def hull(points: Sequence[Point]) -> list[Point]:
    """The non-decreasing upper convex hull of points of cost and quality, cheapest first."""
    corners: list[Point] = []
    for cost, quality in sorted(points, key=lambda point: (point[0], -point[1])):
        if corners and quality <= corners[-1][1]:
            continue
        while len(corners) > 1:
            (x0, y0), (x1, y1) = corners[-2:]
            if (y1 - y0) * (cost - x0) > (quality - y0) * (x1 - x0):
                break
            corners.pop()
        corners.append((cost, quality))
    return corners


def aiq(points: Sequence[Point], low: float, high: float) -> float:
    """The mean height of the hull between two costs; a hull that begins above `low` is 0 before it."""
    corners = hull(points)
    costs, heights = np.array([c for c, _ in corners]), np.array([q for _, q in corners])
    inside = costs[(costs > low) & (costs < high)]
    at = np.unique(np.concatenate([[low], inside, [high]]))
    # Both sides of the first point: nothing is bought for less.
    height = np.where(at < costs[0], 0.0, np.interp(at, costs, heights))
    area = float(((height[1:] + height[:-1]) / 2 * np.diff(at)).sum())
    if low < costs[0] < high:  # a step at the first point, not a ramp up to it
        area -= float(heights[0] * (costs[0] - at[at < costs[0]].max()) / 2)
    return area / (high - low)


def cost_at(points: Sequence[Point], quality: float) -> float | None:
    """The least cost of a point that has at least that quality, None where none has. No mixture of points is assumed."""
    enough = [cost for cost, reached in points if reached >= quality - ENOUGH]
    return min(enough) if enough else None


@dataclass(frozen=True, slots=True)
class Traded:
    """A router's figures: `cost_at_95` and `cost_at_100` say what that share of the best single
    backend's quality costs, as a share of its cost."""

    aiq: float
    best_quality: float
    cost_at_95: float | None
    cost_at_100: float | None

    def as_json(self) -> dict[str, float | None]:
        """Under the names that benchmark_backends writes."""
        return {
            "aiq": self.aiq, "best_quality": self.best_quality,
            "cost_at_95": self.cost_at_95, "cost_at_100": self.cost_at_100,
        }  # fmt: skip


def traded(points: Sequence[Point], success: Floats, cost: Floats) -> Traded:
    """A router's figures from its points and what every backend would have made of every query, float64[N, B] each."""
    each_quality, each_cost = success.mean(axis=0), cost.mean(axis=0)
    best = int(np.argmax(each_quality))
    shares = [cost_at(points, share * float(each_quality[best])) for share in (0.95, 1.0)]
    at_95, at_100 = (None if cost_share is None else cost_share / float(each_cost[best]) for cost_share in shares)
    area = aiq(points, float(each_cost.min()), float(each_cost.max()))
    return Traded(area, max(quality for _, quality in points), at_95, at_100)


def efficiency(success: float, cost: float, latency: float) -> float:
    """success / (cost + latency): of means, cost in thousandths of a dollar and latency in seconds."""
    return success / max(cost * 1000 + latency, 1e-9)


def curve(worth: Floats, price: Floats, success: Floats, cost: Floats, lambdas: Floats) -> list[Point]:
    """The points of argmax_b (worth − λ · price) for every λ in reward a dollar; all float64[N, B]."""
    rows = np.arange(len(success))
    points: dict[Point, None] = {}
    for weight in lambdas:
        chosen = np.argmax(worth - weight * price, axis=1)
        points[float(cost[rows, chosen].mean()), float(success[rows, chosen].mean())] = None
    return list(points)
