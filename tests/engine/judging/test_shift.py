"""How live texts differ from labeled ones."""

import random

import pytest

from training_app.engine.data.intervals import Interval
from training_app.engine.judging import shift

WORDS = [f"{a}{b}" for a in ("ka", "lo", "mi", "ne", "su", "ti") for b in ("ran", "dos", "vel", "pik", "zun")]
PROMISED = Interval(0.8, 0.7, 0.9)


def texts(count: int, seed: int, words: int = 8) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choice(WORDS) for _ in range(rng.randint(words - 3, words + 3))) for _ in range(count)]


def sizes(*different: int) -> list[int]:
    return [*different, *[1] * (60 - len(different))]


@pytest.mark.parametrize("seed", range(6))
def test_texts_of_one_kind_are_alike(seed: int) -> None:
    found = shift.compare(texts(60, seed), sizes(0, 2), texts(300, 100 + seed))
    assert found is not None
    assert not found.differs
    assert found.expected(PROMISED) == PROMISED


def test_longer_texts_in_half_of_the_traffic_differ() -> None:
    found = shift.compare(texts(60, 0), sizes(0, 2), texts(150, 1) + texts(150, 2, words=20))
    assert found is not None
    assert found.differs
    assert found.lengths[1] > 1.2 * found.lengths[0]
    range_ = found.expected(PROMISED)
    assert range_.low < 0.7 * (1 - 0.5)  # were the longer half all wrong
    assert range_.low <= range_.mean <= range_.high
    assert 0.9 < range_.high < 1


def test_where_labels_lack_a_kind_the_range_is_wider_although_nothing_differs() -> None:
    full, lacking = (shift.compare(texts(60, 0), found, texts(300, 100)) for found in (sizes(0, 2), sizes(0)))
    assert full is not None
    assert lacking is not None
    assert lacking.lacking
    assert not full.lacking
    assert lacking.expected(PROMISED).low < 0.7
    assert full.expected(PROMISED).low == 0.7


def test_few_texts_say_nothing() -> None:
    assert shift.compare(texts(29, 0), [1] * 29, texts(300, 1)) is None
    assert shift.compare(texts(60, 0), sizes(), texts(29, 1)) is None
