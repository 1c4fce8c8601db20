"""The HTTP API of decisions, with the scope `ops`: one that was kept, routed again on the model version that made it."""

from typing import Any
from uuid import UUID

from training_app import explanations, nearest, registry, replays, serving
from training_app.addresses import Table
from training_app.calls import Call
from training_app.engine.router import ArtifactError
from training_app.models import Decision, unread
from training_app.replies import Refused, Reply, reply
from training_app.serving import Caller


def replay(call: Call, caller: Caller, decision_id: str) -> Reply:
    """GET /api/decisions/ID/replay/: the decision as it was kept, what the same version answers now, and why."""
    kept = _decision(caller, decision_id)
    if not kept.text:
        raise Refused(409, "cannot_replay", "The text of this decision was erased.")
    loaded = serving.current(kept.pool.slug)
    cold = loaded.live.cold if loaded is not None and loaded.live is not None else None
    try:
        found = replays.replay(kept, serving.router_of(kept.model), cold)
    except (registry.RegistryError, ArtifactError) as error:
        raise Refused(409, "cannot_replay", str(error)) from None
    route = found.route
    return reply(
        {
            "decision_id": str(kept.pk),
            "pool": kept.pool.slug,
            "model": kept.model.name,
            "at": kept.at.isoformat(),
            "text": kept.text,
            "kept": _answer(kept.agents, kept.scores, kept.confidence, kept.steps, kept.stop_reason, kept.abstained),
            "replayed": _answer(
                route.agents, route.scores, route.confidence, route.steps, route.stop_reason, route.abstained
            ),
            "identical": found.identical,
            "cold_computed_again": found.cold_again,
            "propensity": kept.propensity,
            "detail": kept.detail,
            "explanation": explanations.as_json(found.explanation),
            "nearest": [
                {
                    "query": near.query,
                    "text": near.text,
                    "agents": [agent.number for agent in near.agents],
                    "likeness": round(near.likeness, 4),
                }
                for near in nearest.to(kept.pool, kept.text)
            ],
        }
    )


def _answer(
    agents: Any, scores: Any, confidence: float, steps: int, stop_reason: str, abstained: bool
) -> dict[str, Any]:
    return {
        "agents": list(agents),
        "scores": {str(agent): round(score, 4) for agent, score in scores.items()},
        "confidence": round(confidence, 4),
        "steps": steps,
        "stop_reason": stop_reason,
        "abstained": abstained,
    }


def _decision(caller: Caller, decision_id: str) -> Decision:
    known = (
        Decision.objects.select_related("pool", "model__pool")
        .defer(*unread("model"))
        .filter(pool__slug__in=caller.pools)
    )
    found = known.filter(pk=UUID(decision_id)).first()
    if found is None:
        raise Refused(
            404, "not_found", f"There is no decision {decision_id} in the pools that this API key opens.",
            hint="It is there a second after the answer, for DECISION_DAYS days, where DECISION_SHARE kept it.",
        )  # fmt: skip
    return found


ENDPOINTS: Table = {"/api/decisions/{decision_id}/replay/": {"GET": replay}}
