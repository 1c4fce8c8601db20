"""Of the answers given, at most a share is wrong."""

from math import ceil

import numpy as np
import pytest

from tests.engine.synthetic import AGENTS, examples
from training_app.engine.config import Config
from training_app.engine.routing import guarantee
from training_app.engine.routing.router import Router
from training_app.engine.train import train

EVERY = np.ones(400, np.bool_)


def held(
    confidence: np.ndarray, lost: np.ndarray, given: np.ndarray = EVERY, inflation: float = 1.0
) -> guarantee.HeldOut:
    return guarantee.HeldOut(confidence.astype(np.float32), lost, given, inflation)


def world(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Confidences, and losses that are as likely as these say."""
    confidence = rng.beta(9, 0.6, rows).astype(np.float32)
    return confidence, (rng.random(rows) > confidence).astype(np.float64)


@pytest.mark.parametrize("most_wrong", [0.05, 0.1])
def test_of_answers_above_the_level_hardly_any_draw_has_more_wrong(most_wrong: float) -> None:
    rng = np.random.default_rng(3)
    whole = world(rng, 200_000)
    failed, answered = 0, []
    for _ in range(100):
        found = guarantee.promised(held(*world(rng, 400)), most_wrong, "exact")
        above = whole[0] >= found.level
        answered.append(above.mean())
        failed += bool(above.any()) and whole[1][above].mean() > most_wrong
    assert failed <= 8
    assert np.mean(answered) > 0.1


def test_a_router_that_is_always_right_answers_everything() -> None:
    found = guarantee.promised(held(np.linspace(0, 1, 400), np.zeros(400)), 0.05, "exact")
    assert (found.level, found.answered, found.wrong) == (0.0, 1.0, 0.0)


def test_too_few_rows_promise_nothing_and_say_how_many_it_takes() -> None:
    fewest = guarantee.fewest(0.05)
    for rows, kept in ((fewest - 1, False), (fewest, True)):
        sure = np.linspace(0.9, 1, rows, dtype=np.float32)
        found = guarantee.promised(held(sure, np.zeros(rows), np.ones(rows, np.bool_)), 0.05, "exact")
        assert found.kept is kept
        assert found.needed is not None
        assert found.needed >= fewest
        assert (found.plain()["level"] is None) == (not kept)


def test_what_it_would_take_is_said_and_that_no_number_is_enough() -> None:
    rng = np.random.default_rng(1)
    one_in_33 = {rows: (np.arange(rows) % 33 == 7).astype(float) for rows in (100, 8_000)}
    few, many = (
        guarantee.promised(held(np.linspace(0, 1, rows), lost, np.ones(rows, np.bool_)), 0.05, "exact")
        for rows, lost in one_in_33.items()
    )
    assert not few.kept
    assert few.needed is not None
    assert 100 < few.needed < 8_000
    assert many.kept
    hopeless = guarantee.promised(held(rng.random(400), (rng.random(400) < 0.3).astype(float)), 0.05, "exact")
    assert (hopeless.kept, hopeless.needed) == (False, None)


def test_rows_of_folds_count_for_fewer() -> None:
    rng = np.random.default_rng(2)
    confidence, lost = world(rng, 400)
    alone, folds = (guarantee.promised(held(confidence, lost, EVERY, by), 0.07, "exact") for by in (1.0, 1.4))
    assert 0 < folds.answered < alone.answered
    assert guarantee.p_value(lost, 0.1, "exact", 1.4) > guarantee.p_value(lost, 0.1, "exact")


def test_what_is_given_up_anyway_does_not_count() -> None:
    confidence = np.linspace(0, 1, 400, dtype=np.float32)
    lost = np.zeros(400)
    lost[::4] = 1
    assert not guarantee.promised(held(confidence, lost), 0.05, "exact").kept
    found = guarantee.promised(held(confidence, lost, lost == 0), 0.05, "exact")
    assert (found.kept, found.answered, found.wrong) == (True, 0.75, 0.0)


def test_answers_of_one_confidence_pass_together_or_not_at_all() -> None:
    confidence = np.full(400, 0.5, np.float32)
    lost = np.zeros(400)
    lost[-60:] = 1
    assert not guarantee.promised(held(confidence, lost), 0.05, "exact").kept


def test_the_p_values_are_those_of_the_papers() -> None:
    lost = np.array([1.0, *[0.0] * 99])
    assert guarantee.p_value(lost, 0.05, "exact") == pytest.approx(0.95**100 + 100 * 0.05 * 0.95**99)
    assert guarantee.p_value(np.zeros(100), 0.05, "jaccard") == pytest.approx(0.95**100)
    assert guarantee.p_value(np.full(100, 0.2), 0.05, "jaccard") == 1.0


def test_losses_count_whole_sets_or_the_overlap() -> None:
    selected = np.array([[True, True], [True, False], [False, False]])
    required = np.array([[True, False], [True, False], [False, False]])
    assert guarantee.losses(selected, required, "exact").tolist() == [1, 0, 0]
    assert guarantee.losses(selected, required, "jaccard").tolist() == [0.5, 0, 0]


def test_what_is_set_aside_is_learnt_by_nothing() -> None:
    rows = examples(600)
    learnt, apart = guarantee.set_aside(rows, 0)
    assert {e.id for e in learnt} | {e.id for e in apart} == {e.id for e in rows}
    assert not {e.fold_key for e in learnt if e.split == "train"} & {e.fold_key for e in apart}
    assert {e.split for e in apart} == {"train"}


@pytest.mark.at_length
@pytest.mark.parametrize(("most_wrong", "warned"), [(0.1, False), (0.001, True)])
def test_a_run_keeps_its_promise_or_says_that_it_cannot(most_wrong: float, warned: bool) -> None:
    config = Config.from_mapping(
        {"recipe": "classifier", "encoder": "linear", "baselines": False, "unlabeled": False, "most_wrong": most_wrong}
    )
    *_rest, last = train(config, AGENTS, examples(600))
    assert last.result is not None
    card = last.result.scorecard
    assert any("No promise" in warning for warning in card["warnings"]) is warned
    assert [row["most_wrong"] for row in card["promises"]] == list(guarantee.SHOWN)
    assert card["guarantee"]["rows"] == 600
    assert (card["guarantee"]["level"] is None) is warned
    served = Router.load(last.result.artifact).calibration.abstain_below
    assert served == (0.0 if warned else pytest.approx(card["guarantee"]["level"]))


@pytest.mark.parametrize("inflation", [1.0, 1.2, 1.4])
@pytest.mark.parametrize("most_wrong", guarantee.SHOWN)
def test_the_fewest_answers_are_enough_if_all_are_right(inflation: float, most_wrong: float) -> None:
    count = ceil(inflation * guarantee.fewest(most_wrong))
    right = held(np.linspace(0.5, 1, count), np.zeros(count), np.ones(count, np.bool_), inflation)
    assert guarantee.promised(right, most_wrong, "exact").kept


def test_what_was_let_through_hands_its_share_on() -> None:
    """A level passes with the shares of two starts together that with either alone would not."""
    rng = np.random.default_rng(3)
    alone = guarantee.DELTA * max(share for _times, _at, share in guarantee.STARTS)
    together = 0
    for _draw in range(200):
        confidence = np.sort(rng.random(400).astype(np.float32))[::-1]
        lost = (rng.random(400) < np.linspace(0.0, 0.16, 400)).astype(np.float64)
        above = confidence >= guarantee.promised(held(confidence, lost), 0.1, "exact").level
        if above.any():
            value = guarantee.p_value(lost[above], 0.1, "exact")
            assert value <= guarantee.DELTA
            together += value > alone
    assert together
