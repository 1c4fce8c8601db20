"""Who follows whom in many episodes."""

from agents_app.models import Pool
from orchestration_app.episodes.judging import figures
from orchestration_app.episodes.judging.figures import START, STOP
from orchestration_app.models import Episode, Step


def test_calls_at_once_follow_the_turn_before_and_not_each_other(pool: Pool) -> None:
    episode = Episode.objects.create(pool=pool, policy="one_shot", task="a", status="done")
    for turn, agents in enumerate([[0, 1], [2], [None]]):
        for place, agent in enumerate(agents):
            Step.objects.create(episode=episode, turn=turn, number=turn, place=place, agent=agent, status="done")
    Step.objects.filter(agent=1).update(status="failed")

    graph = figures.graph(Episode.objects.all())

    assert dict(graph.edges) == {(START, 0): 1, (START, 1): 1, (0, 2): 1, (1, 2): 1, (2, STOP): 1}
    assert (dict(graph.uses), dict(graph.failures)) == ({0: 1, 1: 1, 2: 1}, {0: 0, 1: 1, 2: 0})
    # Those that were called at once stand at the same place.
    assert dict(graph.places) == {0: 0, 1: 0, 2: 1}
