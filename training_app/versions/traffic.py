"""What a model left behind while a canary ran, in one shape for every kind of model."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, Protocol

from training_app.models import Canary

#: Newest answers of a side that are read, newest outcomes that the comparison of success reads, and newest answers that the split is
#: counted on.
MOST = 5_000
MOST_OUTCOMES = 100_000
MOST_SPLIT = 20_000


@dataclass(frozen=True, slots=True)
class Answers:
    """The newest answers of one side: agents each called or chose, whether it gave none, microseconds it took; and of all its outcomes
    how many there are and how many are good."""

    sizes: list[int]
    none: list[bool]
    microseconds: list[float]
    outcomes: int
    successes: int


class Judged(NamedTuple):
    """One outcome: whether it was good, who answered, for whom, when."""

    success: bool
    model: int
    unit: str
    at: datetime


class Traffic(Protocol):
    """How a kind's live answers are read. `stepwise`: an answer takes several steps, and seconds, as an episode does."""

    @property
    def stepwise(self) -> bool:
        """Whether pages count steps and seconds."""

    def answers(self, canary: Canary, model: int) -> Answers:
        """What that model answered while the canary ran."""

    def judged(self, canary: Canary) -> list[Judged]:
        """The newest outcomes of either side."""

    def sides(self, canary: Canary, since: datetime) -> Sequence[int]:
        """Who answered each unit (a user, a text, a task) since then: the models' keys."""


def both(canary: Canary) -> tuple[int, int]:
    """The keys of the canary's model and of the one it is compared with."""
    return canary.model_id, canary.against_id
