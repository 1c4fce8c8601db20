"""Drift is found where traffic changes and not where chance does; a sketch stays small whatever runs through it."""

import numpy as np
import pytest

from training_app.engine.judging import drift
from training_app.engine.judging.drift import MEASURES, Sketch, Vocabulary

TRAINING = ["the parcel is late", "refund my invoice", "the app crashes at start"]


def drawn(seed: int, count: int, shift: float = 0.0) -> dict[str, list[int]]:
    """The histograms of so many answers whose confidence is drawn around 0.8 - shift."""
    rng = np.random.default_rng(seed)
    sketch = Sketch(None)
    for value in np.clip(rng.normal(0.8 - shift, 0.1, count), 0, 0.999):
        sketch.add("x", confidence=float(value), likeliest=0.9, size=int(rng.integers(1, 3)), abstained=False)
    return sketch.counts


def drifting(left: dict[str, list[int]], right: dict[str, list[int]]) -> set[str]:
    return {one.measure.name for one in drift.compare(left, right) if one.drifts}


@pytest.mark.parametrize("count", [40, 100, 300, 2000])
def test_chance_is_no_drift_however_few_the_texts(count: int) -> None:
    found = [drifting(drawn(2 * seed, 150), drawn(2 * seed + 1, count)) for seed in range(25)]
    assert found == [set()] * 25


def test_a_change_is_drift_and_only_of_what_changed() -> None:
    assert drifting(drawn(1, 400), drawn(2, 400, shift=0.15)) == {"confidence"}


def test_a_change_too_small_to_matter_is_no_drift_among_very_many() -> None:
    one, other = drawn(1, 20_000), drawn(2, 20_000, shift=0.01)
    found = next(f for f in drift.compare(one, other) if f.measure.name == "confidence")
    assert found.distance > found.limit
    assert not found.drifts


def test_fewer_texts_than_enough_never_drift() -> None:
    assert drifting(drawn(1, 400), drawn(2, drift.FEWEST - 1, shift=0.6)) == set()


def test_the_difference_is_the_share_beyond_the_best_cut() -> None:
    found = drift.difference([80, 20, 0, 0], [40, 20, 0, 40])
    assert (found.cut, found.excess) == (3, 0.4)
    assert drift.difference([10, 10], [10, 10]).excess == 0
    assert drift.difference([0, 0], [10, 10]).limit == 1


def test_a_tail_of_few_is_seen_where_the_mean_hardly_moves() -> None:
    left, right = [0] * 20, [0] * 20
    left[0], left[4], right[0], right[4], right[15] = 180, 40, 160, 36, 24
    assert drifting({"novelty": left}, {"novelty": right}) == {"novelty"}


def test_the_limit_falls_with_the_number_of_texts() -> None:
    limits = [
        drift.difference([n // 2, n // 2], [m // 2, m // 2]).limit
        for n, m in ((100, 100), (10_000, 100), (10_000, 10_000))
    ]
    assert limits == sorted(limits, reverse=True)


@pytest.mark.at_length
def test_a_limit_is_passed_by_chance_as_rarely_as_it_says() -> None:
    rng, passed = np.random.default_rng(3), 0
    for seed in range(400):
        left, right = (np.bincount(rng.integers(0, 8, 120), minlength=8).tolist() for _ in range(2))
        found = drift.difference(left, right, seed=seed, draws=4_000)
        passed += abs(found.excess) > found.limit
    assert passed <= 3


def test_novelty_counts_pieces_that_training_never_held() -> None:
    known = Vocabulary.of(TRAINING)
    assert known.novelty("The PARCEL is late") == 0
    assert known.novelty("quantum zebra") == 1
    assert 0 < known.novelty("the parcel zebra") < 1
    assert known.novelty("") == 0


def test_new_words_are_named_and_numbers_are_not_words() -> None:
    assert Vocabulary.of(TRAINING).new_words("the fax of parcel 4711, the fax") == ["fax", "of"]


def test_a_number_is_as_good_as_another() -> None:
    known = Vocabulary.of(["order 17 is late"])
    assert known.novelty("order 98123 is late") == 0


def test_a_vocabulary_survives_its_bytes() -> None:
    known = Vocabulary.of(TRAINING)
    again = Vocabulary(np.frombuffer(known.words.tobytes(), "<u4"), np.frombuffer(known.grams.tobytes(), "<u4"))
    assert again.novelty("the parcel zebra") == known.novelty("the parcel zebra")


def test_a_sketch_stays_small() -> None:
    sketch = Sketch(Vocabulary.of(TRAINING))
    for number in range(3 * drift.MOST_WORDS):
        word = "".join(chr(97 + int(digit)) for digit in str(number))
        sketch.add(f"new{word} fax", confidence=0.5, likeliest=0.5, size=1, abstained=False)
    assert len(sketch.words) <= 2 * drift.MOST_WORDS
    assert sketch.words.most_common(1)[0][0] == "fax"
    assert {m.name: sum(sketch.counts[m.name]) for m in MEASURES} == dict.fromkeys(
        (m.name for m in MEASURES), 3 * drift.MOST_WORDS
    )


def test_a_model_whose_training_texts_are_unknown_has_no_novelty() -> None:
    sketch = Sketch(None)
    sketch.add("anything", confidence=1.0, likeliest=1.0, size=99, abstained=True)
    assert "novelty" not in sketch.counts
    assert sketch.counts["size"][-1] == 1  # the last bin is open
    assert sketch.counts["confidence"][-1] == 1


@pytest.mark.parametrize(("measure", "worries"), [("novelty", False), ("abstained", False), ("confidence", True)])
def test_less_of_what_is_bad_is_no_drift(measure: str, worries: bool) -> None:
    bins = next(m.bins for m in MEASURES if m.name == measure)
    low, high = [400] + [0] * (bins - 1), [0] * (bins - 1) + [400]
    assert drifting({measure: low}, {measure: high}) == {measure}
    assert drifting({measure: high}, {measure: low}) == ({measure} if worries else set())


def test_a_histogram_without_a_count_says_nothing() -> None:
    assert drift.compare({"novelty": [0] * 20}, {"novelty": [0] * 20}) == []


@pytest.mark.at_length
def test_bursts_of_like_queries_are_no_drift() -> None:
    """Queries that come by the twenty or fifty, all of one kind: taken as independent they look like drift far more often."""
    with_order = without = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        usual = rng.integers(20, size=400)
        length = 20 if seed % 2 else 50
        bursts = np.repeat(rng.integers(20, size=600 // length), length)
        left, right = (np.bincount(one, minlength=20).tolist() for one in (usual, bursts))
        places = {"confidence": bursts.tolist()}
        without += any(f.drifts for f in drift.compare({"confidence": left}, {"confidence": right}))
        with_order += any(f.drifts for f in drift.compare({"confidence": left}, {"confidence": right}, places))
    assert without >= 30
    assert with_order <= 1


def test_drift_is_still_seen_where_order_is_known() -> None:
    for begins in (0, 300):
        rng = np.random.default_rng(begins)
        usual, live = rng.integers(20, size=400), rng.integers(20, size=600)
        live[begins:] = np.where(rng.random(600 - begins) < 0.5, live[begins:] // 5, live[begins:])
        left, right = (np.bincount(one, minlength=20).tolist() for one in (usual, live))
        told = drift.compare({"confidence": left}, {"confidence": right}, {"confidence": live.tolist()})
        assert any(one.drifts for one in told)


def test_queries_that_come_independently_keep_their_limit() -> None:
    rng = np.random.default_rng(0)
    factors = [drift.burst_factor(rng.random(600) < 0.3, 400) for _ in range(200)]
    assert sum(factor > 1 for factor in factors) <= 20


def test_a_drift_that_sets_in_on_the_way_is_no_burst() -> None:
    rng = np.random.default_rng(0)
    factors = [drift.burst_factor(np.r_[rng.random(300) < 0.1, rng.random(300) < 0.6], 400) for _ in range(50)]
    assert sum(factor > 1 for factor in factors) <= 5


def test_the_limit_grows_by_what_bursts_say() -> None:
    """Thirty bursts of twenty are thirty queries: beside a large reference the limit is that of thirty."""
    rng = np.random.default_rng(0)
    factors = [drift.burst_factor(np.repeat(rng.random(100) < 0.4, 20), 10**6) for _ in range(50)]
    assert np.median(factors) == pytest.approx(20**0.5, rel=0.15)
    beside_few = [drift.burst_factor(np.repeat(rng.random(100) < 0.4, 20), 200) for _ in range(50)]
    assert 1 < np.median(beside_few) < 2
