"""A decision again: on the model version that made it, with the agents that were available then, and with what was done to its set."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training_app import decisions, live
from training_app.engine.cold import ColdScorer
from training_app.engine.exploring import turned
from training_app.engine.router import Explanation, Route, Router
from training_app.models import Decision


@dataclass(frozen=True, slots=True)
class Replay:
    """`explanation` is the model's own walk; `route` what came of it after exploration and cold agents, as it was answered.

    `cold_again` tells whether the likenesses were computed anew: None where there were none, False where descriptions have changed
    since, so that the ones kept with the decision were taken.
    """

    explanation: Explanation
    route: Route
    identical: bool
    cold_again: bool | None = None


def replay(kept: Decision, router: Router, scorer: ColdScorer | None = None) -> Replay:
    """Route the decision's text again. `scorer` is the pool's present one, where it has one.

    What chance decided is not drawn again: the agent that changed sides is the one that the decision names.
    """
    explanation = decisions.replay(kept, router)
    route, detail = explanation.route, kept.detail or {}
    explored = detail.get("explored")
    if explored is not None:
        route = live.with_agents(route, turned(route.agents, explored))
    again: bool | None = None
    if "cold" in detail:
        again = scorer is not None and scorer.profile == detail["cold"]["profile"]
        scores = scorer.scores(kept.text) if scorer is not None and again else cold_scores(detail)
        taken = live.cold_agents(scores, detail["cold"]["threshold"], len(route.agents), router.limits[1])
        if taken:
            route = live.with_agents(route, (*route.agents, *taken))
        if scores != cold_scores(detail):
            return Replay(explanation, route, False, again)
    return Replay(explanation, route, decisions.identical(kept, route), again)


def cold_scores(detail: Mapping[str, Any]) -> dict[int, float]:
    """The likenesses that a decision kept, by agent."""
    return {int(agent): score for agent, score in detail.get("cold", {}).get("scores", {}).items()}
