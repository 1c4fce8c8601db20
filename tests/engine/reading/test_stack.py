from __future__ import annotations

import numpy as np
import pytest

from tests.engine.synthetic import AGENTS, examples
from training_app.engine.data.arrays import FloatArray
from training_app.engine.data.rows import Rows, rows_of
from training_app.engine.reading.encoders import choose, stack
from training_app.engine.reading.linear import LinearScorer
from training_app.engine.reading.scorers import CrossFit, cross_fit, load_scorer
from training_app.engine.reading.stack import StackedMargins, fit_weights

ROWS = rows_of(examples(80), AGENTS)


@pytest.fixture(scope="module")
def fits() -> list[CrossFit]:
    groups = [str(i) for i in range(len(ROWS))]
    scorers = [LinearScorer(), LinearScorer(character_range=(3, 4), word_range=(1, 1))]
    return [cross_fit(s, ROWS, groups, seed=0, folds=2) for s in scorers]


def test_a_stack_is_the_weighted_sum_of_its_scorers(fits: list[CrossFit]) -> None:
    merged = stack(fits, ROWS).fitted
    texts = ROWS.texts[:10]
    expected = sum(w * f.platt(f.fitted.logits(texts)) for w, f in zip(merged.weights, fits, strict=True))
    np.testing.assert_allclose(merged.logits(texts), expected + merged.shift, rtol=1e-5, atol=1e-5)
    assert len(merged.explain(texts[0])) == 4


def test_what_several_scorers_name_is_told_once_with_the_sum(fits: list[CrossFit]) -> None:
    merged, text = stack(fits, ROWS).fitted, ROWS.texts[0]
    assert isinstance(merged, StackedMargins)
    everything = [dict(fit.fitted.explain(text, 1_000)[0]) for fit in fits]
    shared = everything[0].keys() & everything[1].keys()
    scales = [float(w * platt.scale[0]) for w, platt in zip(merged.weights, merged.platts, strict=True)]
    told = merged.explain(text, 1_000)[0]
    assert shared
    assert len(dict(told)) == len(told)
    for part in shared:
        assert dict(told)[part] == pytest.approx(sum(s * e[part] for s, e in zip(scales, everything, strict=True)))


def test_it_loads_as_it_was_saved(fits: list[CrossFit]) -> None:
    merged = stack(fits, ROWS).fitted
    again = load_scorer("stack", merged.config(), merged.tensors())
    assert isinstance(again, StackedMargins)
    assert np.array_equal(again.logits(ROWS.texts), merged.logits(ROWS.texts))
    tensors = merged.tensors()
    del tensors["1.scale"]
    with pytest.raises(ValueError, match="lacks"):
        load_scorer("stack", merged.config(), tensors)
    with pytest.raises(ValueError, match="no stack"):
        load_scorer("stack", {**merged.config(), "kinds": ["stack", "linear"]}, merged.tensors())


def test_noise_gets_no_weight() -> None:
    rng = np.random.default_rng(0)
    y = rng.random((400, 3)) < 0.4
    good = np.where(y, 2.0, -2.0) + rng.normal(size=y.shape)
    weights, _ = fit_weights([good, -good + 3 * rng.normal(size=y.shape), rng.normal(size=y.shape)], y, np.ones_like(y))
    assert weights[0] > 0.8
    assert weights[1] >= 0
    assert abs(weights[2]) < 0.3


def test_the_simpler_scorer_stays_unless_beaten_beyond_the_noise() -> None:
    y = ROWS.required

    def log_odds(noise: float, seed: int) -> FloatArray:
        rng = np.random.default_rng(seed)
        return (np.where(y, 3.0, -3.0) + noise * rng.normal(size=y.shape)).astype(np.float32)

    assert choose({"linear": log_odds(2.0, 1), "sequence": log_odds(2.0, 0)}, ROWS)[0] == "linear"
    choice, figures = choose({"linear": log_odds(4.0, 0), "sequence": log_odds(0.5, 1)}, ROWS)
    assert choice == "sequence"
    assert figures["sequence"]["against"]["low"] > 0


@pytest.mark.parametrize(("nobody", "chosen"), [(3, "sequence"), (120, "linear")])
def test_a_few_rows_that_need_nobody_do_not_choose(nobody: int, chosen: str) -> None:
    """The second is right in one row of ten more of those that need somebody, and wrong in all that need nobody."""
    size = 300
    y = np.eye(3, dtype=bool)[np.arange(size) % 3]
    y[:nobody] = False
    right = np.where(y, 3.0, -3.0).astype(np.float32)
    plain, other = right.copy(), right.copy()
    plain[nobody::10] *= -1
    other[:nobody, 0] = 3.0
    rows = Rows([str(i) for i in range(size)], y, np.ones_like(y))
    assert choose({"linear": plain, "sequence": other}, rows, none_share=0.15)[0] == chosen


@pytest.mark.parametrize(
    ("size", "wrong", "less", "name", "taken"),
    [
        (300, 18, 2, "sequence", False),  # ahead by 0.007, within the noise
        (300, 18, 2, "teacher", True),
        (300, 18, 1, "teacher", False),  # by 0.003
        (2_000, 0, 8, "sequence", False),  # by 0.004, beyond the noise
        (2_000, 0, 12, "sequence", True),
    ],
)
def test_a_costlier_scorer_brings_something_and_a_teacher_need_not_be_sure(
    size: int, wrong: int, less: int, name: str, taken: bool
) -> None:
    """The later scorer is wrong in `wrong` rows, and the first in `less` more, others."""
    y = np.eye(3, dtype=bool)[np.arange(size) % 3]
    first = np.where(y, 3.0, -3.0).astype(np.float32)
    later = first.copy()
    first[: wrong + less] *= -1
    later[size - wrong :] *= -1
    rows = Rows([str(i) for i in range(size)], y, np.ones_like(y))
    assert choose({"linear": first, name: later}, rows)[0] == (name if taken else "linear")
