"""Shares of successes and their intervals, where a bootstrap of few zeros and ones would be too sure of itself."""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot, sqrt

Z = 1.959964  # of a two-sided 95 % interval


def wilson(good: int, count: int) -> dict[str, float]:
    """A share with its 95 % interval (Wilson 1927): {"mean", "low", "high"}; without an observation nan from 0 to 1."""
    if not count:
        return {"mean": float("nan"), "low": 0.0, "high": 1.0}
    p, square = good / count, Z * Z
    middle = (p + square / (2 * count)) / (1 + square / count)
    half = Z * sqrt(p * (1 - p) / count + square / (4 * count * count)) / (1 + square / count)
    return {"mean": p, "low": max(0.0, middle - half), "high": min(1.0, middle + half)}


def difference(good: int, count: int, other_good: int, other_count: int) -> dict[str, float]:
    """The first share less the second, with its 95 % interval (Newcombe 1998, method 10); nan from -1 to 1 without observations."""
    if not count or not other_count:
        return {"mean": float("nan"), "low": -1.0, "high": 1.0}
    return apart(wilson(good, count), wilson(other_good, other_count))


def apart(ours: Mapping[str, float], theirs: Mapping[str, float]) -> dict[str, float]:
    """The difference of two figures that were measured on observations of their own, from the interval of each: low = d - sqrt((ours -
    ours.low)² + (theirs.high - theirs)²), and high likewise (Zou and Donner 2008). On shared observations it is wider than it need be.
    """
    mean = ours["mean"] - theirs["mean"]
    down = hypot(ours["mean"] - ours["low"], theirs["high"] - theirs["mean"])
    up = hypot(ours["high"] - ours["mean"], theirs["mean"] - theirs["low"])
    return {"mean": mean, "low": mean - down, "high": mean + up}


def means(ours: tuple[float, float, int], theirs: tuple[float, float, int]) -> dict[str, float]:
    """The difference of two means with its 95 % interval (normal): each as (mean, variance, count); nan where one has under two."""
    if ours[2] < 2 or theirs[2] < 2:
        return {"mean": float("nan"), "low": float("nan"), "high": float("nan")}
    mean = ours[0] - theirs[0]
    half = Z * sqrt(ours[1] / ours[2] + theirs[1] / theirs[2])
    return {"mean": mean, "low": mean - half, "high": mean + half}
