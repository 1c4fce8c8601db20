"""A scorecard in plain words: so many of 100, beside the best simple rule; and a first model that rules by keywords match."""

from typing import Any

import pytest

from training_app.models import Card
from training_app.versions import plain_words, scorecards


class Stub:
    """What `of` reads of a model."""

    kind = "set_router"

    def __init__(self, content: dict[str, Any]) -> None:
        self.card = Card.of(content)


def interval(mean: float) -> dict[str, float]:
    return {"mean": mean, "low": mean - 0.05, "high": mean + 0.05}


def beside(exact: float, jaccard: float = 0.5) -> dict[str, Any]:
    return {"metrics": {"exact": interval(exact), "jaccard": interval(jaccard)}, "difference": {"exact": interval(0.1)}}


def card(**more: Any) -> dict[str, Any]:
    return {
        "metrics": {"jaccard": interval(0.85), "exact": interval(0.78), "success": interval(0.88)},
        "baselines": {"keyword": beside(0.60), "svm": beside(0.76), "threshold": beside(0.90)},
        "best_baseline": "threshold",
        "queries": 50,
        "measured_on": "test",
        "errors": [
            {"text": "a", "required": [1], "selected": [2]},
            {"text": "b", "required": [1, 2], "selected": []},
            {"text": "c", "required": [1, 2], "selected": [1]},
            {"text": "d", "required": [], "selected": [1]},
        ],
        "error_count": 4,
        **more,
    }


def test_of_100_queries() -> None:
    plain = plain_words.of(Stub(card()))  # type: ignore[arg-type]
    assert plain is not None
    assert (plain.exact, plain.covered, plain.missed) == (78, 88, 4)
    assert plain.sentence() == (
        "Of 100 queries: 78 exactly right, 88 with every needed agent, 4 with none of them. "
        "2 of 100 more are exactly right than by the best simple rule, linear SVM."
    ), "its own scores are no simple rule"


def test_what_the_list_of_errors_does_not_show_is_not_said() -> None:
    errors = [{"text": "a", "required": [1], "selected": [2]}]
    plain = plain_words.of(Stub(card(errors=errors, error_count=9)))  # type: ignore[arg-type]
    assert plain is not None
    assert plain.missed is None
    assert "none of them" not in plain.sentence()


@pytest.mark.parametrize(
    ("svm", "words"), [(0.78, "as many exactly right as by"), (0.79, "1 of 100 fewer is"), (0.77, "1 of 100 more is")]
)
def test_beside_the_simple_rule(svm: float, words: str) -> None:
    plain = plain_words.of(Stub(card(baselines={"svm": beside(svm)})))  # type: ignore[arg-type]
    assert plain is not None
    assert words in plain.beside()


def test_figures_of_another_kind_have_no_plain_words() -> None:
    assert plain_words.of(Stub({"metrics": {"reward": interval(0.3)}})) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("keyword", "hollow"), [(0.80, False), (0.85, True), (0.90, True)])
def test_a_model_that_keyword_rules_match_has_learnt_nothing(keyword: float, hollow: bool) -> None:
    found = card(baselines={"keyword": beside(0.5, jaccard=keyword)})
    assert plain_words.no_better_than_keywords(Stub(found)) is hollow  # type: ignore[arg-type]


def test_where_both_are_perfect_nothing_speaks_against_it() -> None:
    found = card(metrics={"jaccard": interval(1.0)}, baselines={"keyword": beside(1.0, jaccard=1.0)})
    assert not plain_words.no_better_than_keywords(Stub(found))  # type: ignore[arg-type]


def test_a_number_in_a_sentence_has_a_true_minus_and_zero_has_none() -> None:
    assert scorecards.minus("it is -0.000 (-0.021 to 0.016)") == "it is 0.000 (−0.021 to 0.016)"
    assert scorecards.minus("it is -0.0004, of up-to-date rows") == "it is −0.0004, of up-to-date rows"
