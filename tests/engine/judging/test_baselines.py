from __future__ import annotations

import json
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import scipy.sparse as sp

from tests.engine.synthetic import AGENTS, examples
from training_app.engine.benchmark import BenchmarkError, benchmark, combine, leaderboard
from training_app.engine.data import metrics
from training_app.engine.data.examples import Agent, Row
from training_app.engine.data.files import write_rows
from training_app.engine.data.metrics import jaccard
from training_app.engine.data.rows import Rows, rows_of
from training_app.engine.judging import baselines
from training_app.engine.judging.baselines import BASELINES, classifier_policy
from training_app.engine.reading.linear import best_jaccards, fit_tfidf
from training_app.engine.reading.scorers import CrossFit, FittedScorer, Platt
from training_app.engine.routing.threshold import best_threshold

SPLITS = {s: rows_of([e for e in examples() if e.split == s], AGENTS) for s in ("train", "val", "test")}


@pytest.mark.parametrize(
    ("name", "least"),
    [("svm", 0.85), ("logreg", 0.85), ("neighbours", 0.7), ("constant", 0.15), ("keyword", 0.3), ("random", 0.1)],
)
def test_baselines_are_no_straw_men(name: str, least: float) -> None:
    fitted = BASELINES[name](AGENTS, SPLITS["train"], SPLITS["val"], 0)
    test = SPLITS["test"]
    found = fitted.select(test.texts)
    assert found.shape == test.required.shape
    assert float(jaccard(found, test.required).mean()) >= least
    assert np.array_equal(found, fitted.select(test.texts))
    alone = fitted.select(test.texts[:1])
    assert alone.shape == (1, 4)


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_do_without_validation_rows(name: str) -> None:
    nothing = Rows([], np.zeros((0, 4), bool), np.zeros((0, 4), bool))
    assert BASELINES[name](AGENTS, SPLITS["train"], nothing, 0).select(["hello"]).shape == (1, 4)


def test_the_constant_set_is_the_best_of_its_walk() -> None:
    required = np.array([[1, 1, 0, 0]] * 5 + [[0, 0, 0, 0]] * 4, bool)
    rows = Rows(["x"] * 9, required, np.ones_like(required))
    chosen = BASELINES["constant"](AGENTS, rows, rows, 0).select(["y"])
    # One agent (5 * 1/2) is worse than none (4); two (5) are better.
    assert chosen.tolist() == [[True, True, False, False]]


def test_the_constant_set_is_that_of_a_walk_counted_set_by_set() -> None:
    rng = np.random.default_rng(0)
    asked = rng.random((300, 6)) < 0.9
    rows = Rows(["x"] * 300, (rng.random((300, 6)) < [0.7, 0.6, 0.5, 0.4, 0.3, 0.1]) & asked, asked)
    walk, scores = np.zeros(6, bool), [(float(jaccard(np.zeros((300, 6), bool), rows.required).mean()), ())]
    while not walk.all():
        wider = [walk | (np.arange(6) == a) for a in np.flatnonzero(~walk)]
        walk = max(wider, key=lambda chosen: float(jaccard(chosen & asked, rows.required).mean()))
        scores.append((float(jaccard(walk & asked, rows.required).mean()), tuple(np.flatnonzero(walk))))
    chosen = BASELINES["constant"]([Agent(a, str(a)) for a in range(6)], rows, rows, 0).select(["y"])
    assert tuple(np.flatnonzero(chosen[0])) == max(scores)[1]
    assert 0 < chosen.sum() < 6


def test_neighbours_are_those_of_all_similarities_at_once() -> None:
    train, texts = SPLITS["train"], SPLITS["test"].texts
    # Without validation rows it takes five of the twenty that it looks up.
    fitted = BASELINES["neighbours"](AGENTS, train, Rows([], np.zeros((0, 4), bool), np.zeros((0, 4), bool)), 0)
    tfidf, matrix = fit_tfidf(train.texts)
    starts, indices, values = tfidf.rows(texts)
    dense = np.zeros((len(texts), tfidf.size))
    dense[np.repeat(np.arange(len(texts)), np.diff(starts)), indices] = values
    similar = dense @ matrix.toarray().T
    near = np.argsort(-similar, axis=1, kind="stable")[:, :5]
    weight = np.take_along_axis(similar, near, axis=1)
    shares = np.einsum("nk,nka->na", weight / weight.sum(axis=1, keepdims=True), train.required[near].astype(float))
    away = np.abs(shares - fitted.chosen["threshold"]).min(axis=1) > 1e-3
    assert away.mean() > 0.7
    assert np.array_equal(fitted.select(texts)[away], (shares > fitted.chosen["threshold"])[away])
    assert fitted.answerable(texts) == pytest.approx(shares.max(axis=1), abs=1e-4)


def test_among_many_rows_neighbours_are_compared_without_what_every_row_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = sp.csr_matrix(np.array([[1, 1, 0], [1, 0, 1], [1, 0, 1], [1, 0, 0]]))  # [N, features]
    assert (baselines._telling(matrix) != matrix).nnz == 0
    monkeypatch.setattr(baselines, "MANY_ROWS", 3)
    monkeypatch.setattr(baselines, "TELLING", 2)
    assert baselines._telling(matrix).toarray().tolist() == [[0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0]]


def test_baselines_that_share_their_n_grams_select_what_each_does_alone() -> None:
    shared = baselines.Shared(baselines.Ngrams(SPLITS["train"]))
    for name in ("svm", "logreg", "neighbours"):
        alone, beside = (BASELINES[name](AGENTS, SPLITS["train"], SPLITS["val"], 0, given) for given in (None, shared))
        assert np.array_equal(alone.select(SPLITS["test"].texts), beside.select(SPLITS["test"].texts))


def test_the_threshold_is_the_middle_of_the_best_stretch() -> None:
    rows = Rows(["a", "b"], np.array([[True], [False]]), np.ones((2, 1), bool))
    threshold = best_threshold(np.array([[2.0], [-2.0]]), rows.required, rows.asked)
    assert -1 < threshold < 1


def test_one_agent_of_three_hundred_has_its_threshold_too() -> None:
    rng = np.random.default_rng(0)
    required = np.zeros((200, 300), bool)
    required[np.arange(200), rng.integers(300, size=200)] = True
    asked = np.ones_like(required)
    scores = np.where(required, 1.0, rng.uniform(-1, 0.9, required.shape)).astype(np.float32)
    assert best_jaccards(scores, required, asked).mean() > 0.9
    threshold = best_threshold(scores, required, asked)
    assert jaccard(scores > threshold, required).mean() > 0.9


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "agents.jsonl").write_text(
        "".join(json.dumps({"id": a.id, "name": a.name, "description": a.description}) + "\n" for a in AGENTS)
    )
    for split in ("train", "val", "test"):
        with (tmp_path / f"{split}.jsonl").open("wb") as stream:
            write_rows((Row(0, e.id, e.text, e.required) for e in examples() if e.split == split), "jsonl", stream)
    return tmp_path


@pytest.mark.at_length
def test_benchmark_measures_each_router_in_a_process_of_its_own(folder) -> None:
    settings = {"encoder": "linear", "svm_c": 1.0, "folds": 2, "total_steps": 300, "learning_rate": 0.01}
    told: list[str] = []
    found = benchmark(folder, ["ddqn", "constant"], 1, settings, told.append)
    assert told == ["ddqn, seed 0", "constant, seed 0"]
    assert found["data"]["test"] == 24
    for figures in found["routers"].values():
        for measure in ("jaccard", "f1", "exact", "success", "set_size"):
            assert set(figures[measure]) == {"mean", "low", "high"}
        assert set(figures["empty"]) == {"precision", "recall"}
        for name in ("train_cpu_seconds", "peak_mb", "route_us_p50", "route_us_p99", "batch_routes_per_second"):
            assert figures[name] >= 0
        assert figures["route_us_p50"] <= figures["route_us_p99"]
    assert found["routers"]["ddqn"]["peak_mb"] > 50
    lines = list(leaderboard(found))
    assert lines[3].startswith("ddqn")
    (rule,) = found["routers"]["ddqn"]["rules"]
    assert lines[3].rstrip().endswith(rule)
    assert found["routers"]["constant"]["rules"] == []
    json.dumps(found)


def test_benchmark_says_what_is_wrong(folder) -> None:
    with pytest.raises(BenchmarkError, match="unknown router bert"):
        benchmark(folder, ["bert"])
    (folder / "test.jsonl").unlink()
    with pytest.raises(BenchmarkError, match=r"test\.jsonl"):
        benchmark(folder, ["constant"])


def test_seeds_are_averaged_before_queries_are_drawn() -> None:
    required = np.array([[True], [True]])
    base = {
        "answerable": None,
        "train_cpu_seconds": 1.0,
        "peak_mb": 5.0,
        "route_us_p50": 1.0,
        "route_us_p99": 2.0,
        "batch_routes_per_second": 3.0,
    }
    runs = [
        {**base, "rule": "bayes", "selected": np.array([[True], [False]])},
        {**base, "rule": "ddqn", "selected": np.array([[False], [True]])},
    ]
    found = combine(runs, required, np.array([True, True]))
    assert found["jaccard"] == metrics.interval(np.array([0.5, 0.5]))
    assert [seed["jaccard"] for seed in found["seeds"]] == [0.5, 0.5]
    assert found["rules"] == ["bayes", "ddqn"]


def test_a_few_strange_validation_rows_do_not_choose_the_threshold_alone() -> None:
    margins = np.linspace(-1, 1, 200, dtype=np.float32)[:, None]
    train = Rows(["t"] * 200, margins > 0, np.ones((200, 1), np.bool_))
    val = Rows(["v"] * 3, np.array([[False], [False], [True]]), np.ones((3, 1), np.bool_))
    fitted = SimpleNamespace(logits=lambda texts: np.array([[0.7], [0.8], [0.9]], np.float32)[: len(texts)])
    fit = CrossFit(margins, margins, cast(FittedScorer, fitted), Platt(np.ones(1, np.float32), np.zeros(1, np.float32)))
    assert best_threshold(fitted.logits(val.texts), val.required, val.asked) > 0.8
    _fit, policy = classifier_policy(fit, train, val)
    assert abs(float(policy.thresholds[0])) < 0.1
