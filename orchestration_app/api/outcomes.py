"""What an outcome reports of backends."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from agents_app.models import Pool
from orchestration_app.backends import served
from training_app.api.errors import Refused


def keep_served(pool: Pool, decision: UUID, report: Mapping[str, Any]) -> None:
    """For the hook `outcome_reported`. Raises Refused where a part names a backend that the agent does not have."""
    parts = [_part(one, report["success"]) for one in report["served"]]
    try:
        if parts:
            served.record(pool, decision, parts)
    except served.UnknownBackend as error:
        raise Refused(400, "invalid", f"served: {error}.", field="served") from None


def _part(one: dict[str, Any], success: bool) -> served.Served:
    """One agent's part of what was served; a call that failed succeeded at nothing."""
    judged = success if one["success"] is None else one["success"]
    return served.Served(
        agent=one["agent"], backend=one["backend"], tokens_in=one["tokens_in"], tokens_out=one["tokens_out"], cost=one["cost"],
        latency=one["latency_ms"], success=judged and not one["failed"], failed=one["failed"], category=one["category"],
        tool=one["tool"], complexity=one["complexity"],
    )  # fmt: skip
