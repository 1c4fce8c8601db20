"""Judged calls of a pool's backends as what a backend chooser's run learns from."""

from datetime import datetime
from uuid import UUID

from agents_app.models import Pool
from training_app.engine.backends.chooser import Called
from training_app.models import BackendCall, Decision, packed

#: The newest judged calls that a run reads.
MOST = 50_000
#: Decisions whose texts are read together.
AT_ONCE = 500


def judged(pool: Pool, before: datetime) -> list[Called]:
    """Every judged call from before the run was launched whose decision is kept with its text, the newest MOST."""
    packed.unpack_all()
    rows = list(
        BackendCall.objects.filter(pool=pool, at__lt=before)
        .exclude(success=None)
        .order_by("-at")
        .values_list(
            "decision_id", "agent", "backend_id", "success", "cost", "backend__provider__name", "backend__model"
        )[:MOST]
    )
    texts: dict[UUID, str] = {}
    for at in range(0, len(rows), AT_ONCE):
        some = {row[0] for row in rows[at : at + AT_ONCE]}
        texts |= dict(Decision.objects.filter(pool=pool, pk__in=some).values_list("pk", "text"))
    return [
        Called(texts[decision], agent, backend, bool(success), cost, f"{provider}/{model}")
        for decision, agent, backend, success, cost, provider, model in rows
        if texts.get(decision)
    ]
