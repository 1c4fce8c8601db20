from __future__ import annotations

import numpy as np
import pytest

from training_app.engine.data.metrics import calibration_error
from training_app.engine.data.rows import Rows, fold_of_group
from training_app.engine.reading.scorers import cross_fit, fit_platt
from training_app.engine.routing import calibration


def rows(count: int, seed: int, heat: float = 1.0) -> tuple:
    """Log-odds that overstate by `heat`, and required sets drawn from the true ones."""
    rng = np.random.default_rng(seed)
    true = rng.normal(scale=2, size=(count, 4))
    required = rng.random(true.shape) < 1 / (1 + np.exp(-true))
    return (heat * true).astype(np.float32), required, np.ones_like(required)


def test_overstated_scores_become_calibrated() -> None:
    x, required, asked = rows(600, 0, heat=3.0)
    found = calibration.fit(x, x > 0, required, asked)
    x, required, _ = rows(3000, 1, heat=3.0)
    before = calibration_error(calibration.sigmoid(x), required)
    after = calibration_error(found.probabilities(x), required)
    assert before > 0.1
    assert after < 0.03


def test_confidence_is_the_chance_that_the_set_is_right() -> None:
    x, required, asked = rows(600, 0)
    found = calibration.fit(x, x > 0, required, asked)
    x, required, asked = rows(4000, 1)
    confidence = found.confidences(x, x > 0, asked)
    right = ((x > 0) == required).all(axis=1)
    assert calibration_error(confidence, right) < 0.06
    assert confidence[right].mean() > confidence[~right].mean() + 0.05


def test_unavailable_agents_leave_the_confidence() -> None:
    x, required, asked = rows(50, 0)
    found = calibration.fit(x, x > 0, required, asked)
    off = asked[0].copy()
    off[1] = False
    a, b = x[0].copy(), x[0].copy()
    a[1], b[1] = 5, -5
    chosen = (x[0] > 0) & off
    order = np.flatnonzero(chosen).tolist()
    assert found.of_one(a, order, off)[1] == found.of_one(b, order, off)[1]


@pytest.mark.parametrize("agents", [4, calibration.FEW_AGENTS, calibration.FEW_AGENTS + 1])
def test_one_query_says_what_it_says_among_many(agents: int) -> None:
    rng = np.random.default_rng(0)
    found = calibration.Calibration(1.3, -0.2, np.array([0.4, 1.1, 0.6, -0.5, 0.3]))
    x = (6 * rng.normal(size=(40, agents))).astype(np.float32)
    x[0, :2] = 1e4, -1e4
    available = rng.random(x.shape) < 0.8
    needed = rng.normal(size=40)
    selected = (x > 1) & available
    selected[1] = False
    p, confidences = found.probabilities(x), found.confidences(x, selected, available, needed)
    for i in range(40):
        one, confidence = found.of_one(x[i], np.flatnonzero(selected[i]).tolist(), available[i], float(needed[i]))
        np.testing.assert_allclose(one, p[i], atol=1e-6)
        assert confidence == pytest.approx(confidences[i], abs=1e-6)


def test_few_rows_move_the_calibration_little_and_none_not_at_all() -> None:
    x, required, asked = rows(3, 0)
    few = calibration.fit(x, x > 0, required, asked)
    assert 0.3 < few.scale < 3
    none = calibration.fit(x[:0], required[:0], required[:0], asked[:0], margin=0.2)
    assert (none.scale, none.shift, none.margin, none.abstain_below) == (1, 0, 0.2, 0)


@pytest.mark.parametrize("alpha", [0.05, 0.2])
@pytest.mark.parametrize("count", [99, 400])
def test_a_level_of_abstention_is_exceeded_by_one_model_in_twenty(alpha: float, count: int) -> None:
    rng = np.random.default_rng(0)
    # Of uniform confidences the level is the share below it.
    shares = np.array([calibration.conformal_level(rng.random(count), alpha) for _ in range(600)])
    assert 0.005 <= (shares > alpha).mean() <= 0.075
    assert shares.mean() > alpha / 3


def test_a_level_comes_from_rows_that_the_confidence_was_not_fitted_on() -> None:
    x, required, asked = rows(300, 0, heat=3.0)
    held_out = calibration.held_out_confidences(x, x > 0, required, asked, fold=np.arange(len(x)) % 5)
    seen = calibration.fit(x, x > 0, required, asked).confidences(x, x > 0, asked)
    assert not np.allclose(held_out, seen)
    found = calibration.fit(x, x > 0, required, asked, abstain_alpha=0.1, fold=np.arange(len(x)) % 5)
    assert found.abstain_below == calibration.conformal_level(held_out[required.any(axis=1)], 0.1)


def test_too_few_rows_for_a_level_never_abstain() -> None:
    assert calibration.conformal_level(np.array([0.3, 0.4]), 0.1) == 0


def test_cross_validated_figures_need_enough_rows() -> None:
    x, required, asked = rows(200, 0, heat=3.0)
    found = calibration.cross_validated(x, x > 0, required, asked, fold=np.arange(len(x)) % 5)
    assert found["scores_after"] < found["scores_before"]
    assert calibration.cross_validated(x[:5], x[:5] > 0, required[:5], asked[:5], fold=np.arange(5)) == {}


class TestPlatt:
    def test_margins_become_log_odds(self) -> None:
        x, required, asked = rows(4000, 0)
        platt = fit_platt(x / 4 + 1, required, asked)
        assert platt.scale == pytest.approx([4] * 4, rel=0.15)
        assert platt.shift == pytest.approx([-4] * 4, rel=0.2)

    def test_one_class_gives_the_prior_and_no_slope(self) -> None:
        x, required, asked = rows(99, 0)
        required[:, 0] = False
        asked[:, 1] = False
        platt = fit_platt(x, required, asked)
        assert platt.scale[:2].tolist() == [0, 0]
        assert platt.shift[:2] == pytest.approx([np.log(0.5 / 99.5), 0], rel=1e-5)

    def test_separable_margins_stay_finite(self) -> None:
        x = np.array([[-1.0], [-0.5], [0.5], [1.0]], np.float32)
        platt = fit_platt(x, x > 0, np.ones_like(x, bool))
        assert np.isfinite(platt(x)).all()
        assert 0 < platt(x)[3, 0] < 10

    def test_a_reversed_scorer_is_ignored_rather_than_turned_round(self) -> None:
        x, required, asked = rows(200, 0)
        assert (fit_platt(-x, required, asked).scale == 0).all()


class TestFolds:
    def test_a_group_is_in_one_fold_and_folds_are_even(self) -> None:
        groups = [f"g{i // 2}" for i in range(60)]
        fold = fold_of_group(groups, 3, seed=1)
        assert (fold[::2] == fold[1::2]).all()
        assert np.bincount(fold).tolist() == [20, 20, 20]

    def test_no_row_is_scored_by_a_fit_that_saw_its_group(self) -> None:
        seen = []

        class Recorder:
            kind, folds = "recorder", 3

            def fit(self, texts, Y, asked, *, seed, progress):
                return Recorded(set(texts), Y.shape[1])

        class Recorded:
            def __init__(self, texts, agents):
                self.texts, self.agents = texts, agents

            def logits(self, texts):
                seen.extend((text, self.texts) for text in texts)
                return np.zeros((len(texts), self.agents), np.float32)

        texts = [f"text {i % 10}" for i in range(30)]
        y = np.zeros((30, 2), bool)
        y[::2] = True
        told = []
        found = cross_fit(
            Recorder(), Rows(texts, y, np.ones_like(y)), texts, seed=0, progress=lambda *what: told.append(what)
        )
        assert len(seen) == 30
        assert all(text not in fitted for text, fitted in seen)
        assert found.fitted.texts == set(texts)
        assert [(done, total) for done, total, _ in told] == [(0, 400), (100, 400), (200, 400), (300, 400)]
