"""Small pools judged by cross-validation: how rows are dealt, what is judged together, and how wide its intervals are."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.engine.synthetic import AGENTS, examples
from training_app.engine.config import Config
from training_app.engine.data import metrics
from training_app.engine.data.arrays import BoolArray
from training_app.engine.data.prepared import Prepared
from training_app.engine.judging import folds
from training_app.engine.judging.scorecard import errors_of_folds
from training_app.engine.progress import Progress
from training_app.engine.train import train

Work = Generator[Progress, None, Any]


def result_of(work: Work) -> tuple[list[Progress], Any]:
    said = []
    while True:
        try:
            said.append(next(work))
        except StopIteration as done:
            return said, done.value


def knowing(data: Prepared) -> Generator[Progress, None, Mapping[str, BoolArray]]:
    """Answers every query right, but for the first agent; the baseline answers nothing."""
    yield Progress("policy", 1, 2, "learning", {"val_jaccard": 0.5})
    required = data.measured.rows.required
    sets = required.copy()
    sets[:, 0] = False
    return {"": sets, "nothing": np.zeros_like(required)}


def test_every_group_is_tested_once_and_never_learnt_from_in_its_fold() -> None:
    rows = examples(100)
    rows += [replace(e, id=f"{e.id} again", text=f"{e.text}!") for e in rows[:20]]
    dealt = folds.dealt(rows, 5, 0)
    tested = [e.id for fold in dealt for e in fold if e.split == "test"]
    assert sorted(tested) == sorted(e.id for e in rows)
    for fold in dealt:
        groups = {s: {e.fold_key for e in fold if e.split == s} for s in ("train", "val", "test")}
        assert not groups["test"] & (groups["train"] | groups["val"])
        assert not groups["train"] & groups["val"]
        # A quarter of what is learnt from was validation before, and is again.
        assert len(groups["val"]) / len(groups["train"] | groups["val"]) == pytest.approx(0.25, abs=0.03)


def test_what_all_folds_answered_is_judged_together() -> None:
    rows = examples(100)
    said, found = result_of(folds.cross_validated(AGENTS, rows, Config(), knowing))
    required = np.array([[agent.id in e.required for agent in AGENTS] for e in rows])
    sets = required & (np.arange(len(AGENTS)) > 0)
    assert found["queries"] == 100
    assert found["metrics"]["jaccard"]["mean"] == pytest.approx(metrics.per_query(sets, required)["jaccard"].mean())
    nothing = metrics.per_query(np.zeros_like(required), required)["jaccard"].mean()
    assert found["baselines"]["nothing"]["metrics"]["jaccard"]["mean"] == pytest.approx(nothing)
    lead = found["baselines"]["nothing"]["difference"]["jaccard"]
    assert lead["mean"] == pytest.approx(found["metrics"]["jaccard"]["mean"] - nothing)
    assert found["answers"] == {
        folds.key_of(e): [sorted(e.required), sorted(e.required - {AGENTS[0].id})] for e in rows
    }
    assert {p.phase for p in said} == {"folds"}
    assert not any(p.metrics for p in said), "a fold's figures are not those of the run"


def test_the_mistakes_are_those_of_all_folds_the_worst_first() -> None:
    rows = examples(100)
    rows += [replace(e, id=f"{e.id} again", text=f"{e.text}!") for e in rows[:20]]
    _said, found = result_of(folds.cross_validated(AGENTS, rows, Config(), knowing))
    listed = errors_of_folds(rows, found["answers"])
    wrong = [e for e in rows if AGENTS[0].id in e.required]
    assert listed["error_count"] == len(wrong) > 0
    assert {e["id"] for e in listed["errors"]} == {e.id for e in wrong}
    sizes = [len(e["required"]) for e in listed["errors"]]
    assert sizes == sorted(sizes), "of a query that needs two agents one was found"
    by_id = {e.id: e for e in rows}
    for error in listed["errors"]:
        assert error["nearest"]
        assert all(by_id[near["id"]].fold_key != by_id[error["id"]].fold_key for near in error["nearest"])


def test_rows_that_were_partly_asked_teach_and_are_not_judged() -> None:
    rows = [replace(e, asked=frozenset({0, 3, 4})) if i % 2 else e for i, e in enumerate(examples(100))]
    rows = [replace(e, required=e.required & e.asked) if e.asked else e for e in rows]
    assert result_of(folds.cross_validated(AGENTS, rows, Config(), knowing))[1]["queries"] == 50


def test_rows_that_do_not_judge_are_only_learnt_from() -> None:
    rows = [replace(e, judges=n % 4 == 0) for n, e in enumerate(examples(200))]
    _said, found = result_of(folds.cross_validated(AGENTS, rows, Config(), knowing))
    assert found["queries"] == sum(e.judges for e in rows) == 50
    assert folds.few([replace(e, split="train") for e in rows])
    assert not folds.few([replace(e, split="train", judges=n < 39) for n, e in enumerate(rows)])


def test_rows_too_few_to_learn_from_give_nothing() -> None:
    assert result_of(folds.cross_validated(AGENTS, examples(8), Config(), knowing))[1] is None


def test_intervals_are_wider_than_those_of_independent_queries() -> None:
    values = np.random.default_rng(0).choice([0.0, 0.5, 1.0], 120, p=[0.1, 0.2, 0.7])
    plain, wide = metrics.interval(values), folds.widened(values)
    grown = (wide["high"] - wide["low"]) / (plain["high"] - plain["low"])
    assert grown == pytest.approx(folds.of_one(120) ** 0.5, abs=0.05)
    lead, paired = folds.lead(values, values[::-1]), metrics.paired(values, values[::-1])
    assert lead["bound"] < paired["bound"] <= paired["low"]
    assert lead["bound"] <= lead["low"] < paired["low"]


@pytest.mark.parametrize(
    ("count", "test", "wanted"), [(120, 24, True), (30, 6, False), (499, 99, True), (600, 99, False)]
)
def test_small_pools_with_few_test_queries_are_judged_so(count: int, test: int, wanted: bool) -> None:
    rows = [replace(e, split="test" if i < test else "train") for i, e in enumerate(examples(count))]
    assert folds.few(rows) is wanted
    rows = [replace(e, split="test" if i < 100 else "train") for i, e in enumerate(rows)]
    assert not folds.few(rows)


@pytest.mark.at_length
def test_a_run_judges_its_own_recipe_by_folds() -> None:
    settings = {"encoder": "linear", "svm_c": 1.0, "folds": 2, "total_steps": 60, "epsilon_decay_steps": 30}
    settings |= {"judging_folds": 2, "val_eval_freq": 30}
    *_, last = train(Config.from_mapping(settings), AGENTS, examples(100))
    assert last.result is not None
    card = last.result.scorecard
    found = card["cross_validated"]
    assert (found["folds"], found["queries"]) == (2, 100)
    # The mistakes that a page lists are of the queries that its figures are of.
    wrong = {key: sets for key, sets in found["answers"].items() if set(sets[0]) != set(sets[1])}
    assert card["error_count"] == len(wrong)
    assert sorted((e["required"], e["selected"]) for e in card["errors"]) == sorted(map(tuple, wrong.values()))
    assert {"svm", "constant", "threshold", "bayes"} <= set(found["baselines"])
    assert found["metrics"]["jaccard"]["mean"] > found["baselines"]["constant"]["metrics"]["jaccard"]["mean"]
    *_, last = train(Config.from_mapping({**settings, "judging_folds": 0}), AGENTS, examples(100))
    assert last.result is not None
    assert "cross_validated" not in last.result.scorecard
