"""Neighbours in meaning as a scorer: the formula, the same alone and in a batch, saved and loaded, strange to what is strange."""

import numpy as np
import pytest

from tests.engine.synthetic import AGENTS, NOTHING, PHRASES, examples
from training_app.engine.config import Config
from training_app.engine.data.artifact import Artifact
from training_app.engine.data.examples import group_key
from training_app.engine.data.rows import rows_of
from training_app.engine.reading import encoders, precedents, sentences
from training_app.engine.reading.encoders import fit_encoder
from training_app.engine.reading.nearness import NEIGHBOURS
from training_app.engine.reading.precedents import SPREAD, UNIT, Likeness, PrecedentMargins, PrecedentScorer
from training_app.engine.reading.scorers import cross_fit, load_scorer
from training_app.engine.reading.stacking import settled

ROWS = {s: rows_of([e for e in examples() if e.split == s], AGENTS) for s in ("train", "val", "test")}


def fitted() -> PrecedentMargins:
    rows = ROWS["train"]
    return PrecedentScorer().fit(rows.texts, rows.required, rows.asked, seed=0)


@pytest.mark.parametrize("least", [1, 1_000])
def test_a_margin_is_how_near_a_text_is_to_what_needed_the_agent_less_to_what_needed_nobody(
    least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precedents, "LEAST_NOBODY", least)
    rows, test, made = ROWS["train"], ROWS["test"].texts, fitted()
    cosines = sentences.embed(test) @ sentences.embed(rows.texts).T
    nobody = ~rows.required.any(axis=1)

    def near(which: np.ndarray) -> np.ndarray:
        return np.sort(cosines[:, which], axis=1)[:, -NEIGHBOURS:].mean(axis=1)

    expected = np.stack([near(column) - (near(nobody) if least == 1 else 0) for column in rows.required.T], axis=1)
    assert np.abs(made.logits(test) - SPREAD * expected).max() < 0.1  # whole numbers are 1/400 apart


def test_a_batch_answers_to_the_bit_as_its_texts_would_alone() -> None:
    test, made = ROWS["test"].texts, fitted()
    alone = np.concatenate([made.logits([text]) for text in test])
    assert np.array_equal(made.logits(test), alone)
    assert np.array_equal(made.logits(test[::-1]), alone[::-1])


def test_products_of_the_largest_vectors_are_exact() -> None:
    """A vector that is longer than it may be: every number at its limit."""
    most = np.full((1, sentences.SIZE), 127, np.float32)
    assert (most @ most.T)[0, 0] == 127 * 127 * sentences.SIZE < 2**24
    assert precedents.whole(np.array([[1.0, -1.0, 0.0]], np.float32)).tolist() == [[127, -127, 0]]
    assert UNIT > 127  # only what is longer than a third of its vector is cut


def test_what_is_saved_is_what_was_learnt() -> None:
    made, test = fitted(), ROWS["test"].texts
    again = load_scorer("precedents", made.config(), made.tensors())
    assert np.array_equal(again.logits(test), made.logits(test))
    with pytest.raises(ValueError, match="train anew"):
        load_scorer("precedents", {"sentence_encoder": "another:00"}, made.tensors())
    with pytest.raises(ValueError, match="lack"):
        load_scorer("precedents", made.config(), {"precedents": made.cosines.vectors})


def test_an_agent_without_precedents_and_one_with_few_have_finite_margins() -> None:
    texts = ["where is my parcel", "track my package", "play a song"]
    required = np.array([[True, False, False], [True, False, False], [False, True, False]])
    made = PrecedentScorer().fit(texts, required, np.ones_like(required), seed=0)
    margins = made.logits(["has my parcel arrived", ""])
    assert np.isfinite(margins).all()
    assert (margins[:, 2] == 0).all()
    assert margins[0, 0] > margins[0, 1]


def test_a_row_that_was_not_asked_of_all_speaks_against_nobody() -> None:
    texts = [text for said in PHRASES.values() for text in said][:4]
    required, asked = np.zeros((4, 2), np.bool_), np.ones((4, 2), np.bool_)
    required[0, 0] = True
    asked[1:, 1] = False
    made = PrecedentScorer().fit(texts, required, asked, seed=0)
    assert not made.nobody.any()
    assert made.required.sum() == 1


def test_few_rows_that_need_nobody_are_kept_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precedents, "KEPT", 16)
    made = fitted()
    assert len(made.cosines.vectors) == 16
    assert made.nobody.sum() == min(4, int((~ROWS["train"].required.any(axis=1)).sum()))


@pytest.mark.at_length
def test_it_stands_in_a_stack_of_a_model_that_routes(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, val = ROWS["train"], ROWS["val"]
    groups = [group_key(text) for text in rows.texts]
    fit = cross_fit(PrecedentScorer(), rows, groups, seed=0)
    stacked = settled([fit], rows, val, none_share=0.3)
    again = load_scorer("stack", stacked.fitted.config(), stacked.fitted.tensors())
    assert np.array_equal(again.logits(val.texts), stacked.fitted.logits(val.texts))
    assert Artifact({"scorer": {}}, {}, stacked.fitted.tensors()).to_bytes()

    monkeypatch.setattr(encoders, "SEQUENCE_ROWS", 10_000)
    monkeypatch.setattr(encoders, "PRECEDENT_ROWS", len(rows))
    told = fit_encoder(Config(), rows, groups, val, agents=AGENTS, progress=lambda *_: None)[1]
    assert "precedents" in told["comparison"]
    monkeypatch.setattr(encoders, "PRECEDENT_ROWS", len(rows) + 1)
    told = fit_encoder(Config(), rows, groups, val, agents=AGENTS, progress=lambda *_: None)[1]
    assert "precedents" not in told["comparison"]


def test_rows_that_need_nobody_count_as_many_as_they_are_said_to_be() -> None:
    """With more of them reckoned with, the same text is less likely to need anybody."""
    rows, val = ROWS["train"], ROWS["val"]
    groups = [group_key(text) for text in rows.texts]
    fit = cross_fit(PrecedentScorer(), rows, groups, seed=0)
    usual, more = (settled([fit], rows, val, none_share=share) for share in (0.0, 0.9))

    def needed(stacked) -> float:  # type: ignore[no-untyped-def]
        return float(stacked.platt(stacked.fitted.logits(NOTHING)).max(axis=1).mean())

    assert needed(more) < needed(usual)


def test_nearness_reads_the_precedents_cosines_where_both_keep_the_same_queries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows, test, made = ROWS["train"], ROWS["test"].texts, fitted()
    found = Likeness.fit(rows.texts, rows.required, seed=0)
    assert found is not None
    alone, stored = found[0].of_all(test), found[0].tensors()["vectors"]
    found[0].join(made)
    made.logits(test[:1])
    monkeypatch.setattr(sentences, "embed", lambda _: pytest.fail("the cosines are there"))
    assert found[0].of(test[0]) == alone[0]
    monkeypatch.undo()
    assert np.array_equal(found[0].of_all(test), alone)
    assert np.array_equal(found[0].tensors()["vectors"], stored)
    other = Likeness.fit(rows.texts[:20], rows.required[:20], seed=0)
    assert other is not None
    other[0].join(made)
    assert len(other[0].tensors()["vectors"]) < 20
    assert other[0].cosines is not made.cosines
