"""The router that serves: an artifact in memory, from text to the set of agents. numpy only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

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
class Explanation:
    """A route, step by step. Each of `steps` is `{"q": {agent id: value}, "stop": value, "masked": [agent ids],
    "chosen": agent id or None for STOP}`; `features` gives per agent id the (part of the text, weight) pairs that
    moved its score most."""

    route: Route
    steps: list[dict[str, Any]]
    features: dict[int, list[tuple[str, float]]] = field(default_factory=dict)
