"""A large pool is learnt with a part of it held out: what is held out, and what is learnt on validation instead."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Any, ClassVar
from zlib import crc32

import numpy as np
import pytest

from tests.engine.synthetic import AGENTS, examples
from tests.engine.test_train import quick, run
from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.examples import group_key
from training_app.engine.data.rows import Rows, rows_of
from training_app.engine.progress import no_progress
from training_app.engine.reading import encoders
from training_app.engine.reading.encoders import fit_encoder, served, stack
from training_app.engine.reading.held_out import faded, hold_out
from training_app.engine.reading.stacking import drawn_platt
from training_app.engine.reading.tidying.perturbations import slip
from training_app.engine.routing.router import Router

POOL = examples(300)
ROWS = rows_of([e for e in POOL if e.split == "train"], AGENTS)
VALIDATION = rows_of([e for e in POOL if e.split == "val"], AGENTS)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool of 180 training and 60 validation rows is a large one."""
    monkeypatch.setattr(encoders, "MANY_ROWS", 150)


class Remembers:
    """A scorer that is sure of what it was fitted on and guesses, no less sure, about the rest: it is right about `knows` of
    32 new texts."""

    kind: ClassVar[str] = "linear"
    folds: ClassVar[int] = 2

    def __init__(self, truth: dict[str, Any], knows: int = 24) -> None:
        self.truth, self.knows, self.read = truth, knows, set[str]()

    def fit(self, texts: Sequence[str], Y: BoolArray, asked: BoolArray, **_: Any) -> Any:
        self.read = set(texts)
        return self

    def logits(self, texts: Sequence[str]) -> FloatArray:
        right = [text in self.read or crc32(text.encode()) % 32 < self.knows for text in texts]
        sign = [self.truth[text] == known for text, known in zip(texts, np.array(right)[:, None], strict=True)]
        return np.where(sign, 5.0, -5.0).astype(np.float32)


def truth() -> dict[str, Any]:
    return {t: y for rows in (ROWS, VALIDATION) for t, y in zip(rows.texts, rows.required, strict=True)}


@pytest.mark.usefixtures("large")
def test_a_tenth_is_held_out_in_whole_groups_and_no_scorer_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    fit = encoders.LinearScorer.fit

    def spied(scorer: Any, texts: Sequence[str], *arguments: Any, **named: Any) -> Any:
        read.extend(texts)
        return fit(scorer, texts, *arguments, **named)

    monkeypatch.setattr(encoders.LinearScorer, "fit", spied)
    twice = ROWS.take(np.repeat(np.arange(len(ROWS)), 2))  # each text stands twice, as one group
    groups = [group_key(text) for text in twice.texts]
    found, report = fit_encoder(quick(folds=0, tidy=False), twice, groups, VALIDATION, progress=no_progress)
    assert found.held_out is not None
    held = {groups[i] for i in found.held_out.tolist()}
    assert len(found.held_out) == report["held_out"] == 2 * len(held) == 36
    assert found.log_odds.shape == (36, 4)
    assert len(read) == 324
    assert not held & {group_key(text) for text in read}
    few, _ = fit_encoder(quick(folds=0, tidy=False), twice, groups, VALIDATION.take(np.arange(5)), progress=no_progress)
    assert few.held_out is not None
    again, _ = fit_encoder(quick(folds=3), twice, groups, VALIDATION, progress=no_progress)
    assert again.held_out is None
    assert len(again.log_odds) == 360


@pytest.mark.usefixtures("large")
@pytest.mark.at_length
def test_on_two_cores_a_large_pool_learns_what_it_does_on_one(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: dict[int, set[str]] = {}

    def fitted(count: int) -> dict[str, Any]:
        fit = encoders.SequenceScorer.fit

        def spied(*given: Any, **named: Any) -> Any:
            threads.setdefault(count, set()).add(threading.current_thread().name.partition("_")[0])
            return fit(*given, **named)

        with monkeypatch.context() as patch:
            patch.setattr(encoders, "cores", lambda: count)
            patch.setattr(encoders.SequenceScorer, "fit", spied)
            config = quick(folds=0, encoder="stack", svm_c=0.0)
            found, report = fit_encoder(config, ROWS, ROWS.texts, VALIDATION, progress=no_progress)
        assert "candidates" in report
        return {"log_odds": found.log_odds, **found.fitted.tensors()}

    one, two = fitted(1), fitted(2)
    assert threads == {1: {"MainThread"}, 2: {"fit"}}
    assert one.keys() == two.keys()
    for name, values in one.items():
        assert np.array_equal(values, two[name], equal_nan=True), name


@pytest.mark.usefixtures("large")
def test_a_large_pool_whose_slips_are_not_mended_learns_from_rows_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(0)
    slipped = encoders.tidied_rows(Rows([slip(text, rng) for text in ROWS.texts], ROWS.required, ROWS.asked))
    judges = encoders.tidied_rows(VALIDATION)

    def fit(**settings: Any) -> Any:
        return fit_encoder(quick(folds=0, **settings), slipped, slipped.texts, judges, progress=no_progress)[0]

    plain = fit(tidy=False)
    monkeypatch.setattr(encoders, "mended", lambda *_: {"kept": True})
    mended = fit()
    monkeypatch.setattr(encoders, "mended", lambda *_: {"kept": False})
    refused = fit()
    assert np.array_equal(refused.log_odds, plain.log_odds)
    assert np.array_equal(refused.platt.scale, plain.platt.scale)
    assert not np.array_equal(mended.log_odds, plain.log_odds)


def test_what_is_served_is_as_sure_as_validation_allows() -> None:
    # Right about all that is held out, as where queries share their passages; about new texts three times in four.
    known = dict.fromkeys(ROWS.texts[:40])
    scorer = Remembers(truth())
    scorer.fit = lambda *_, **__: scorer  # type: ignore[method-assign]
    scorer.read = set(known)
    fit = hold_out(scorer, ROWS, np.arange(40), VALIDATION, seed=0, progress=no_progress)
    asked_about = served(fit, VALIDATION)
    share = float(((asked_about > 0) == VALIDATION.required).mean())
    sure = float((1 / (1 + np.exp(-np.abs(asked_about)))).mean())
    assert 0.65 < share < 0.85
    assert sure == pytest.approx(share, abs=0.05)
    own = float((1 / (1 + np.exp(-np.abs(fit.log_odds)))).mean())
    assert own > 0.95  # and the policy is told the truth of the rows it is shown


def test_a_scorer_that_remembers_weighs_no_more_than_another_as_good_on_new_texts() -> None:
    remembers, reads = Remembers(truth()), Remembers(truth())
    remembers.read = set(ROWS.texts)
    for scorer in (remembers, reads):
        scorer.fit = lambda *_, scorer=scorer, **__: scorer  # type: ignore[method-assign]
    fits = [hold_out(s, ROWS, np.arange(40), VALIDATION, seed=0, progress=no_progress) for s in (remembers, reads)]
    merged = stack(fits, ROWS, VALIDATION)
    assert merged.held_out is not None
    assert merged.log_odds.shape == (40, 4)
    first, second = merged.fitted.weights.tolist()  # type: ignore[attr-defined]
    assert first == pytest.approx(second)


def test_the_policy_is_shown_rows_as_unsure_as_those_it_will_meet() -> None:
    rows = rows_of(examples(1_200), AGENTS)
    scorer = Remembers(dict(zip(rows.texts, rows.required, strict=True)), knows=31)
    held, others = np.arange(800), rows.take(np.arange(800, 1_200))
    scorer.read = {rows.texts[i] for i in held.tolist()}
    scorer.fit = lambda *_, **__: scorer  # type: ignore[method-assign]
    fit = hold_out(scorer, rows, held, others, seed=0, progress=no_progress)

    def loss(x: FloatArray, y: BoolArray) -> float:
        return float(np.logaddexp(0, np.where(y, -x, x)).mean())

    unsure, share = faded(fit, rows.take(held), others, seed=0)
    wanted = loss(served(fit, others), others.required)
    assert loss(fit.log_odds, rows.required[held]) < 0.3 * wanted
    assert loss(unsure.log_odds, rows.required[held]) == pytest.approx(wanted, rel=0.2)
    assert 0 < share < 1
    # Where the rows held out are as new as those of validation, they stay as they are.
    scorer.read = set()
    new = hold_out(scorer, rows, held, rows.take(held), seed=0, progress=no_progress)
    assert faded(new, rows.take(held), rows.take(held), seed=0)[1] == 0


def test_an_agent_that_few_were_asked_about_has_the_map_that_all_share() -> None:
    rng = np.random.default_rng(0)
    y = rng.random((600, 3)) < 0.3
    margins = (np.where(y, 1.0, -1.0) + rng.normal(size=y.shape)).astype(np.float32)
    y[:, 2] = False
    asked = np.ones_like(y)
    asked[2:, 2] = False
    platt = drawn_platt(margins, y, asked)
    assert platt.scale[2] == pytest.approx(float(platt.scale[:2].mean()), rel=0.1)
    assert platt.shift[2] == pytest.approx(float(platt.shift[:2].mean()), abs=0.3)


@pytest.mark.at_length
@pytest.mark.usefixtures("large")
def test_a_large_pool_is_trained_and_resumed_to_the_same_router() -> None:
    whole = run(quick(folds=0), rows=POOL)
    card = whole[-1].result.scorecard
    assert card["encoder"]["held_out"] == 18
    assert card["metrics"]["jaccard"]["mean"] > 0.7
    saved = [p.checkpoint for p in whole if p.checkpoint]
    resumed = run(quick(folds=0), rows=POOL, checkpoint=saved[-1])[-1].result
    assert resumed.artifact == whole[-1].result.artifact
    assert Router.load(resumed.artifact).route("where is my parcel").agents


@pytest.mark.parametrize("missing", [0, 1])
def test_auto_tries_what_reads_the_sentence_where_there_are_rows_to_judge_it_by(
    missing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoders, "SEQUENCE_ROWS", len(ROWS) + missing)
    monkeypatch.setattr(encoders.SequenceScorer, "for_rows", lambda rows: Remembers(truth()))
    groups = [group_key(text) for text in ROWS.texts]
    _, report = fit_encoder(quick(encoder="auto", tidy=False), ROWS, groups, VALIDATION, progress=no_progress)
    assert ("sequence" in report["comparison"]) == (not missing)
    if missing:
        assert report["encoder"] == "linear"


def test_what_reads_the_sentence_is_not_fitted_where_it_could_not_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    required = np.eye(len(AGENTS), dtype=bool)
    words = ["parcel", "refund", "crash", "contract", "holiday", "salary", "garden", "music", "weather"]
    names = [f"{a}{b}" for a in ("ka", "lo", "mi", "nu") for b in ("ra", "te", "so", "du", "pi")]

    def of(names: Sequence[str]) -> Rows:
        rows = [(f"{words[a]} {name}", required[a]) for name in names for a in range(len(AGENTS))]
        return Rows([text for text, _ in rows], np.array([y for _, y in rows]), np.ones((len(rows), len(AGENTS)), bool))

    rows, validation = of(names[:15]), of(names[15:])
    fitted: list[int] = []

    class Noting(Remembers):
        def fit(self, *arguments: Any, **named: Any) -> Any:
            fitted.append(1)
            return super().fit(*arguments, **named)

    monkeypatch.setattr(encoders, "SEQUENCE_ROWS", 1)
    knows = {t: y for one in (rows, validation) for t, y in zip(one.texts, one.required, strict=True)}
    monkeypatch.setattr(encoders.SequenceScorer, "for_rows", lambda rows: Noting(knows))
    config = quick(encoder="auto", sentences=False, tidy=False)

    def report() -> dict[str, Any]:
        return fit_encoder(config, rows, rows.texts, validation, progress=no_progress)[1]

    short = report()
    assert (short["enough"], short["encoder"], fitted) == ("linear", "linear", [])
    assert list(short["comparison"]) == ["linear"]
    monkeypatch.setattr(encoders, "is_unbeatable", lambda *_: False)
    whole = report()
    assert "enough" not in whole
    assert fitted
    assert whole["encoder"] == "linear"


@pytest.mark.parametrize(("rows", "networks"), [(len(ROWS) + 1, 3), (len(ROWS), 1)])
def test_few_rows_are_read_by_several_networks(rows: int, networks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []

    class Noting(Remembers):
        def fit(self, *arguments: Any, seed: int, **named: Any) -> Any:
            seeds.append(seed)
            return super().fit(*arguments, **named)

    monkeypatch.setattr(encoders, "SEVERAL_ROWS", rows)
    monkeypatch.setattr(encoders, "is_unbeatable", lambda *_: False)
    monkeypatch.setattr(encoders.SequenceScorer, "for_rows", lambda rows: Noting(truth()))
    config = quick(encoder="auto", sentences=False, seed=7, tidy=False)
    _, report = fit_encoder(config, ROWS, ROWS.texts, VALIDATION, progress=no_progress)
    assert len(report["stack_weights"]) == 1 + networks
    assert sorted(set(seeds)) == list(range(7, 7 + networks))
