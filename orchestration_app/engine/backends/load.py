"""Who was given work lately, and what it costs to give the same one more.

The last WINDOW assignments are all that is remembered. With N members available, a fair share is 1/N; utilisation u is a member's
share of the window. Whoever stands above 1.5 fair shares is hot, the largest only, and giving it one more costs

    penalty = min(0.15 · max(0, u / fair − 1), 0.20)

taken before the assignment is recorded. With four members: 25 % → 0, 37.5 % → 0.075, 50 % → 0.150, from 58.3 % on 0.200.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

WINDOW = 8
HOT = 1.5  # fair shares
LEAST = 3  # assignments below which nobody is hot
STEEPNESS, MOST = 0.15, 0.20


def penalty(utilisation: float, fair: float) -> float:
    """What one more assignment costs in reward for a member with that share of the window; shares in 0..1."""
    return min(STEEPNESS * max(0.0, utilisation / fair - 1.0), MOST)


@dataclass
class LoadTracker:
    """The last assignments of a pool; members are any integers. Not for several threads at once."""

    window: int = WINDOW
    recent: deque[int] = field(default_factory=deque)

    @classmethod
    def of(cls, recent: Iterable[int], window: int = WINDOW) -> LoadTracker:
        """A tracker that has seen these assignments, oldest first."""
        return cls(window, deque(list(recent)[-window:]))

    def utilisation(self, member: int) -> float:
        """The member's share of the assignments that are remembered; 0 before the first."""
        return self.recent.count(member) / len(self.recent) if self.recent else 0.0

    def penalty(self, member: int, available: Collection[int]) -> float:
        """What giving it one more costs now. `available` are the members that could be given work."""
        return penalty(self.utilisation(member), 1.0 / max(len(available), 1))

    def hot(self, available: Collection[int]) -> int | None:
        """The one available member that has far more than its share, None while the load is balanced."""
        if len(self.recent) < LEAST or len(available) < 2:
            return None
        largest = max(sorted(available), key=self.utilisation)
        return largest if self.utilisation(largest) > HOT / len(available) else None

    def record(self, member: int) -> None:
        """It was given one more."""
        self.recent.append(member)
        while len(self.recent) > self.window:
            self.recent.popleft()
