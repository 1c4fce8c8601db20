"""What was really served: the backend, tokens, cost, latency and success of each agent of a decision. Billed is what was served.

The API reports it with a decision's outcome, and executors as they call. A second report of the same agent of a decision replaces the
first, and ends no call twice.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import transaction

from agents_app.models import Pool
from orchestration_app import providers
from orchestration_app.backends import state
from orchestration_app.backends.windows import Used
from orchestration_app.models import Backend, BackendCall
from training_app.models import Decision


class Assigned(NamedTuple):
    """How a backend came to be assigned: which, how likely it was, who chose, and whether the direct estimate would have taken it."""

    backend: int | None = None
    propensity: float | None = None
    decided_by: str = ""
    as_direct: bool | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """One agent's part. `backend` is a row's id; `cost` None is the backend's prices times the tokens; `latency` in milliseconds;
    `success` None where nobody judged it; `failed` where the call itself gave nothing. `category`, `tool` and `complexity` 0..1 say
    what the query was like, None where nobody does. `choice` counts where no decision holds it."""

    agent: int
    backend: int
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float | None = None
    latency: float | None = None
    success: bool | None = None
    failed: bool = False
    category: str = ""
    tool: bool | None = None
    complexity: float | None = None
    choice: Assigned | None = None


class UnknownBackend(ValueError):
    """A backend that is no backend of that agent in that pool; the message says which."""


def record(pool: Pool, decision: uuid.UUID, parts: Sequence[Served]) -> list[BackendCall]:
    """Keep what was served, in the parts' order. Raises UnknownBackend, and then keeps none of it."""
    rows = {
        row.pk: row
        for row in Backend.objects.filter(pk__in={part.backend for part in parts}, agent__pool=pool).select_related(
            "agent", "provider"
        )
    }
    for part in parts:
        row = rows.get(part.backend)
        if row is None or row.agent.number != part.agent:
            raise UnknownBackend(f"{part.backend} is no backend of agent {part.agent} in {pool.slug}")
    # A call that says how it was chosen is no part of a decision.
    assigned = {} if all(part.choice for part in parts) else _assigned(decision)
    calls, new = [], []
    with transaction.atomic():
        for part in parts:
            call, fresh = BackendCall.objects.update_or_create(
                decision_id=decision, agent=part.agent, defaults=_values(pool, rows[part.backend], part, assigned)
            )
            calls.append(call)
            new.append(fresh)
            if fresh:
                providers.called(part.backend, not part.failed)
    for part, fresh in zip(parts, new, strict=True):
        if fresh:
            # Of a decision that is not written, what served is taken to be what was assigned.
            began = _choice(assigned[part.agent]).backend if part.agent in assigned else part.backend
            _ended(pool.pk, began, part)
    return calls


def judged(pool: int, calls: Sequence[uuid.UUID], success: bool) -> None:
    """Whether these calls did what they were made for; those that failed stay as they are."""
    BackendCall.objects.filter(pool=pool, decision_id__in=calls, failed=False).update(success=success)


def _values(pool: Pool, row: Backend, part: Served, assigned: dict[int, dict[str, Any]]) -> dict[str, Any]:
    chosen = _choice(assigned[part.agent]) if part.agent in assigned else part.choice or Assigned()
    cost = row.cost(part.tokens_in, part.tokens_out) if part.cost is None else part.cost
    return {
        "pool": pool, "backend": row, "tokens_in": part.tokens_in, "tokens_out": part.tokens_out, "cost": cost,
        "latency": part.latency, "success": part.success, "failed": part.failed, "category": part.category[:80],
        "tool": part.tool, "complexity": part.complexity,
        "assigned": chosen.backend, "propensity": chosen.propensity, "decided_by": chosen.decided_by,
        "as_direct": chosen.as_direct,
    }  # fmt: skip


def _assigned(decision: uuid.UUID) -> dict[int, dict[str, Any]]:
    """What the decision assigned, by agent; {} where it is not written yet, or assigned nothing."""
    detail = Decision.objects.filter(pk=decision).values_list("detail", flat=True).first() or {}
    return {int(assignment["agent"]): assignment for assignment in detail.get("assignments", [])}


def _choice(assigned: dict[str, Any]) -> Assigned:
    named = assigned.get("backend")
    return Assigned(
        None if named is None else int(named["id"]), assigned.get("propensity"), assigned.get("by", ""), assigned.get("direct")
    )  # fmt: skip


def _ended(pool: int, began: int | None, part: Served) -> None:
    """The call is over: its place comes back, and tokens count as they were."""
    backends = state.of(pool)
    if backends is None:
        return
    with backends.lock:
        if began is not None and began in backends.by_key:
            used = backends.usage.used.setdefault(backends.by_key[began].line, Used())
            used.ended += 1
        backend = backends.by_key.get(part.backend)
        if backend is not None and (part.tokens_in or part.tokens_out):
            used = backends.usage.used.setdefault(backend.line, Used())
            before = backend.tokens if began == part.backend else 0.0
            used.tokens += max(part.tokens_in + part.tokens_out - before, 0.0)
