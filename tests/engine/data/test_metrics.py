from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score, roc_curve

from training_app.engine.data import metrics
from training_app.engine.data.examples import Agent
from training_app.engine.measures import MEASURES


def bits(*rows: str) -> np.ndarray:
    return np.array([[c == "1" for c in row] for row in rows])


SELECTED = bits("000", "100", "000", "110", "110")
REQUIRED = bits("000", "000", "010", "011", "110")


def test_every_measure_of_every_edge() -> None:
    found = metrics.per_query(SELECTED, REQUIRED)
    expected = {
        "jaccard": [1, 0, 0, 1 / 3, 1],
        "precision": [1, 0, 0, 1 / 2, 1],
        "recall": [1, 0, 0, 1 / 2, 1],
        "f1": [1, 0, 0, 1 / 2, 1],
        "exact": [1, 0, 0, 0, 1],
        "success": [1, 1, 0, 0, 1],
        "set_size": [0, 1, 0, 2, 2],
        "over": [0, 1, 0, 1, 0],
        "under": [0, 0, 1, 1, 0],
    }
    assert set(found) == set(expected) == set(MEASURES)
    for name, values in expected.items():
        assert found[name].tolist() == pytest.approx(values), name


def test_buckets() -> None:
    required = np.arange(9)[None] < np.array([0, 1, 2, 3, 4, 6, 7, 9])[:, None]
    assert metrics.bucket_of(required) == ["0", "1", "2-3", "2-3", "4-6", "4-6", "7+", "7+"]
    assert {b: v["queries"] for b, v in metrics.by_size(required, required).items()} == {
        "0": 1,
        "1": 1,
        "2-3": 2,
        "4-6": 2,
        "7+": 2,
    }


def test_an_interval_covers_the_mean_and_narrows_with_queries() -> None:
    rng = np.random.default_rng(0)
    few, many = metrics.interval(rng.random(50)), metrics.interval(rng.random(5000))
    for found in (few, many):
        assert found["low"] < found["mean"] < found["high"]
    assert many["high"] - many["low"] < 0.2 * (few["high"] - few["low"])
    assert metrics.interval(rng.random(50)) != few
    assert metrics.interval(np.ones(3))["high"] == 1 > metrics.interval(np.ones(3))["low"] > 0
    assert np.isnan(metrics.interval(np.zeros(0))["mean"])


def test_the_interval_of_seeds_is_over_queries_of_their_mean() -> None:
    values = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert metrics.interval(values) == metrics.interval(np.array([0.5, 0.5]))


def test_pairing_takes_out_what_queries_share() -> None:
    rng = np.random.default_rng(1)
    hard = rng.random(300)
    found = metrics.paired(0.9 * hard + 0.01, 0.9 * hard)
    assert found["mean"] == pytest.approx(0.01)
    assert found["high"] - found["low"] < 0.5 * np.ptp(list(metrics.interval(hard).values()))


def test_empty_sets() -> None:
    assert metrics.empty_sets(SELECTED, REQUIRED) == {"precision": 0.5, "recall": 0.5}
    assert metrics.empty_sets(bits("1"), bits("1")) == {"precision": None, "recall": None}


def test_by_agent_counts_asked_rows_only() -> None:
    asked = np.ones_like(REQUIRED)
    asked[3, 0] = False
    agents = [Agent(i, str(i)) for i in range(3)]
    first, second, third = metrics.by_agent(SELECTED, REQUIRED, asked, agents)
    assert (first["queries"], first["support"], first["selected"], first["precision"]) == (4, 1, 2, 0.5)
    assert second["recall"] == pytest.approx(2 / 3)
    assert (third["precision"], third["recall"], third["f1"]) == (None, 0, 0)


def test_calibration_error() -> None:
    p = np.array([0.9] * 10 + [0.1] * 10, np.float32)
    y = np.array([True] * 9 + [False] + [True] + [False] * 9)
    assert metrics.calibration_error(p, y) == pytest.approx(0, abs=1e-6)
    assert metrics.calibration_error(p, ~y) == pytest.approx(0.8, abs=1e-6)
    assert metrics.calibration_error(np.array([1.0]), np.array([True])) == 0
    assert [b["count"] for b in metrics.reliability(p, y)] == [10, 10]


def test_auroc_and_false_positives() -> None:
    score = np.array([3.0, 2.0, 2.0, 1.0])
    positive = np.array([True, True, False, False])
    assert metrics.auroc(score, positive) == pytest.approx(3.5 / 4)
    assert metrics.auroc(-score, positive) == pytest.approx(0.5 / 4)
    assert metrics.auroc(score, np.ones(4, bool)) is None
    assert metrics.fpr95(score, positive) == 0.5
    assert metrics.fpr95(score, np.zeros(4, bool)) is None


@pytest.mark.parametrize("seed", range(20))
def test_auroc_and_fpr95_are_those_of_scikit_learn(seed: int) -> None:
    """With ties, and with numbers of positives of which 95 % are whole."""
    rng = np.random.default_rng(seed)
    positive = rng.permutation(np.arange(50 + seed) < 20 * (1 + seed % 2) + seed % 3)
    score = np.round(rng.normal(size=positive.size) + positive, 1)
    assert metrics.auroc(score, positive) == pytest.approx(roc_auc_score(positive, score), abs=1e-12)
    passing, held, _levels = roc_curve(positive, score, drop_intermediate=False)
    assert metrics.fpr95(score, positive) == pytest.approx(passing[np.argmax(held >= 0.95 - 1e-12)], abs=1e-12)


def test_flips() -> None:
    assert metrics.flip_rate(SELECTED, SELECTED) == 0
    assert metrics.flip_rate(SELECTED, REQUIRED) == pytest.approx(3 / 5)


def test_a_perfect_scorer_stays_below_the_floor_in_95_of_100() -> None:
    rng = np.random.default_rng(0)
    below = 0
    for seed in range(200):
        p = rng.random((60, 3)).astype(np.float32)
        y = rng.random((60, 3)) < p
        below += metrics.calibration_error(p, y) <= metrics.calibration_floor(p, seed=seed, rounds=200)
    assert 180 <= below <= 198
    assert metrics.calibration_error(p, rng.random((60, 3)) < p**3) > metrics.calibration_floor(p)
    assert np.isnan(metrics.calibration_floor(p[:0]))


def test_auroc_and_fpr95_have_intervals_with_a_width() -> None:
    positive = np.arange(40) < 30
    apart = metrics.auroc_interval(-np.arange(40.0), positive)
    assert apart is not None
    assert apart["mean"] == apart["high"] == 1 > apart["low"] > 0.7
    passed = metrics.fpr95_interval(-np.arange(40.0), positive)
    assert passed is not None
    assert passed["mean"] == passed["low"] == 0 < passed["high"] < 0.5
    assert metrics.auroc_interval(np.arange(4.0), np.ones(4, bool)) is None
    assert metrics.fpr95_interval(np.arange(4.0), np.ones(4, bool)) is None


def test_the_f1_of_an_agent_comes_with_its_interval() -> None:
    required = np.zeros((200, 3), bool)
    required[:100, 0] = True
    required[:4, 1] = True
    selected = required.copy()
    selected[90:110, 0] = ~required[90:110, 0]
    selected[3:5, 1] = ~required[3:5, 1]
    sure, unsure, never = metrics.by_agent(
        selected, required, np.ones_like(required), [Agent(i, str(i)) for i in range(3)]
    )
    assert sure["f1_low"] < sure["f1"] == 0.9 < sure["f1_high"]
    assert 0.06 < sure["f1_high"] - sure["f1_low"] < 0.12
    assert unsure["f1_high"] - unsure["f1_low"] > 3 * (sure["f1_high"] - sure["f1_low"])
    assert never["f1_low"] is None
