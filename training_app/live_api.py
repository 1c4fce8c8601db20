"""The HTTP API of live changes, with the scope `ops`: agents paused and brought back; shadows and canaries started, stopped,
compared."""

from collections.abc import Mapping
from typing import Any

from agents_app import pools
from agents_app.models import Agent
from training_app import gate, live_figures, registry, trials
from training_app.addresses import Table
from training_app.calls import Call, body_of
from training_app.models import Canary, RouterModel
from training_app.operations_api import findings_json, key_name, model_of, pool_named, words_of
from training_app.replies import Refused, Reply, reply
from training_app.serving import Caller


def pause_agent(call: Call, caller: Caller, number: str) -> Reply:
    """POST /api/agents/NUMBER/pause/: route to the agent no more, until it is brought back; `why` is shown beside it."""
    body = body_of(call)
    agent, why = _agent(body, caller, number), words_of(body, "why")
    if len(why) > 200:
        raise Refused(400, "too_long", f"why has {len(why)} characters; at most 200 are taken.", field="why")
    return _agent_json(pools.set_available(agent, False, actor=None, actor_name=key_name(caller), why=why))


def resume_agent(call: Call, caller: Caller, number: str) -> Reply:
    """POST /api/agents/NUMBER/resume/: route to the agent again."""
    agent = _agent(body_of(call), caller, number)
    return _agent_json(pools.set_available(agent, True, actor=None, actor_name=key_name(caller)))


def _agent(body: Mapping[str, Any], caller: Caller, number: str) -> Agent:
    pool = pool_named(body.get("pool"), caller)
    # Longer numbers than the database has would be an error there.
    agent = pool.agents.filter(number=int(number)).first() if len(number) < 10 else None
    if agent is None:
        raise Refused(404, "not_found", f"There is no agent {number[:20]} in the pool {pool.slug}.")
    return agent


def _agent_json(agent: Agent) -> Reply:
    since = agent.unavailable_since
    return reply(
        {
            "id": agent.number,
            "pool": agent.pool.slug,
            "name": agent.name,
            "state": agent.state,
            "available": agent.available,
            "unavailable_since": since.isoformat() if since else None,
            "why": agent.unavailable_why,
        }
    )


def start_shadow(call: Call, caller: Caller, name: str) -> Reply:
    """POST /api/models/NAME/shadow/: let the model score live texts and answer nothing."""
    model = model_of(caller, name)
    try:
        trials.start_shadow(model, actor=None, actor_name=key_name(caller))
    except registry.RegistryError as error:
        raise Refused(409, "cannot_shadow", str(error)) from None
    return reply({"model": model.name, "state": model.state})


def stop_shadow(call: Call, caller: Caller, name: str) -> Reply:
    """POST /api/models/NAME/shadow/stop/: let it score no more."""
    model = model_of(caller, name)
    try:
        trials.stop_shadow(model, actor=None, actor_name=key_name(caller))
    except registry.RegistryError as error:
        raise Refused(409, "cannot_shadow", str(error)) from None
    return reply({"model": model.name, "state": model.state})


def start_canary(call: Call, caller: Caller, name: str) -> Reply:
    """POST /api/models/NAME/canary/: let the model answer a share of the traffic, through the gate; again, another share."""
    body, model = body_of(call), model_of(caller, name)
    share = body.get("share")
    if isinstance(share, bool) or not isinstance(share, int | float):
        code = "missing" if share is None else "invalid"
        raise Refused(400, code, "share must be a number above 0 and at most 0.5.", field="share")
    try:
        canary = trials.start_canary(
            model, float(share), actor=None, actor_name=key_name(caller),
            reason=words_of(body, "reason"), override=words_of(body, "override"),
        )  # fmt: skip
    except gate.GateRefused as refused:
        raise Refused(
            409, "gate_refused", str(refused), hint="Send override with a reason to let it answer a share all the same.",
            findings=findings_json(refused.verdict),
        ) from None  # fmt: skip
    except registry.RegistryError as error:
        raise Refused(409, "cannot_canary", str(error)) from None
    return reply(_canary(canary))


def stop_canary(call: Call, caller: Caller, name: str) -> Reply:
    """POST /api/models/NAME/canary/stop/: let the active model answer everything again."""
    model = model_of(caller, name)
    canary = trials.canary_of(model.pool)
    if canary is None or canary.model_id != model.pk:
        raise Refused(409, "cannot_canary", f"{model.name} is not the canary of {model.pool.slug}.")
    return reply(_canary(trials.stop_canary(model.pool, actor=None, actor_name=key_name(caller))))


def live(call: Call, caller: Caller, name: str) -> Reply:
    """GET /api/models/NAME/live/: how the model compares on live decisions, as a shadow and as a canary; null where it is neither."""
    model = model_of(caller, name)
    canary = trials.canary_of(model.pool)
    shadow = model.state == RouterModel.State.SHADOW
    return reply(
        {
            "model": model.name,
            "state": model.state,
            "shadow": live_figures.shadow_json(model) if shadow else None,
            "canary": live_figures.canary_json(canary) if canary and canary.model_id == model.pk else None,
        }
    )


def _canary(canary: Canary) -> dict[str, Any]:
    return {
        "model": canary.model.name,
        "against": canary.against.name,
        "share": canary.share,
        "passed": canary.passed,
        "override": canary.override,
        "started_at": canary.started_at.isoformat(),
        "ended_at": canary.ended_at.isoformat() if canary.ended_at else None,
    }


ENDPOINTS: Table = {
    "/api/agents/{number}/pause/": {"POST": pause_agent},
    "/api/agents/{number}/resume/": {"POST": resume_agent},
    "/api/models/{name}/shadow/": {"POST": start_shadow},
    "/api/models/{name}/shadow/stop/": {"POST": stop_shadow},
    "/api/models/{name}/canary/": {"POST": start_canary},
    "/api/models/{name}/canary/stop/": {"POST": stop_canary},
    "/api/models/{name}/live/": {"GET": live},
}
