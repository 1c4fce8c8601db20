"""The backends that an answer of /api/route/ assigns to its agents."""

from collections.abc import Mapping, Sequence
from typing import Any

from orchestration_app.backends import choosing
from training_app.answering.answer import Extra


def to_answer(pool: int, text: str, agents: Sequence[int], options: Mapping[str, Any]) -> Extra | None:
    """For the hook `answer_made`: who is to run each agent, where the pool has backends."""
    assigned = choosing.assign(pool, text, agents, options.get("preference"))
    if assigned is None:
        return None
    shown = [assignment.as_json() for assignment in assigned]
    stored = [
        {**row, "propensity": assignment.propensity, "by": assignment.by, "direct": assignment.direct}
        for row, assignment in zip(shown, assigned, strict=True)
    ]
    return Extra({"assignments": shown}, {"assignments": stored})
