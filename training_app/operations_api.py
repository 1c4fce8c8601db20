"""The HTTP API beside routing: runs, models, promotion and roll-back with the scope `ops`, outcomes with the scope `route`.

What belongs to another pool is answered like what does not exist. Every change is recorded in the audit trail under the key's name.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from django.urls import reverse

from agents_app.models import Pool
from datasets_app.models import Snapshot
from training_app import gate, keeping, outcomes, registry, runs, scorecards, serving
from training_app.addresses import Table
from training_app.calls import Call, asked_of, body_of, check_text, pool_of
from training_app.engine.config import Config, ConfigError
from training_app.models import Decision, Promotion, RouterModel, Run, unread
from training_app.replies import Refused, Reply, reply
from training_app.serving import Caller

#: Rows that a list holds at most.
MOST = 100


# --- Runs ---------------------------------------------------------------------------------------------------------


def list_runs(call: Call, caller: Caller) -> Reply:
    """GET /api/runs/?pool=&status=&limit=: the pool's runs, newest first."""
    asked = asked_of(call)
    pool = pool_named(asked.get("pool"), caller)
    found = Run.objects.filter(pool=pool).select_related("pool", "snapshot__pool", "model__pool")
    found = found.defer(*unread("model"))
    status = asked.get("status", "")
    if status:
        if status not in Run.Status.values:
            raise Refused(400, "invalid", f"status must be one of {', '.join(Run.Status.values)}.", field="status")
        found = found.filter(status=status)
    return reply({"pool": pool.slug, "runs": [run_json(run) for run in found[: _limit(asked)]]})


def launch_run(call: Call, caller: Caller) -> Reply:
    """POST /api/runs/: launch a run on the pool's gold labels as they are now, or on a snapshot; 201 with the queued run."""
    body = body_of(call)
    pool = pool_named(body.get("pool"), caller)
    config = config_of(body)
    promote, include_llm = (_switch(body, name) for name in ("promote", "include_llm"))
    snapshot = snapshot_of(body, pool)
    try:
        run = runs.launch(
            pool,
            config=config,
            snapshot=snapshot,
            promote=promote,
            include_llm=include_llm,
            actor_name=key_name(caller),
        )
    except ConfigError as error:
        raise Refused(400, "invalid", f"config.{error.field}: {error.reason}", field=f"config.{error.field}") from None
    except runs.RunError as error:
        raise Refused(409, "cannot_launch", str(error)) from None
    return reply(run_json(run), 201)


def one_run(call: Call, caller: Caller, run_id: str) -> Reply:
    """GET /api/runs/ID/: one run, how far it is and what it made."""
    return reply(run_json(_run(caller, run_id)))


def cancel_run(call: Call, caller: Caller, run_id: str) -> Reply:
    """POST /api/runs/ID/cancel/: end a queued or running run."""
    run = _run(caller, run_id)
    try:
        runs.cancel(run, actor=None, actor_name=key_name(caller))
    except runs.RunError as error:
        raise Refused(409, "ended", str(error)) from None
    return reply(run_json(run))


def run_json(run: Run) -> dict[str, Any]:
    """A run as a program sees it; `config` holds the settings that differ from the defaults."""
    defaults = Config().to_mapping()
    made = getattr(run, "model", None) if run.status == Run.Status.DONE else None
    return {
        "id": run.pk,
        "pool": run.pool.slug,
        "status": run.status,
        "phase": run.phase,
        "step": run.step,
        "total": run.total,
        "metrics": run.metrics,
        "error": run.error,
        "worker": run.worker,
        "workers_lost": run.losses,
        "config": {name: value for name, value in run.config.items() if defaults.get(name) != value},
        "snapshot": run.snapshot.number,
        "promote": run.promote,
        "model": made.name if made else None,
        "created_at": run.created_at.isoformat(),
        "started_at": run.started_at.isoformat() if run.started_at else None,
        "finished_at": run.finished_at.isoformat() if run.finished_at else None,
        "page": reverse("run", args=[run.pool.slug, run.pk]),
    }


# --- Models -------------------------------------------------------------------------------------------------------


def list_models(call: Call, caller: Caller) -> Reply:
    """GET /api/models/?pool=&limit=: the pool's models, newest first, with their test figures."""
    asked = asked_of(call)
    pool = pool_named(asked.get("pool"), caller)
    found = scorecards.with_headlines(list(registry.models(pool).defer("scorecard")[: _limit(asked)]))
    return reply({"pool": pool.slug, "models": [model_json(model) for model in found]})


def promote_model(call: Call, caller: Caller, name: str) -> Reply:
    """POST /api/models/NAME/promote/: make the model answer, if it passes the gate or `override` says why it does all the same."""
    body = body_of(call)
    model = model_of(caller, name)
    reason, override = words_of(body, "reason"), words_of(body, "override")
    try:
        promotion = gate.promote(model, actor=None, actor_name=key_name(caller), reason=reason, override=override)
    except gate.GateRefused as refused:
        raise Refused(
            409, "gate_refused", str(refused), hint="Send override with a reason to promote it all the same.",
            findings=findings_json(refused.verdict),
        ) from None  # fmt: skip
    except registry.RegistryError as error:
        raise Refused(409, "cannot_promote", str(error)) from None
    return reply(promotion_json(promotion))


def pin_model(call: Call, caller: Caller, name: str) -> Reply:
    """POST /api/models/NAME/pin/: keep the model's artifact whatever comes."""
    return _pin(caller, name, True)


def unpin_model(call: Call, caller: Caller, name: str) -> Reply:
    """POST /api/models/NAME/unpin/: let the model's artifact grow old like others."""
    return _pin(caller, name, False)


def _pin(caller: Caller, name: str, on: bool) -> Reply:
    model = model_of(caller, name)
    try:
        keeping.pin(model, on, actor=None, actor_name=key_name(caller))
    except registry.RegistryError as error:
        raise Refused(409, "cannot_pin", str(error)) from None
    return reply(model_json(scorecards.with_headlines([model])[0]))


def roll_back(call: Call, caller: Caller) -> Reply:
    """POST /api/rollback/: go back to the model that was active before."""
    body = body_of(call)
    pool = pool_named(body.get("pool"), caller)
    try:
        promotion = registry.rollback(pool, actor=None, actor_name=key_name(caller), reason=words_of(body, "reason"))
    except registry.RegistryError as error:
        raise Refused(409, "cannot_roll_back", str(error)) from None
    return reply(promotion_json(promotion))


def model_json(model: RouterModel) -> dict[str, Any]:
    """A model as a program sees it; the figures are None where it has none."""
    return {
        "name": model.name,
        "version": model.version,
        "state": model.state,
        "run": model.run_id,
        **{name: scorecards.figure_of(model, name) for name in scorecards.HEADLINE},
        "agents": [agent["id"] for agent in model.roster],
        "sha256": model.artifact_digest,
        "bytes": model.artifact_bytes,
        "pinned": model.pinned,
        "created_at": model.created_at.isoformat(),
    }


def findings_json(verdict: gate.Verdict) -> list[dict[str, Any]]:
    """What the gate found, in order."""
    return [{"check": f.check, "passed": f.passed, "text": f.text} for f in verdict.findings]


def promotion_json(promotion: Promotion) -> dict[str, Any]:
    """A change of the active model as a program sees it."""
    return {
        "model": promotion.model.name,
        "previous": promotion.previous.name if promotion.previous else None,
        "kind": promotion.kind,
        "reason": promotion.reason,
        "at": promotion.at.isoformat(),
    }


# --- Outcomes -----------------------------------------------------------------------------------------------------


def report_outcome(call: Call, caller: Caller) -> Reply:
    """POST /api/outcomes/: what became of a decision, which need not be written yet. 201 at first; the last report counts."""
    body = body_of(call)
    report = outcomes.Report(
        decision=_decision(body), success=_success(body), agents_used=_agents_used(body), rating=_rating(body),
        comment=_comment(body),
    )  # fmt: skip
    pool = pool_named(_pool_of_outcome(body, report.decision, caller), caller)
    if strange := set(report.agents_used or ()) - set(pool.agents.values_list("number", flat=True)):
        words = f"agents_used names {min(strange)}, which is no agent of {pool.slug}."
        raise Refused(400, "invalid", words, field="agents_used")
    try:
        outcome, new = outcomes.record(pool, caller.pk, report)
    except outcomes.OtherPool:
        raise Refused(
            404, "not_found", f"There is no decision {report.decision} in the pool {pool.slug}.", field="decision_id"
        ) from None
    return reply({"decision_id": str(outcome.decision_id), "pool": pool.slug, "new": new}, 201 if new else 200)


def _pool_of_outcome(body: Mapping[str, Any], decision: uuid.UUID, caller: Caller) -> Any:
    """The pool that is named, or that of the decision where it is written already."""
    if body.get("pool") is not None or len(caller.pools) == 1:
        return body.get("pool")
    return (
        Decision.objects.filter(pk=decision, pool__slug__in=caller.pools).values_list("pool__slug", flat=True).first()
    )


def _decision(body: Mapping[str, Any]) -> uuid.UUID:
    value = body.get("decision_id")
    try:
        return uuid.UUID(value)
    except (ValueError, TypeError, AttributeError):
        code = "missing" if value is None else "invalid"
        raise Refused(400, code, "decision_id must be the id that an answer came with.", field="decision_id") from None


def _success(body: Mapping[str, Any]) -> bool:
    value = body.get("success")
    if not isinstance(value, bool):
        code = "missing" if value is None else "invalid"
        raise Refused(400, code, "success must be true or false.", field="success")
    return value


def _agents_used(body: Mapping[str, Any]) -> list[int] | None:
    value = body.get("agents_used")
    if value is None:
        return None
    if not isinstance(value, list) or len(value) > 1000 or not all(type(number) is int for number in value):
        raise Refused(400, "invalid", "agents_used must be a list of agents' ids.", field="agents_used")
    return sorted(set(value))


def _rating(body: Mapping[str, Any]) -> float | None:
    value = body.get("rating")
    if value is None:
        return None
    if type(value) not in (int, float) or not -1e9 < value < 1e9:
        raise Refused(400, "invalid", "rating must be a number.", field="rating")
    return float(value)


def _comment(body: Mapping[str, Any]) -> str:
    value = body.get("comment")
    return check_text(value, "comment") if value else ""


# --- What a call holds --------------------------------------------------------------------------------------------


def key_name(caller: Caller) -> str:
    """Who a change is recorded under."""
    return f"key {caller.name}"


def pool_named(slug: Any, caller: Caller) -> Pool:
    """The pool of a call: the one named, or the key's only one."""
    return Pool.objects.get(pk=pool_of(slug, caller, serving.served()).pk)


def config_of(body: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a body, which the engine checks."""
    config = body.get("config", {})
    if not isinstance(config, dict):
        raise Refused(400, "invalid", "config must be an object of settings.", field="config")
    return config


def _switch(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise Refused(400, "invalid", f"{name} must be true or false.", field=name)
    return value


def snapshot_of(body: Mapping[str, Any], pool: Pool) -> Snapshot | None:
    """The snapshot whose number a body names, None where it names none."""
    number = body.get("snapshot")
    if number is None:
        return None
    whole = isinstance(number, int) and not isinstance(number, bool) and 0 < number < 2**31
    snapshot = Snapshot.objects.filter(pool=pool, number=number).first() if whole else None
    if snapshot is None:
        raise Refused(
            400, "invalid", "snapshot must be the number of a snapshot of this pool.", field="snapshot",
            hint="Leave it out to train on the gold labels as they are now.",
        )  # fmt: skip
    return snapshot


def _run(caller: Caller, run_id: str) -> Run:
    known = Run.objects.select_related("pool", "snapshot__pool", "model__pool").defer(*unread("model"))
    # Longer numbers than the database has would be an error there.
    run = known.filter(pk=int(run_id), pool__slug__in=caller.pools).first() if len(run_id) < 18 else None
    if run is None:
        raise Refused(404, "not_found", f"There is no run {run_id[:20]} in the pools that this API key opens.")
    return run


def model_of(caller: Caller, name: str) -> RouterModel:
    """The model of that name; refused where the key does not open its pool as where there is none."""
    try:
        model = registry.find(name)
    except registry.RegistryError:
        model = None
    if model is None or model.pool.slug not in caller.pools:
        raise Refused(404, "not_found", f"There is no model {name[:80]} in the pools that this API key opens.")
    return model


def _limit(asked: Mapping[str, str]) -> int:
    limit = asked.get("limit", str(MOST))
    if not limit.isascii() or not limit.isdecimal() or not 0 < int(limit[:9]) <= MOST:
        raise Refused(400, "invalid", f"limit must be a number from 1 to {MOST}.", field="limit")
    return int(limit)


def words_of(body: Mapping[str, Any], field: str) -> str:
    """A text of at most 400 characters, "" where there is none."""
    value = body.get(field, "")
    if not isinstance(value, str) or "\0" in value:
        raise Refused(400, "invalid", f"{field} must be a text.", field=field)
    if len(value) > 400:
        raise Refused(400, "too_long", f"{field} has {len(value)} characters; at most 400 are taken.", field=field)
    return value.strip()


ENDPOINTS: Table = {
    "/api/runs/": {"GET": list_runs, "POST": launch_run},
    "/api/runs/{run_id}/": {"GET": one_run},
    "/api/runs/{run_id}/cancel/": {"POST": cancel_run},
    "/api/models/": {"GET": list_models},
    "/api/models/{name}/promote/": {"POST": promote_model},
    "/api/models/{name}/pin/": {"POST": pin_model},
    "/api/models/{name}/unpin/": {"POST": unpin_model},
    "/api/rollback/": {"POST": roll_back},
}
OUTCOMES: Table = {"/api/outcomes/": {"POST": report_outcome}}
