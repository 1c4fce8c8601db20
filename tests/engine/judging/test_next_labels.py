"""What the next labels should bring: how rows are dealt and judged, and the two laws that bracket what comes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engine.synthetic import AGENTS, examples
from training_app.engine.config import Config
from training_app.engine.data.rows import rows_of
from training_app.engine.judging import next_labels
from training_app.engine.progress import no_progress
from training_app.engine.reading.linear import LinearScorer
from training_app.engine.train import train


class Noting(LinearScorer):
    """Notes what it was fitted on and asked about."""

    def __init__(self) -> None:
        super().__init__(c=1.0)
        object.__setattr__(self, "told", [])

    def fit(self, texts, Y, asked, **more):
        fitted = super().fit(texts, Y, asked, **more)
        self.told.append(set(texts))
        return fitted


def test_every_row_is_judged_at_every_size_by_what_has_not_seen_it() -> None:
    rows = rows_of(examples(100), AGENTS)
    scorer = Noting()
    sizes, values = next_labels.measured(scorer, rows, rows.texts, 0, no_progress)
    assert sizes == [20, 40, 60, 80]
    assert values["jaccard"].shape == values["exact"].shape == (4, 100)
    assert (values["exact"] <= values["jaccard"]).all()
    assert [len(texts) for texts in scorer.told] == [20] * 5 + [40] * 5 + [60] * 5 + [80] * 5
    assert values["jaccard"][-1].mean() > values["jaccard"][0].mean() + 0.05
    # The last five saw everything but a fold; a fold is what the four others have in common.
    assert not set.intersection(*scorer.told[-5:])
    assert len(set.union(*scorer.told[:5])) == 100


@pytest.mark.parametrize(
    ("errors", "law"),
    [(lambda n: 2 * n**-0.5, next_labels._endless), (lambda n: 0.1 + 8 / n, next_labels._floored)],
    ids=["endless", "floored"],
)
def test_each_law_is_right_where_it_holds(errors, law) -> None:
    sizes = [40, 80, 120, 160]
    means = 1 - np.array([[errors(n)] for n in sizes])
    (gain,) = law(sizes, means, 200)
    assert gain == pytest.approx(errors(200) - errors(300), rel=1e-6)


def test_the_interval_reaches_from_one_law_to_the_other() -> None:
    rng = np.random.default_rng(0)
    values = (rng.random((4, 300)) < np.array([[0.6], [0.7], [0.76], [0.8]])).astype(float)
    found = next_labels.expected([40, 80, 120, 160], values, 200, 0)
    mean = values.mean(axis=1, keepdims=True)
    laws = [float(law([40, 80, 120, 160], mean, 200)[0]) for law in (next_labels._endless, next_labels._floored)]
    assert 0 <= found["gain"]["low"] < min(laws) < found["gain"]["mean"] < max(laws) < found["gain"]["high"]
    assert [point["labels"] for point in found["points"]] == [40, 80, 120, 160]


def test_a_curve_that_does_not_rise_promises_nothing() -> None:
    found = next_labels.expected([20, 40, 60, 80], np.tile(np.arange(50) % 2, (4, 1)).astype(float), 100, 0)
    assert found["gain"] == pytest.approx({"mean": 0.0, "low": 0.0, "high": 0.0}, abs=1e-9)


@pytest.mark.at_length
@pytest.mark.parametrize(("count", "shown"), [(120, True), (60, False)])
def test_a_run_tells_it_of_a_pool_with_some_labels(count: int, shown: bool) -> None:
    settings = {
        "encoder": "linear",
        "svm_c": 1.0,
        "folds": 2,
        "total_steps": 40,
        "val_eval_freq": 20,
        "judging_folds": 0,
    }
    *_, last = train(Config.from_mapping(settings), AGENTS, examples(count))
    assert last.result is not None
    found = last.result.scorecard.get("next_labels")
    assert (found is not None) is shown
    if found:
        assert found["labels"] == 96
        for gain in (found["gain"], found["right"]["gain"]):
            assert gain["low"] <= gain["mean"] <= gain["high"]
        assert found["right"]["more"] == next_labels.RIGHT_MORE
