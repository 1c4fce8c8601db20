"""The HTTP API of sweeps, with the scope `ops`: launch one, see its runs by validation, cancel them."""

from collections.abc import Mapping
from typing import Any

from django.urls import reverse

from training_app import runs, sweeps
from training_app.addresses import Table
from training_app.calls import Call, body_of
from training_app.models import Sweep
from training_app.operations_api import config_of, key_name, pool_named, snapshot_of
from training_app.replies import Refused, Reply, reply
from training_app.serving import Caller


def launch_sweep(call: Call, caller: Caller) -> Reply:
    """POST /api/sweeps/: launch a grid, or a random search, over settings and seeds; 201 with the queued runs."""
    body = body_of(call)
    pool = pool_named(body.get("pool"), caller)
    method = body.get("method", "grid")
    if method not in Sweep.Method.values:
        raise Refused(400, "invalid", f"method must be one of {', '.join(Sweep.Method.values)}.", field="method")
    try:
        sweep = sweeps.launch(
            pool,
            base=config_of(body),
            space=_space(body),
            method=method,
            count=_whole(body, "runs", 0),
            seeds=_whole(body, "seeds", 1),
            snapshot=snapshot_of(body, pool),
            actor_name=key_name(caller),
        )
    except sweeps.SweepError as error:
        field = error.field if error.field in ("space", "runs") else f"config.{error.field}"
        raise Refused(400, "invalid", str(error), field=field) from None
    except runs.RunError as error:
        raise Refused(409, "cannot_launch", str(error)) from None
    return reply(sweep_json(sweep), 201)


def one_sweep(call: Call, caller: Caller, sweep_id: str) -> Reply:
    """GET /api/sweeps/ID/: the sweep with its runs, best validation first."""
    return reply(sweep_json(_sweep(caller, sweep_id)))


def cancel_sweep(call: Call, caller: Caller, sweep_id: str) -> Reply:
    """POST /api/sweeps/ID/cancel/: end every run of it that has not ended."""
    sweep = _sweep(caller, sweep_id)
    sweeps.cancel(sweep, actor=None, actor_name=key_name(caller))
    return reply(sweep_json(sweep))


def sweep_json(sweep: Sweep) -> dict[str, Any]:
    """A sweep as a program sees it; it has no test figure, as the best is not to be chosen by one."""
    found = sweeps.ranked(sweeps.results(sweep), "validation", True)
    best = next((row for row in found if row.best), None)
    return {
        "id": sweep.pk,
        "pool": sweep.pool.slug,
        "method": sweep.method,
        "space": sweep.space,
        "snapshot": sweep.snapshot.number,
        "best": best.run.pk if best else None,
        "runs": [
            {
                "id": row.run.pk,
                "status": row.run.status,
                "point": row.point,
                "validation_jaccard": row.validation,
                "mean_of_seeds": row.mean,
                "model": row.model or None,
            }
            for row in found
        ],
        "created_at": sweep.created_at.isoformat(),
        "page": reverse("run_sweep", args=[sweep.pool.slug, sweep.pk]),
    }


def _space(body: Mapping[str, Any]) -> dict[str, Any]:
    space = body.get("space", {})
    if not isinstance(space, dict) or not all(isinstance(axis, list | dict) for axis in space.values()):
        raise Refused(
            400, "invalid", "space must be an object of settings, each a list of values or {low, high}.", field="space"
        )
    return space


def _whole(body: Mapping[str, Any], name: str, default: int) -> int:
    value = body.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not default <= value <= 10_000:
        raise Refused(400, "invalid", f"{name} must be a whole number from 1.", field=name)
    return value


def _sweep(caller: Caller, sweep_id: str) -> Sweep:
    known = Sweep.objects.select_related("pool", "snapshot__pool").filter(pool__slug__in=caller.pools)
    # Longer numbers than the database has would be an error there.
    sweep = known.filter(pk=int(sweep_id)).first() if len(sweep_id) < 18 else None
    if sweep is None:
        raise Refused(404, "not_found", f"There is no sweep {sweep_id[:20]} in the pools that this API key opens.")
    return sweep


ENDPOINTS: Table = {
    "/api/sweeps/": {"POST": launch_sweep},
    "/api/sweeps/{sweep_id}/": {"GET": one_sweep},
    "/api/sweeps/{sweep_id}/cancel/": {"POST": cancel_sweep},
}
