"""The nearest texts of a collection."""

import pytest

from training_app.engine.reading.neighbours import Neighbours

TEXTS = ["the parcel is late again", "refund my last invoice", "the app crashes on start", "refund the parcel", "…"]


def test_the_nearest_come_first_and_strangers_last() -> None:
    compared = Neighbours(TEXTS)
    found = compared.nearest("please refund this invoice")
    assert [place for place, _likeness in found][:2] == [1, 3]
    assert [likeness for _place, likeness in found] == sorted((likeness for _p, likeness in found), reverse=True)
    assert dict(found).get(2, 0.0) < 0.05 < found[1][1]
    assert len(compared.nearest("the refund", 1)) == 1


def test_the_same_text_is_wholly_alike() -> None:
    assert Neighbours(TEXTS).nearest(TEXTS[2])[0] == (2, pytest.approx(1.0))


def test_nothing_is_near_nothing() -> None:
    assert Neighbours([]).nearest("refund") == []
    assert Neighbours(TEXTS).nearest("…") == []
    assert Neighbours(TEXTS).nearest("zzzz qqqq") == []
