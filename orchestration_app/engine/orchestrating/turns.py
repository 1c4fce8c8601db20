"""The values that the loop takes and gives: limits, decisions, calls to make, what came of them, and how an episode ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from orchestration_app.engine.orchestrating.state import Call

MOST_PATHS = 3

StopReason = Literal["stop", "max_steps", "budget", "no_agents"]
FailureKind = Literal[
    "timeout", "rate_limited", "unreachable", "cut_off", "too_large", "malformed", "refused", "unavailable", "error"
]
Aim = Literal["answer", "aggregate"]


@dataclass(frozen=True, slots=True)
class Result:
    """What a call gave: cost in the pool's currency, latency in seconds. `metadata["answer"]`, where it is there, is the text that
    counts as an answer to the task, None for none; else all of `content` is."""

    content: str
    cost: float = 0.0
    tokens: int = 0
    latency: float = 0.0
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call gave nothing. `cost` None means that nobody knows what it cost: it is counted at its worst case."""

    kind: FailureKind
    message: str = ""
    cost: float | None = None
    tokens: int = 0
    latency: float = 0.0


Outcome = Result | Failure


@dataclass(frozen=True, slots=True)
class Limits:
    """What an episode may do. `max_steps` 0 is the policy's own; `budget` in the pool's currency, None for no limit; `paths` up to
    MOST_PATHS run beside each other and share the budget; `together` is the most agents that one step may call at once, those that
    the policy puts above 2/n, n being the number of actions that it may take. `available` are the ids of agents that may be
    called, None for all; `after` are those that need what others said. `aggregator` is the id of the agent that makes one answer of
    all outputs; None is a majority vote among the paths.
    """

    max_steps: int = 0
    budget: float | None = None
    paths: int = 1
    together: int = 1
    available: frozenset[int] | None = None
    aggregator: int | None = None
    after: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if not 1 <= self.paths <= MOST_PATHS:
            raise ValueError(f"paths must be from 1 to {MOST_PATHS}, not {self.paths}")
        if self.together < 1 or self.max_steps < 0 or (self.budget is not None and not self.budget >= 0):
            raise ValueError("together must be at least 1, max_steps and budget not negative")


@dataclass(frozen=True, slots=True)
class Decision:
    """One decision of one path. `candidates` are agents' ids, None for STOP, and `probabilities` what the policy gave each;
    `chosen` the agents to call, none for STOP; `propensity` the probability with which this would be chosen again, 1 for a greedy
    choice. `reason` is set where the path ends here."""

    path: int
    step: int
    candidates: tuple[int | None, ...]
    probabilities: tuple[float, ...]
    chosen: tuple[int, ...]
    propensity: float
    reason: StopReason | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON-able values; `from_json` gives it back."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Decision:
        lists = {name: tuple(values[name]) for name in ("candidates", "probabilities", "chosen")}
        return cls(values["path"], values["step"], **lists, propensity=values["propensity"], reason=values["reason"])


@dataclass(frozen=True, slots=True)
class Request:
    """One call to make: `number` counts the calls of the episode from 0 and never changes, so that episode and number name the call
    wherever it is made again. `calls` are those of the path so far, what the agent is shown; for aim "aggregate", all paths'.
    `worst` is the cost that was set aside for it."""

    number: int
    path: int
    step: int
    agent: int
    worst: float
    calls: tuple[Call, ...] = ()
    aim: Aim = "answer"

    def to_json(self) -> dict[str, Any]:
        """As JSON-able values, without `calls`, which earlier turns hold; `from_json` gives the rest back."""
        return {name: getattr(self, name) for name in self.__slots__ if name != "calls"}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Request:
        return cls(**{name: values[name] for name in cls.__slots__ if name in values})


@dataclass(frozen=True, slots=True)
class Turn:
    """One round of an episode: what every live path decided, and the calls that follow, all of which may be made at once."""

    number: int
    decisions: tuple[Decision, ...]
    requests: tuple[Request, ...]

    def to_json(self) -> dict[str, Any]:
        """As JSON-able values; `from_json` gives it back, requests without their calls."""
        return {
            "number": self.number,
            "decisions": [decision.to_json() for decision in self.decisions],
            "requests": [request.to_json() for request in self.requests],
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Turn:
        return cls(
            values["number"],
            tuple(Decision.from_json(v) for v in values["decisions"]),
            tuple(Request.from_json(v) for v in values["requests"]),
        )


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn that was handed out before, with the outcomes that came back, by the numbers of their calls."""

    turn: Turn
    outcomes: Mapping[int, Outcome] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ended:
    """How an episode ended. `answer` is None where no agent gave one; `steps` counts decisions that called somebody, of the
    longest path; `latency` is that of turns one after another, each as long as its longest call, in seconds."""

    answer: str | None
    steps: int
    calls: int
    cost: float
    tokens: int
    latency: float
    stop_reason: StopReason
    answers: tuple[str | None, ...] = ()
    reasons: tuple[StopReason, ...] = ()
