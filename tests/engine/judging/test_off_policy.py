"""Exploration and what can be learnt from it: propensities that are true, and estimates that find a known success rate."""

from collections import Counter, defaultdict
from random import Random

import numpy as np
import pytest

from training_app.engine.judging import off_policy
from training_app.engine.routing.exploring import Explored, chances, explore

SCORES = {0: 0.99, 1: 0.5, 2: 0.2, 3: 0.01}


def test_the_unsure_change_sides_most_and_everybody_at_times() -> None:
    found = chances((0,), SCORES)
    assert sum(found.values()) == pytest.approx(1)
    assert max(found, key=found.__getitem__) == 1
    assert min(found.values()) >= 0.05


@pytest.mark.parametrize(
    ("agents", "least", "most", "may"),
    [((0, 1), 2, 0, {2, 3}), ((0, 1), 0, 2, {0, 1}), ((0, 1), 2, 2, set()), ((0,), 0, 0, {0, 1, 2, 3})],
)
def test_the_models_limits_hold(agents: tuple[int, ...], least: int, most: int, may: set[int]) -> None:
    assert set(chances(agents, SCORES, least, most)) == may
    random = Random(3)
    for _ in range(50):
        size = len(explore(agents, SCORES, 1.0, random, min_agents=least, max_agents=most).agents)
        assert size >= least
        assert not most or size <= most


def test_where_nobody_may_change_sides_the_set_is_certain() -> None:
    assert explore((), {}, 0.1, Random(1)) == Explored((), 1.0)
    assert explore((), {}, 1.0, Random(1)) == Explored((), 1.0)


def test_certain_scores_are_explored_evenly() -> None:
    assert chances((0,), {0: 1.0, 1: 0.0}) == {0: 0.5, 1: 0.5}


def test_the_propensities_are_the_frequencies() -> None:
    random, count = Random(11), 40_000
    drawn = [explore((0, 1), SCORES, 0.25, random) for _ in range(count)]
    seen, said = Counter(one.agents for one in drawn), {one.agents: one.propensity for one in drawn}
    assert len(seen) == 5
    assert sum(said.values()) == pytest.approx(1)
    for agents, propensity in said.items():
        spread = (propensity * (1 - propensity) / count) ** 0.5
        assert seen[agents] / count == pytest.approx(propensity, abs=5 * spread)


def world(seed: int, count: int, share: float) -> dict[str, np.ndarray]:
    """Decisions of a model that leaves out agent 1; a candidate takes it, which succeeds in 8 of 10 cases instead of 5."""
    random, rng = Random(seed), np.random.default_rng(seed)
    rows = [explore((0,), SCORES, share, random) for _ in range(count)]
    same = np.array([one.agents == (0, 1) for one in rows])
    own = np.array([one.agent is None for one in rows])
    chance = np.where(same, 0.8, np.where(own, 0.5, 0.2))
    return {
        "success": rng.random(count) < chance,
        "propensity": np.array([one.propensity for one in rows]),
        "candidate": same,
        "own": own,
        "own_propensity": np.full(count, 1 - share),
        "confidence_candidate": np.full(count, 0.8),
        "confidence_answered": np.where(same, 0.8, 0.5),
    }


def test_a_known_success_rate_is_found() -> None:
    found = off_policy.estimate(off_policy.Logged(**world(5, 6000, 0.10)))
    for one in (found.ips, found.snips, found.dr):
        assert one.low <= 0.8 <= one.high
        assert one.high - one.low < 0.25
    assert found.answering.low <= 0.5 <= found.answering.high
    assert found.difference.low > 0.1
    assert found.matched < found.effective * 1.5
    assert (found.decisions, found.matched) == (6000, int(world(5, 6000, 0.10)["candidate"].sum()))


@pytest.mark.at_length
def test_intervals_cover_what_they_promise() -> None:
    """Of 60 repetitions a 95 % interval misses more than 9 with a probability of about 1 in 1,000."""
    missed, values = Counter(), defaultdict(list)
    for seed in range(60):
        found = off_policy.estimate(off_policy.Logged(**world(seed, 1500, 0.10)), rounds=200, seed=seed)
        for name in ("ips", "snips", "dr"):
            one = getattr(found, name)
            missed[name] += not one.low <= 0.8 <= one.high
            values[name].append(one.value)
    assert max(missed.values()) <= 9, missed
    for name, each in values.items():  # and without a bias: within four standard errors
        assert abs(np.mean(each) - 0.8) < 4 * np.std(each) / 60**0.5, name


def test_the_model_of_the_reward_narrows_the_interval() -> None:
    found = off_policy.estimate(off_policy.Logged(**world(5, 6000, 0.10)))
    assert found.dr.high - found.dr.low < found.ips.high - found.ips.low


def test_nothing_is_estimated_from_nothing() -> None:
    known = world(5, 200, 0.0)
    with pytest.raises(ValueError, match="no decision"):
        off_policy.estimate(off_policy.Logged(**known))


def test_a_candidate_that_answers_the_same_has_the_same_rate() -> None:
    known = world(5, 500, 0.1)
    known |= {"candidate": known["own"], "confidence_candidate": known["confidence_answered"]}
    found = off_policy.estimate(off_policy.Logged(**known))
    assert found.snips.value == found.answering.value
    assert (found.difference.low, found.difference.high) == (0.0, 0.0)
