"""What an outcome reports of backends."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from agents_app.models import Pool
from orchestration_app.backends import served
from training_app.api.errors import Refused


def keep_served(pool: Pool, decision: UUID, report: Mapping[str, Any]) -> None:
    """For the hook `outcome_reported`. Raises Refused where a part names a backend that the agent does not have."""
    parts = [_part(part, report["success"]) for part in report["served"]]
    try:
        if parts:
            served.record(pool, decision, parts)
    except served.UnknownBackend as error:
        raise Refused(400, "invalid", f"served: {error}.", field="served") from None


def _part(part: dict[str, Any], success: bool) -> served.Served:
    """One agent's part of what was served; a call that failed succeeded at nothing."""
    judged = success if part["success"] is None else part["success"]
    return served.Served(
        agent=part["agent"], backend=part["backend"], tokens_in=part["tokens_in"], tokens_out=part["tokens_out"], cost=part["cost"],
        latency=part["latency_ms"], success=judged and not part["failed"], failed=part["failed"], category=part["category"],
        tool=part["tool"], complexity=part["complexity"],
    )  # fmt: skip
