"""What more labels should bring, in words, and what those that came did bring."""

from collections.abc import Callable

import pytest

from tests.training_app.words import PERFECT, card, interval
from training_app.models import RouterModel
from training_app.versions import more_labels

pytestmark = pytest.mark.django_db
RIGHT = {"more": 60, "gain": {"mean": 0.09, "low": 0.04, "high": 0.14}}


def measured(exact: float, labels: int, right: dict | None) -> dict:
    content = card(data={"train": labels - 10, "val": 10, "test": 60}, queries=60)
    content["metrics"] |= {"exact": interval(exact - 0.05, exact + 0.05)}
    return content | ({"next_labels": {"labels": labels, "points": [], "right": right}} if right else {})


def test_the_forecast_is_said_in_right_answers(word_model: Callable[..., RouterModel]) -> None:
    said = more_labels.forecast(word_model(PERFECT, measured(0.7, 100, RIGHT)))
    assert said == "60 more labels: about 9 more of 100 right (4 to 14)."
    assert more_labels.forecast(word_model(PERFECT, measured(0.7, 100, None))) == ""


@pytest.mark.parametrize(("labels", "told"), [(158, True), (120, False), (300, False)])
def test_what_the_labels_brought_stands_beside_it_once_they_came(
    word_model: Callable[..., RouterModel], labels: int, told: bool
) -> None:
    before = word_model(PERFECT, measured(0.7, 100, RIGHT))
    said = more_labels.came_true(word_model(PERFECT, measured(0.77, labels, None)))
    expected = f"58 labels since {before.name} brought +7 of 100; 9 (4 to 14) were expected of 60."
    assert said == (expected if told else "")


def test_of_few_checked_answers_nothing_is_said(word_model: Callable[..., RouterModel]) -> None:
    word_model(PERFECT, measured(0.7, 100, RIGHT))
    assert more_labels.came_true(word_model(PERFECT, measured(0.77, 158, None) | {"queries": 49})) == ""
