"""Maps, weights and counts say what the labels say: of those who were asked, and on rows that they did not learn from."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.engine.synthetic import AGENTS, examples
from training_app.engine.data.arrays import FloatArray
from training_app.engine.data.examples import group_key
from training_app.engine.data.rows import Rows, draw_weights, rows_of
from training_app.engine.reading.linear import LinearScorer
from training_app.engine.reading.scorers import CrossFit, Platt, cross_fit
from training_app.engine.reading.sequences.sequence_fit import SequenceScorer, _lexicon
from training_app.engine.reading.stacking import choose, corrected, crossed, is_unbeatable, served

ROWS = {s: rows_of([e for e in examples() if e.split == s], AGENTS) for s in ("train", "val", "test")}


def _fit(rows: Rows) -> CrossFit:
    groups = [group_key(text) for text in rows.texts]
    return cross_fit(LinearScorer(), rows, groups, seed=0, folds=3)


def test_a_partly_asked_row_is_not_one_that_needs_nobody() -> None:
    required = np.array([[True, False], [False, False], [True, True]])
    asked = np.array([[True, True], [True, False], [True, True]])
    assert draw_weights(required, 0.5, asked) is None
    assert draw_weights(required, 0.5) is not None
    whole = np.ones_like(asked)
    assert np.array_equal(draw_weights(required, 0.5, whole), draw_weights(required, 0.5))


def test_a_word_tells_of_an_agent_by_the_texts_that_were_asked_about_it() -> None:
    texts = [["parcel"]] * 4 + [["other"]] * 4
    required = np.array([[True, False]] * 4 + [[False, False]] * 4)
    asked = np.ones_like(required)
    asked[2:4] = False  # two of the texts with "parcel" were asked about nobody
    required &= asked
    lexicon = _lexicon(texts, required, asked, SequenceScorer(), np.random.default_rng(0))
    kept = _lexicon(
        texts[:2] + texts[4:], required[asked[:, 0]], asked[asked[:, 0]], SequenceScorer(), np.random.default_rng(0)
    )
    of_parcel = [float(made.telling[made.number["parcel"], 0]) for made in (lexicon, kept)]
    assert of_parcel[0] == pytest.approx(of_parcel[1])


def test_a_map_that_is_too_shy_on_validation_is_put_right() -> None:
    rows, val = ROWS["train"], ROWS["val"]
    fit = _fit(rows)
    shy = replace(fit, platt=Platt(fit.platt.scale * 0.2, fit.platt.shift * 0.2))

    def loss(one: CrossFit, of: Rows) -> float:
        return float(np.logaddexp(0, np.where(of.required, -1, 1) * served(one, of)).mean())

    right = corrected(shy, val)
    assert loss(right, ROWS["test"]) < loss(shy, ROWS["test"])
    assert np.array_equal(right.log_odds, fit.log_odds)


def test_a_row_is_judged_by_maps_that_it_did_not_teach() -> None:
    """Labels by the toss of a coin: a map that has seen them finds something in them, and one that has not finds nothing."""
    rng = np.random.default_rng(0)
    texts = [f"text {i}" for i in range(24)]
    coin = Rows(texts, rng.random((24, 4)) < 0.5, np.ones((24, 4), np.bool_), [f"of {i // 2}" for i in range(24)])
    fit = _fit(ROWS["train"])
    half = np.flatnonzero(coin.fold(2, 0))
    assert np.array_equal(coin.fold(2, 0)[::2], coin.fold(2, 0)[1::2])
    changed = replace(coin, required=coin.required.copy())
    changed.required[half] = ~changed.required[half]
    before, after = crossed(fit, coin), crossed(fit, changed)
    assert np.array_equal(before[half], after[half])
    assert not np.array_equal(np.delete(before, half, axis=0), np.delete(after, half, axis=0))


def _rows_of_one(count: int) -> Rows:
    return Rows(
        [f"text {row}" for row in range(count)], np.eye(3, dtype=bool)[np.arange(count) % 3], np.ones((count, 3), bool)
    )


def _right_but(rows: Rows, wrong: Sequence[int]) -> FloatArray:
    """Log-odds that are right about all rows but these, to which they give the agents after their own."""
    given = rows.required.copy()
    given[list(wrong)] = np.roll(given[list(wrong)], 1, axis=1)
    return np.where(given, 5, -5).astype(np.float32)


@pytest.mark.parametrize(("wrong", "unbeatable"), [(0, True), (1, True), (2, False), (5, False)])
def test_a_scorer_is_unbeatable_where_even_one_that_is_always_right_would_not_be_chosen(
    wrong: int, unbeatable: bool
) -> None:
    rows = _rows_of_one(180)
    base = _right_but(rows, range(wrong))
    assert is_unbeatable(base, rows) == unbeatable
    choice, _ = choose({"base": base, "perfect": _right_but(rows, [])}, rows)
    assert choice == ("base" if unbeatable else "perfect")


def test_four_wrong_rows_of_many_may_be_beyond_the_noise_and_three_are_not() -> None:
    rows = _rows_of_one(600)
    for wrong, better in ((3, [[], [0], [0, 1]]), (4, [[]])):
        base = _right_but(rows, range(wrong))
        choices = {choose({"base": base, "other": _right_but(rows, left)}, rows)[0] for left in better}
        assert is_unbeatable(base, rows) == (wrong == 3)
        assert choices == ({"base"} if wrong == 3 else {"other"})
