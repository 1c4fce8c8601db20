"""Judged episodes are paths that a run of an orchestrator follows."""

from django.utils import timezone

from agents_app.models import Pool
from orchestration_app.episodes.judging import trajectories
from orchestration_app.models import Episode, Step
from training_app.engine.data.examples import Example


def episode(pool: Pool, task: str, *agents: int, success: bool | None, rating: float | None = None) -> Episode:
    made = Episode.objects.create(
        pool=pool, policy="x", task=task, status="done", success=success, rating=rating, finished_at=timezone.now()
    )
    for turn, agent in enumerate([*agents, None]):
        call = None if agent is None else turn
        Step.objects.create(
            episode=made, turn=turn, number=turn, call=call, agent=agent, status="done", output=f"said {agent}"
        )
    return made


def test_the_best_judged_episode_of_a_labeled_text_is_its_path(pool: Pool) -> None:
    episode(pool, "a", 0, 1, success=True, rating=0.6)
    episode(pool, "a", 2, success=True, rating=0.9)
    episode(pool, "b", 0, success=False)
    episode(pool, "c", 0, success=None)
    episode(pool, "without a label", 0, success=True)
    examples = [Example(text, text, frozenset({1}), None, "train") for text in "abc"]

    paths = trajectories.recorded(pool, examples, timezone.now())

    assert [(path.task, path.required, path.score, path.ordered) for path in paths] == [
        ("a", frozenset({1}), 0.9, True)
    ]
    assert [(call.agent, call.output, call.answer) for call in paths[0].calls] == [(2, "said 2", "said 2")]


def test_every_judged_episode_teaches_by_its_propensities(pool: Pool) -> None:
    bad = episode(pool, "without a label", 0, 1, success=False)
    episode(pool, "nobody judged", 0, success=None)
    Step.objects.filter(episode=bad, turn=1).update(propensity=0.25)

    found = trajectories.logged(pool, timezone.now())

    assert [(one.task, one.score) for one in found] == [("without a label", 0.0)]
    assert [([call.agent for call in step.calls], step.propensity) for step in found[0].steps] == [
        ([0], 1.0),
        ([1], 0.25),
        ([], 1.0),
    ]
