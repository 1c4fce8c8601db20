"""Judged calls of a pool's backends as what a backend chooser's run learns from."""

from datetime import datetime
from uuid import UUID

from agents_app.models import Pool
from orchestration_app.engine.backends.chooser import Called
from orchestration_app.models import BackendCall, Step
from training_app.models import Decision

#: The newest judged calls that a run reads.
MOST = 50_000
#: Decisions whose texts are read together.
AT_ONCE = 500


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
    texts: dict[UUID, str] = {}
    for at in range(0, len(rows), AT_ONCE):
        some = {row[0] for row in rows[at : at + AT_ONCE]}
        texts |= dict(Decision.objects.filter(pool=pool, pk__in=some).values_list("pk", "text"))
    tools: dict[UUID, bool] = {}
    for task, judgement, calls in Step.objects.filter(
        episode__pool=pool, episode__judged_at__lt=before, metadata__has_key="backend"
    ).values_list("episode__task", "metadata__backend__call", "metadata__tool_calls"):
        texts[UUID(judgement)], tools[UUID(judgement)] = task, bool(calls)
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
