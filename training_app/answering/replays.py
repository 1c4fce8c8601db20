"""A decision again: on the model version that made it, with the agents that were available then, and with what was done to its set."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from training_app.answering import answer, decisions, described, serving
from training_app.engine.reading.cold import ColdScorer, ColdScores
from training_app.engine.routing.options import RequestOptions
from training_app.engine.routing.router import Router
from training_app.engine.routing.routes import Explanation, Route
from training_app.models import Decision
from training_app.versions import registry


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
    then = cold_then(detail) if "cold" in detail else None
    now, computed, options = then, None, RequestOptions.of_decision(detail)
    if then is not None:
        computed = scorer is not None and scorer.profile == detail["cold"]["profile"]
        if scorer is not None and computed:
            scores = scorer.scores(kept.routed_text)
            now = replace(
                scores, cold={agent: p for agent, p in scores.cold.items() if options is None or agent in then.cold}
            )
    explanation, route = answer.again(kept, router, now)
    return Replay(explanation, route, now == then and decisions.identical(kept, route), computed)


def router_of(kept: Decision) -> Router:
    """What made a decision: its version or, where descriptions did, the router of the present ones. Raises registry.RegistryError or
    ArtifactError where there is none any more."""
    if kept.model is not None:
        return serving.router_of(kept.model)
    loaded = serving.current(kept.pool.slug)
    router = described.router_of(loaded.roster) if loaded is not None else None
    if router is None:
        raise registry.RegistryError(
            f"The pool {kept.pool.slug} has no agents any more whose descriptions could answer."
        )
    return router


def cold_scores(detail: Mapping[str, Any]) -> dict[int, float]:
    """How likely cold agents were needed by what a decision kept, by agent."""
    return cold_then(detail).cold


def cold_then(detail: Mapping[str, Any]) -> ColdScores:
    """What descriptions said when a decision was made."""
    kept = detail.get("cold", {})
    by_kind = ({int(agent): p for agent, p in kept.get(kind, {}).items()} for kind in ("scores", "trained"))
    return ColdScores(*by_kind)
