"""Which queries to ask about next."""

import numpy as np
import pytest

from training_app.engine.judging.asking_order import expected_loss, features, of_scores, varied

TEXTS = ["my invoice is wrong", "my invoice is wrong!", "my invoice is wrong?", "the parcel never came", "app crashes"]
DOUBT = np.array([1.0, 0.99, 0.98, 0.6, 0.5])


def test_the_best_answer_loses_nothing_where_all_is_sure_and_half_where_nothing_is() -> None:
    p = np.array([[1.0, 0.0], [0.0, 0.0], [0.5, 0.0], [1.0, 0.5]])
    # The last: {0} is right half the time and has 1/2 else, {0, 1} the same.
    assert expected_loss(p) == pytest.approx([0, 0, 0.5, 0.25])
    assert expected_loss(p[:, ::-1]) == pytest.approx([0, 0, 0.5, 0.25])


def test_answers_over_different_agents_are_read_together() -> None:
    rows = [{"0": 0.5}, {"3": 1.0}, {}, {"0": 1.0, "3": 0.5}]
    assert of_scores(rows) == pytest.approx([0.5, 0, 0, 0.25])
    assert of_scores([{}, {}]).tolist() == [0, 0]
    assert of_scores([{"0": 1.7}]) == pytest.approx([0])


def test_a_batch_does_not_ask_the_same_thing_twice() -> None:
    vectors = features(TEXTS)
    assert set(varied(vectors, DOUBT)[:3]) == {0, 3, 4}
    assert varied(vectors, DOUBT, weight=0.0) == [0, 1, 2, 3, 4]
    assert varied(vectors, DOUBT, limit=2) == varied(vectors, DOUBT)[:2]


def test_what_is_like_the_labeled_comes_late() -> None:
    labeled = features(["the parcel never came?", "an app crashes"])
    assert varied(features(TEXTS), np.ones(5), labeled)[0] in (0, 1, 2)
    assert varied(features(TEXTS), np.zeros(5), features(TEXTS[:4]))[0] == 4


def test_nothing_waits() -> None:
    assert varied(features([]), np.zeros(0)) == []


@pytest.mark.parametrize("text", ["", "a", "\ud800 half a pair", "x" * 5_000])
def test_any_text_has_features_of_length_one(text: str) -> None:
    assert np.linalg.norm(features([text])) == pytest.approx(1, abs=1e-5)
