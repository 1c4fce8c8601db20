"""Judged calls of a pool's backends as what a backend chooser's run learns from."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from agents_app.models import Pool
from orchestration_app.engine.backends.chooser import Called
from orchestration_app.models import BackendCall, Step
from training_app.models import Decision

#: Judged calls of which nearly every draw of splits gives a chooser enough to learn from, to choose on and to be measured on.
ENOUGH = 320
#: The newest judged calls that a run reads.
MOST = 50_000
#: Decisions whose texts are read together.
AT_ONCE = 500


def texts_of(pool: Pool, keys: Sequence[UUID]) -> tuple[dict[UUID, str], dict[UUID, bool]]:
    """The text of each of these calls that is kept, of a decision or an episode; and whether an executor's calls asked for a tool."""
    texts: dict[UUID, str] = {}
    tools: dict[UUID, bool] = {}
    wanted = set(keys)
    for at in range(0, len(keys), AT_ONCE):
        texts |= dict(Decision.objects.filter(pool=pool, pk__in=keys[at : at + AT_ONCE]).values_list("pk", "text"))
    steps = Step.objects.filter(episode__pool=pool, metadata__has_key="backend")
    for task, call, calls in steps.values_list("episode__task", "metadata__backend__call", "metadata__tool_calls"):
        if (key := UUID(call)) in wanted:
            texts[key], tools[key] = task, bool(calls)
    return texts, tools


def judged(pool: Pool, before: datetime) -> list[Called]:
    """Every judged call from before the run was launched whose decision, or episode, is kept with its text, the newest MOST. A call of
    an executor tells whether it called for a tool, unless its report does."""
    rows = list(
        BackendCall.objects.filter(pool=pool, at__lt=before)
        .exclude(success=None)
        .order_by("-at")
        .values_list(
            "decision_id",
            "agent",
            "backend_id",
            "success",
            "cost",
            "backend__provider__name",
            "backend__model",
            "category",
            "tool",
            "complexity",
        )[:MOST]
    )
    texts, tools = texts_of(pool, [row[0] for row in rows])
    if not any(tools.values()):
        tools = {}  # nobody has tools to call for
    return [
        Called(
            texts[key],
            agent,
            backend,
            bool(success),
            cost,
            f"{provider}/{model}",
            category,
            tools.get(key) if tool is None else tool,
            complexity,
        )
        for key, agent, backend, success, cost, provider, model, category, tool, complexity in rows
        if texts.get(key)
    ]
