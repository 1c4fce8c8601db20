"""Who works well after whom: a table of pairs, learnt from chains of agents that the orchestrator ran.

Each pair starts from PRIOR, worth PRIOR_CHAINS chains (a Beta prior). The choice is argmax Q(a) + 0.3 · pair(previous, a).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

PRIOR, PRIOR_CHAINS, WEIGHT = 0.5, 2.0, 0.3


@dataclass
class PairTable:
    """Members are places 0..N-1; `good` and `seen` are float64[N, N], previous by next."""

    members: int
    good: NDArray[np.float64] = field(init=False)
    seen: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self.good, self.seen = np.zeros((2, self.members, self.members))

    def matrix(self) -> NDArray[np.float64]:
        """How well each does after each, 0..1, float64[N, N]; 0.5 where nothing is known. Always bounded."""
        return (self.good + PRIOR * PRIOR_CHAINS) / (self.seen + PRIOR_CHAINS)

    def learn(self, chain: Sequence[int], success: float) -> None:
        """One chain of members in their order, and how well it ended, 0..1."""
        for previous, member in pairwise(chain):
            self.good[previous, member] += success
            self.seen[previous, member] += 1

    def choose(self, values: NDArray[np.float64], previous: int | None) -> int:
        """The next member by its own value float64[N] and how well it does after the previous one."""
        return int(np.argmax(values if previous is None else values + WEIGHT * self.matrix()[previous]))
