"""Gaps and confusions on made-up vectors."""

import numpy as np
import pytest

from training_app.engine.judging.gaps import Confusion, confusions, gaps, words_of


def around(direction: int, count: int, seed: int) -> np.ndarray:
    """Unit vectors around one axis of eight."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(0, 0.15, (count, 8))
    vectors[:, direction] += 1
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def test_a_group_that_no_agent_answers_is_a_gap_and_one_among_an_agents_queries_is_not() -> None:
    labeled, required = around(0, 60, 1), np.ones((60, 1), np.bool_)
    queries = np.concatenate([around(0, 10, 2), around(1, 12, 3), around(2, 3, 4)])
    found = gaps(queries, labeled, required)
    assert [sorted(gap.rows) for gap in found] == [list(range(10, 22))]
    assert found[0].alike > 0.7
    assert len(gaps(queries, labeled[:0], required[:0], smallest=3)) == 3
    assert gaps(queries[:1], labeled, required) == []


def test_words_that_tell_texts_from_others() -> None:
    ours = ["reset my password now", "password forgotten again", "a new password please"]
    others = ["my parcel is late", "where is my parcel now", "a new parcel please"]
    assert words_of(ours, others)[0] == "password"
    assert "now" not in words_of(ours, others)


def test_the_most_mixed_pair_is_first() -> None:
    evidence = [(2, 1)] * 9 + [(1, 2)] + [(3, 1)] * 12 + [(4, 5)] * 2 + [(6, 6)] * 9
    found = confusions(evidence, {1: 200, 2: 10, 3: 100, 4: 2, 5: 2})
    assert [one.agents for one in found] == [(1, 2), (1, 3)]
    assert found[0] == Confusion((1, 2), 10, pytest.approx(1.0))
