"""Episodes as what an orchestrator's run learns from: recorded paths, as good as they were judged."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from agents_app.models import Pool
from training_app.engine.data.examples import Example
from training_app.engine.orchestrating.environment import RecordedPath
from training_app.models import Episode, Step

#: The newest judged episodes that a run reads.
MOST = 20_000
#: An episode is imitated that was judged at least this good.
GOOD = 0.5


def recorded(pool: Pool, examples: Sequence[Example], before: datetime) -> list[RecordedPath]:
    """The best judged episode of each labeled text, from before the run was launched: the calls of its first path, in their order.

    What was judged bad is no path to follow, and a text without a label cannot be scored; both are left out.
    """
    required = {example.text: example.required for example in examples}
    ended = Episode.objects.filter(pool=pool, finished_at__lt=before).exclude(success=None, rating=None)
    rows = list(ended.order_by("-created_at").values_list("pk", "task", "success", "rating")[:MOST])
    best: dict[str, tuple[float, UUID]] = {}
    for key, task, success, rating in rows:
        score = float(success or False) if rating is None else float(rating)
        needed = required.get(task)
        if needed is not None and score >= GOOD and (task not in best or score > best[task][0]):
            best[task] = score, key
    return _paths(best, required)


def _paths(best: Mapping[str, tuple[float, UUID]], required: Mapping[str, frozenset[int]]) -> list[RecordedPath]:
    steps: dict[UUID, list[Step]] = {key: [] for _score, key in best.values()}
    keys = list(steps)
    for at in range(0, len(keys), 500):
        found = Step.objects.filter(episode_id__in=keys[at : at + 500], path=0, aim="answer", agent__isnull=False)
        for step in found.order_by("turn", "place"):
            steps[step.episode_id].append(step)
    return [
        RecordedPath(task, required[task], tuple(step.as_call() for step in steps[key]), score, ordered=True)
        for task, (score, key) in best.items()
        if steps[key]
    ]
