"""Episodes as what an orchestrator's run learns from: paths to follow, and judged decisions with their propensities."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from agents_app.models import Pool
from orchestration_app.engine.orchestrating.environment import RecordedPath
from orchestration_app.engine.orchestrating.logs import KeptEpisode, KeptStep
from orchestration_app.episodes.judging import marks
from orchestration_app.models import NO_OUTCOME, Episode, Step
from training_app.engine.data.examples import Example

#: The newest judged episodes that a run reads.
MOST = 20_000
#: Episodes whose steps are read together.
AT_ONCE = 500
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


def logged(pool: Pool, before: datetime) -> list[KeptEpisode]:
    """Every judged episode from before the run was launched, the newest MOST: each path's decisions, as good as the episode was."""
    ended = Episode.objects.filter(pool=pool, finished_at__lt=before).exclude(success=None, rating=None)
    episodes = []
    keys = list(ended.order_by("-created_at").values_list("pk", "task", "success", "rating", "judge")[:MOST])
    of_models = marks.weight(Episode.objects.filter(pool=pool))
    for at in range(0, len(keys), AT_ONCE):
        some = keys[at : at + AT_ONCE]
        steps = _steps([key for key, *_rest in some])
        for key, task, success, rating, judge in some:
            weight = of_models if judge == Episode.Judge.LANGUAGE_MODEL else 1.0
            score = float(success or False) if rating is None else float(rating)
            paths: dict[int, dict[int, list[Step]]] = {}
            for step in steps.get(key, ()):
                paths.setdefault(step.path, {}).setdefault(step.turn, []).append(step)
            for turns in paths.values():
                walked = tuple(
                    KeptStep(tuple(step.as_call() for step in now if step.agent is not None), now[0].propensity)
                    for now in turns.values()
                )
                episodes.append(KeptEpisode(task, walked, score, weight))
    return episodes


def _paths(best: Mapping[str, tuple[float, UUID]], required: Mapping[str, frozenset[int]]) -> list[RecordedPath]:
    keys = [key for _score, key in best.values()]
    steps: dict[UUID, list[Step]] = {}
    for at in range(0, len(keys), AT_ONCE):
        steps |= _steps(keys[at : at + AT_ONCE])
    paths = []
    for task, (score, key) in best.items():
        calls = tuple(step.as_call() for step in steps.get(key, ()) if step.path == 0 and step.agent is not None)
        if calls:
            paths.append(RecordedPath(task, required[task], calls, score, ordered=True))
    return paths


def _steps(keys: Sequence[UUID]) -> dict[UUID, list[Step]]:
    """The decisions of those episodes, in their order."""
    by_episode: dict[UUID, list[Step]] = {}
    rows = Step.objects.filter(episode_id__in=keys, aim="answer").exclude(status__in=NO_OUTCOME)
    for step in rows.order_by("turn", "place"):
        by_episode.setdefault(step.episode_id, []).append(step)
    return by_episode
