"""A decision again: on the model version that made it, with the agents that were available then, and with what was done to its set."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training_app.answering import answer, decisions
from training_app.engine.reading.cold import ColdScorer
from training_app.engine.routing.options import RequestOptions
from training_app.engine.routing.router import Explanation, Route, Router
from training_app.models import Decision


@dataclass(frozen=True, slots=True)
class Replay:
    """`explanation` is the model's own walk; `route` what came of it after exploration and cold agents, as it was answered.

    `cold_again` tells whether the likenesses were computed again: None where there were none, False where descriptions have changed
    since, so that the ones kept with the decision were taken.
    """

    explanation: Explanation
    route: Route
    identical: bool
    cold_again: bool | None = None


def replay(kept: Decision, router: Router, scorer: ColdScorer | None = None) -> Replay:
    """Route the decision's text again. `scorer` is the pool's present one, where it has one."""
    detail = kept.detail or {}
    then = cold_scores(detail) if "cold" in detail else None
    now, computed, options = then, None, RequestOptions.of_decision(detail)
    if then is not None:
        computed = scorer is not None and scorer.profile == detail["cold"]["profile"]
        if scorer is not None and computed:
            now = {
                agent: score for agent, score in scorer.scores(kept.text).items() if options is None or agent in then
            }
    explanation, route = answer.again(kept, router, now)
    return Replay(explanation, route, now == then and decisions.identical(kept, route), computed)


def cold_scores(detail: Mapping[str, Any]) -> dict[int, float]:
    """The likenesses that a decision kept, by agent."""
    return {int(agent): score for agent, score in detail.get("cold", {}).get("scores", {}).items()}
