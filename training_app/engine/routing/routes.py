"""What a router answers: a route, whether a conversation's agents go on, and the explanation of a route."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.routing.allowed import Reason

StopReason = Literal["stop", "none", "max_agents", "abstained"]


@dataclass(frozen=True, slots=True)
class Route:
    """One answer.

    `agents` are ids in the order in which the policy took them. `scores` are calibrated probabilities that each
    available agent is needed, `confidence` the calibrated probability that the whole set is right. `stop_reason` is
    "stop" (the policy stopped), "none" (no agent is needed), "max_agents" (the limit was reached) or "abstained"
    (the router does not know; `agents` is its best guess all the same and `abstained` is true).
    """

    agents: tuple[int, ...]
    scores: dict[int, float]
    confidence: float
    steps: int
    stop_reason: StopReason
    abstained: bool = False


@dataclass(frozen=True, slots=True)
class Answers:
    """What a router answers to N texts over its A agents: its scores `log_odds` float32[N, A], the sets `selected` bool[N, A], the
    `confidence` float32[N] that each is right, and `strange` bool[N]: abstained from because the text is like none that was learnt."""

    log_odds: FloatArray
    selected: BoolArray
    confidence: FloatArray
    strange: BoolArray


@dataclass(frozen=True, slots=True)
class Continued:
    """Whether a turn needs exactly the agents of the turn before, `last` (ids): what is answered, and how likely that is right. `held`
    says that the set is theirs where the router alone would have chosen another."""

    last: tuple[int, ...]
    continues: bool
    confidence: float
    held: bool = False


#: How much the agents of the turn before are preferred where a request does not say. On validation conversations of the Schema-Guided
#: Dialogue set 0.7 gets as many turns right as 0.5, with a third fewer flips (`benchmarks.continuing`).
STICKY = 0.7


@dataclass(frozen=True, slots=True)
class Explanation:
    """A route, step by step. `rule` says what chose: "ddqn", "bayes" or "threshold".
    Each of `steps` is `{"q": {agent id: value}, "stop": value, "masked": [agent ids],
    "chosen": agent id or None for STOP}`; `features` gives per agent id the (part of the text, weight) pairs that
    moved its score most. `left_out` says of agents that would have been chosen, were every set allowed, which rule left them out."""

    route: Route
    steps: list[dict[str, Any]]
    features: dict[int, list[tuple[str, float]]] = field(default_factory=dict)
    rule: str = "ddqn"
    left_out: dict[int, Reason] = field(default_factory=dict)
