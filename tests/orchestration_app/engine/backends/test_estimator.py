"""The estimator of complexity, category and tools."""

import numpy as np
import pytest

from orchestration_app.engine.backends import estimator
from orchestration_app.engine.backends.estimator import Estimator, Labels


@pytest.fixture(scope="module")
def made() -> list[Labels]:
    return estimator.generated((2_500, 400, 400), seed=1)


@pytest.fixture(scope="module")
def fitted(made: list[Labels]) -> Estimator:
    return estimator.fit(made[0], made[1], len(estimator.CATEGORIES))


def test_all_three_are_learnt(fitted: Estimator, made: list[Labels]) -> None:
    test = made[2]
    complexity, category, tool = fitted.estimate(test.texts)
    assert np.corrcoef(complexity, test.complexity)[0, 1] > 0.8
    assert (category.argmax(axis=1) == test.category).mean() > 0.85
    assert ((tool > 0.5) == test.tool).mean() > 0.85
    assert np.allclose(category.sum(axis=1), 1)


def test_probabilities_are_calibrated(fitted: Estimator, made: list[Labels]) -> None:
    test = made[2]
    _complexity, category, tool = fitted.estimate(test.texts)
    sure = category.max(axis=1)
    assert abs(sure.mean() - (category.argmax(axis=1) == test.category).mean()) < 0.06
    assert abs(tool.mean() - test.tool.mean()) < 0.06


def test_the_same_seed_makes_the_same_queries_and_weights(made: list[Labels]) -> None:
    again = estimator.generated((2_500, 400, 400), seed=1)
    assert list(again[0].texts) == list(made[0].texts)
    few = estimator.generated((200, 50, 1), seed=2)
    first, second = (estimator.fit(few[0], few[1], 4, seed=3) for _ in range(2))
    assert np.array_equal(first.heads, second.heads)


def test_sizes_are_the_published_ones() -> None:
    assert estimator.SIZES == (10_000, 2_000, 2_000)


def test_a_label_that_nobody_gave_pulls_at_nothing(made: list[Labels]) -> None:
    train, told, test = made
    half = np.arange(len(train.texts)) % 2 == 0
    part = Labels(
        train.texts,
        np.where(half, train.complexity, np.nan),
        np.where(half, -1, train.category),
        np.full(len(half), np.nan),
    )
    found = estimator.fit(part, told, len(estimator.CATEGORIES))
    complexity, category, _tool = found.estimate(test.texts)
    assert np.corrcoef(complexity, test.complexity)[0, 1] > 0.7
    assert (category.argmax(axis=1) == test.category).mean() > 0.8
    nobody = Labels([], np.zeros(0), np.zeros(0, np.int64), np.zeros(0))
    assert estimator.fit(part, nobody, 4).temperatures == (1.0, 1.0)
