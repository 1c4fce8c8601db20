"""One backend of several, for a preference: argmax of w_q · p − w_c · cost / C − w_l · latency / L, with the queue of now.

C and L are the dearest cost and the slowest unloaded latency among the backends, so that weights mean the same in every pool. In the
queue of now a backend that serves `busy` requests of the `parallel` that it can makes the next one wait:

    latency = service · (1 + ρ / (1 − ρ)),  ρ = busy / parallel      (M/M/1: 1 / (μ − λ) = service / (1 − ρ))

Plain Python over a handful of backends: numpy would take longer to begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

#: The busiest that a queue is taken to be: 20 times the service time.
FULL = 0.95


@dataclass(frozen=True, slots=True)
class Preference:
    """What an answer should be, three non-negative weights that sum to one."""

    quality: float
    cost: float
    latency: float

    @classmethod
    def of(cls, quality: float = 0.0, cost: float = 0.0, latency: float = 0.0) -> Preference:
        """Any non-negative weights, normalised. Raises ValueError where one is negative or not finite, or all are 0."""
        whole = quality + cost + latency
        if min(quality, cost, latency) < 0 or not 0 < whole < float("inf"):
            raise ValueError("weights must be finite and not negative, and one of them above 0")
        return cls(quality / whole, cost / whole, latency / whole)


PRESETS: dict[str, Preference] = {
    "best": Preference(1.0, 0.0, 0.0),
    "balanced": Preference(0.7, 0.2, 0.1),
    "cheapest": Preference(0.0, 1.0, 0.0),
    "fastest": Preference(0.0, 0.0, 1.0),
}


@dataclass(slots=True, eq=False)
class Candidate:
    """One backend as it could be chosen now: calibrated success 0..1, dollars, unloaded milliseconds, how busy it is (ρ).

    `less` is taken from its worth: what the load costs, what exploration adds. Equals go by `rank`, the lower first.
    """

    key: int
    success: float
    cost: float
    service: float
    busy: float = 0.0
    less: float = 0.0
    rank: float = 0.0

    @property
    def latency(self) -> float:
        """Milliseconds with the queue of now."""
        return self.service / (1.0 - min(self.busy, FULL))


class Chosen(NamedTuple):
    """A candidate, its worth for the preference, and its latency with the queue of now in milliseconds."""

    candidate: Candidate
    worth: float
    latency: float


def scales(candidates: Sequence[Candidate]) -> tuple[float, float]:
    """C and L: the dearest cost and the slowest unloaded latency."""
    return max([candidate.cost for candidate in candidates]) or 1.0, max(
        [candidate.service for candidate in candidates]
    ) or 1.0


def choose(
    candidates: Sequence[Candidate], preference: Preference, dearest: float = 0.0, slowest: float = 0.0
) -> Chosen:
    """The best one, by C and L of these candidates where none are given. Raises ValueError where there are none."""
    if not candidates:
        raise ValueError("there is no backend to choose from")
    if not dearest:
        dearest, slowest = scales(candidates)
    quality, cost, late = preference.quality, preference.cost, preference.latency
    best, highest = None, None
    for candidate in candidates:
        busy = candidate.busy
        latency = candidate.service / (1.0 - (busy if busy < FULL else FULL))
        worth = (
            quality * candidate.success
            - cost * (candidate.cost / dearest)
            - late * (latency / slowest)
            - candidate.less
        )
        key = worth, candidate.success, -candidate.cost, -candidate.rank
        if best is None or key > best:
            best, highest = key, (candidate, latency)
    assert best is not None
    assert highest is not None
    return Chosen(highest[0], best[0], highest[1])


def foremost(
    candidates: Sequence[Candidate], preference: Preference, dearest: float, slowest: float
) -> tuple[list[int], list[float]]:
    """The places of the best one and of its equals, which differ from it in rank alone; and each one's latency with the queue of now.

    What `choose` finds but for the rank, to be kept while nothing but ranks change.
    """
    quality, cost, late = preference.quality, preference.cost / dearest, preference.latency / slowest
    latencies = [candidate.latency for candidate in candidates]
    keys = [
        (
            quality * candidate.success - cost * candidate.cost - late * latency - candidate.less,
            candidate.success,
            -candidate.cost,
        )
        for candidate, latency in zip(candidates, latencies, strict=True)
    ]
    best = max(keys)
    return [place for place, key in enumerate(keys) if key == best], latencies
