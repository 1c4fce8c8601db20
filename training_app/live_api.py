"""The HTTP API of shadows and canaries, with the scope `ops`: start, stop, and how they compare."""

from typing import Any

from training_app import gate, live_figures, registry, trials
from training_app.addresses import Table
from training_app.calls import Call, body_of
from training_app.models import Canary, RouterModel
from training_app.operations_api import findings_json, key_name, model_of, words_of
from training_app.replies import Refused, Reply, reply
from training_app.serving import Caller


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
    "/api/models/{name}/shadow/": {"POST": start_shadow},
    "/api/models/{name}/shadow/stop/": {"POST": stop_shadow},
    "/api/models/{name}/canary/": {"POST": start_canary},
    "/api/models/{name}/canary/stop/": {"POST": stop_canary},
    "/api/models/{name}/live/": {"GET": live},
}
