"""Confusion between agents, operating points, and what two routers differ in by set size and by agent."""

import numpy as np
import pytest

from tests.engine.synthetic import AGENTS
from training_app.engine.data import metrics
from training_app.engine.judging import analysis as judging
from training_app.engine.reading.scorers import Platt
from training_app.engine.routing.calibration import SET_PRIOR, Calibration
from training_app.engine.routing.policy import PlainPolicy
from training_app.engine.routing.router import Router
from training_app.engine.routing.text_reader import TextReader

IDS = [agent.id for agent in AGENTS]


def sets(*rows: str) -> np.ndarray:
    return np.array([[character == "1" for character in row] for row in rows])


# ---------------------------------------------------------------------------------------------------- confusion


def test_an_agent_taken_where_another_was_missed_is_a_pair() -> None:
    #                 right   missed 0 for 3  again   missed alone  in vain alone  not asked about 7
    required = sets("1000", "1000", "1100", "0010", "0000", "0001")
    selected = sets("1000", "0100", "0110", "0000", "0001", "1000")
    asked = np.ones_like(required)
    asked[5, 3] = False
    found = judging.confusion(selected, required, asked, IDS)
    assert found["pairs"] == [[0, 3, 1], [0, 4, 1]]
    assert found["missed"] == {"0": 2, "4": 1}
    assert found["missed_alone"] == {"4": 1}
    assert found["in_vain"] == {"0": 1, "3": 1, "4": 1, "7": 1}
    assert found["in_vain_alone"] == {"0": 1, "7": 1}


def test_the_most_frequent_pair_stands_first() -> None:
    required, selected = sets("1000", "0100", "0100"), sets("0100", "1000", "1000")
    assert judging.confusion(selected, required, np.ones_like(required), IDS)["pairs"] == [[3, 0, 2], [0, 3, 1]]


# ---------------------------------------------------------------------------------------------------- operating points


class Lengths:
    """A scorer whose margin of agent a is the number of a's in the text, less one half."""

    kind = "lengths"

    def logits(self, texts: list[str]) -> np.ndarray:
        return np.array([[text.count(letter) - 0.5 for letter in "abcd"] for text in texts], np.float32)


@pytest.fixture
def router() -> Router:
    """Takes each agent whose letter stands in the text; its values are a tenth of the log-odds."""
    weights = np.concatenate([np.eye(4), np.zeros((4, 4))]).astype(np.float32) / 10
    # The last column is STOP's, which is 0.
    policy = PlainPolicy(((np.pad(weights, ((0, 0), (0, 1))), np.zeros(5, np.float32)),), stop_is_zero=True)
    same = Platt(np.ones(4, np.float32), np.zeros(4, np.float32))
    return Router(AGENTS, TextReader(Lengths(), same), policy, Calibration(1.0, 0.0, SET_PRIOR, margin=0.0))


def test_the_curve_runs_from_few_agents_to_all(router: Router) -> None:
    texts, required = ["a", "aab", "c", ""], sets("1000", "1100", "0010", "0000")
    found = judging.operating_points(router, texts, required)
    assert found["queries"] == 4
    assert found["chosen"] == {"agents": 1.0, "recall": 1.0, "jaccard": 1.0}
    curve = found["curve"]
    assert [point["agents"] for point in curve] == [0.0, 0.25, 1.0, 4.0]
    assert [point["recall"] for point in curve] == [0.0, pytest.approx(0.5 / 3), 1.0, 1.0]
    assert curve[0]["margin"] == 1.0
    assert curve[0]["margin"] > curve[1]["margin"] > curve[2]["margin"]


def test_a_long_split_is_sampled(router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "CURVE_QUERIES", 10)
    texts = ["a"] * 5 + ["b"] * 20
    required = np.array([[t == "a", t == "b", False, False] for t in texts])
    found = judging.operating_points(router, texts, required)
    assert (found["queries"], found["chosen"]["recall"]) == (10, 1.0)
    assert judging.operating_points(router, [], required[:0]) == {}


def test_recall_is_of_queries_that_need_an_agent() -> None:
    assert judging.point(sets("1000", "1000"), sets("1000", "0000")) == {"agents": 1.0, "recall": 1.0, "jaccard": 0.5}
    assert judging.point(sets("0000"), sets("0000"))["recall"] is None


# ---------------------------------------------------------------------------------------------------- beside another router


@pytest.fixture
def two() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ours, theirs and required of 400 queries: ours misses a twentieth of the agents, theirs a fifth of the first one's."""
    rng = np.random.default_rng(3)
    required = rng.random((400, 4)) < 0.4
    ours = required & (rng.random((400, 4)) > 0.05)
    theirs = required.copy()
    theirs[:, 0] &= rng.random(400) > 0.2
    return ours, theirs, required


def test_by_size_is_the_paired_difference_of_each_bucket(two: tuple[np.ndarray, ...]) -> None:
    ours, theirs, required = two
    found = judging.beside(ours, theirs, required, np.ones_like(ours), IDS)["by_size"]
    assert sum(row["queries"] for row in found.values()) == 400
    sizes = np.array(metrics.bucket_of(required))
    mine, other = (metrics.per_query(s, required)["jaccard"] for s in (ours, theirs))
    for name, row in found.items():
        rows = sizes == name
        assert row["difference"] == metrics.paired(mine[rows], other[rows]), name
    assert found["0"]["difference"]["low"] < found["0"]["difference"]["mean"] == 0 < found["0"]["difference"]["high"]


def test_by_agent_is_the_paired_difference_of_f1(two: tuple[np.ndarray, ...]) -> None:
    ours, theirs, required = two
    found = judging.beside(ours, theirs, required, np.ones_like(ours), IDS)["by_agent"]
    assert [row["id"] for row in found] == IDS

    def f1(taken: np.ndarray, rows: np.ndarray, a: int) -> float:
        hits = (taken[rows, a] & required[rows, a]).sum()
        return 2 * hits / (taken[rows, a].sum() + required[rows, a].sum())

    everyone, rng = np.arange(400), np.random.default_rng(0)
    for a, row in enumerate(found):
        assert row["ours"] == pytest.approx(f1(ours, everyone, a))
        assert row["difference"]["mean"] == pytest.approx(f1(ours, everyone, a) - f1(theirs, everyone, a))
        drawn = [rng.integers(400, size=400) for _round in range(1000)]
        slow = np.percentile([f1(ours, rows, a) - f1(theirs, rows, a) for rows in drawn], [2.5, 97.5])
        assert [row["difference"]["low"], row["difference"]["high"]] == pytest.approx(slow, abs=0.02)
    assert found[0]["difference"]["low"] > 0
    assert found[1]["difference"]["high"] < 0


def test_an_agent_that_plays_no_part_has_no_difference() -> None:
    required = sets("1000", "1000")
    found = judging.beside(required, required, required, np.ones_like(required), IDS)["by_agent"]
    assert found[1] == {"id": 3, "ours": None, "theirs": None, "difference": None}
    assert found[0]["difference"]["low"] < found[0]["difference"]["mean"] == 0


def test_rows_in_which_an_agent_was_not_asked_leave_its_figures() -> None:
    required, ours, theirs = sets("1000", "1000"), sets("1000", "0000"), sets("1000", "1000")
    asked = np.ones_like(required)
    asked[1, 0] = False
    found = judging.beside(ours, theirs, required & asked, asked, IDS)
    assert found["by_agent"][0]["ours"] == 1.0
    assert found["by_size"]["1"]["queries"] == 1
