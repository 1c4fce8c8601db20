"""The one verdict: so many of 100 with the range, beside the model in use; and a first model that rules by keywords match."""

from typing import Any

import pytest
from django.utils import translation

from training_app.engine.data import shares
from training_app.models import Card, Interval
from training_app.versions import scorecards, verdict


@pytest.fixture(autouse=True)
def measured_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other model was measured on the same queries."""
    monkeypatch.setattr("training_app.versions.headlines.standing_of", lambda model: None)


class Stub:
    """What `of` reads of a model."""

    kind, state = "set_router", "active"

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


def of(
    content: dict[str, Any], beside: verdict.Beside | None = None, monkeypatch: pytest.MonkeyPatch | None = None
) -> verdict.Verdict:
    if monkeypatch is not None:
        monkeypatch.setattr(verdict, "_beside", lambda model, card, standing: beside)
    found = verdict.of(Stub(content))  # type: ignore[arg-type]
    assert found is not None
    return found


def lead(mean: float, low: float, high: float, queries: int = 212, now: float = 0.79) -> verdict.Beside:
    def around(value: float) -> Interval:
        return Interval(value, value - 0.05, value + 0.05, value - 0.05)

    return verdict.Beside("support-6", queries, around(now + mean), around(now), Interval(mean, low, high, low))


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict, "_beside", lambda model, card, standing: None)


class TestVerdict:
    def test_one_sentence_with_the_number_of_queries_and_the_range(self) -> None:
        assert of(card(queries=212)).sentence() == (
            "About 78 of 100 queries exactly right (73 to 83). Measured on 212 queries that it was not trained on."
        )

    def test_a_hundred_is_said_only_of_all(self) -> None:
        some = Card.of(card(queries=523, metrics={"exact": shares.wilson(521, 523)}))
        found = verdict.Verdict(523, 0, some.figures["exact"])
        assert found.sentence().startswith("About 99 of 100 queries exactly right (99 to 100).")
        assert (found.short(), found.plain()["right_of_100"]) == ("99 (99 to 100)", 99)
        every = verdict.Verdict(523, 0, Interval.of(shares.wilson(523, 523)))
        assert every.share() == "About 100 of 100 queries exactly right (99 to 100)."

    @pytest.mark.parametrize(("queries", "near", "said"), [(212, 106, True), (212, 105, False), (49, 49, False)])
    def test_it_says_where_most_queries_are_like_training_queries(self, queries: int, near: int, said: bool) -> None:
        alike = {"queries": queries, "near": near}
        found = of(card(queries=queries, alike=alike))
        sentence = (
            "About 50 of 100 checked queries say almost the same as one that it was trained on. So it may be right less often where "
            "users say things in other words: check 30 answers of real traffic."
        )
        assert (sentence in found.sentence(), found.alike) == (said, sentence if said else "")

    def test_below_fifty_queries_there_is_no_figure(self) -> None:
        found = of(card(queries=14))
        assert found.sentence() == "Too few answers to judge: 14 checked. Check 36 more."
        assert found.plain() == {
            "sentence": found.sentence(),
            "queries": 14,
            "right_of_100": None,
            "low": None,
            "high": None,
        }
        assert found.short() == "too few to say; check 36 more"
        assert of(card(queries=50)).enough

    def test_folds_count_all_labels_and_never_the_handful_of_test_queries(self) -> None:
        folded = {"queries": 60, "folds": 5, "metrics": {"exact": interval(0.53)}, "baselines": {}}
        found = of(card(queries=6, cross_validated=folded))
        assert found.sentence() == (
            "About 53 of 100 queries exactly right (48 to 58). "
            "Measured on all 60 labeled queries, each by a router that was not trained on it."
        )

    @pytest.mark.parametrize(
        ("beside", "words"),
        [
            (
                lead(0.07, 0.02, 0.12),
                "The model in use, support-6: 79 (74 to 84) on the same queries. This model is better.",
            ),
            (lead(-0.07, -0.12, -0.02), "This model is worse."),
            (lead(0.0, 0.0, 0.0), "answers the same queries right."),
            (lead(0.02, -0.01, 0.05), "Too close to tell. About 265 more checked answers would."),
            (lead(0.001, -0.04, 0.05), "on the same queries. Too close to tell."),
            (lead(0.3, 0.1, 0.5, queries=14), "can be compared on 14 queries: too few to say which is better."),
            (
                lead(0.07, 0.02, 0.12, queries=80),
                "on 80 queries that neither was trained on, where this model has 86. This model is better.",
            ),
        ],
    )
    def test_beside_the_model_in_use(self, monkeypatch: pytest.MonkeyPatch, beside: verdict.Beside, words: str) -> None:
        assert of(card(queries=212), beside, monkeypatch).sentence().endswith(words)

    def test_nothing_is_better_where_too_few_were_checked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        found = of(card(queries=14), lead(0.3, 0.1, 0.5), monkeypatch)
        assert "better" not in found.sentence()
        assert found.conclusion() == ""

    def test_another_kind_has_no_such_verdict(self) -> None:
        assert verdict.of(Stub({"metrics": {"reward": interval(0.3)}})) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(("keyword", "hollow"), [(0.80, False), (0.85, True), (0.90, True)])
def test_a_model_that_keyword_rules_match_has_learnt_nothing(keyword: float, hollow: bool) -> None:
    found = card(baselines={"keyword": beside(0.5, jaccard=keyword)})
    assert verdict.no_better_than_keywords(Stub(found)) is hollow  # type: ignore[arg-type]


def test_where_both_are_perfect_nothing_speaks_against_it() -> None:
    found = card(metrics={"jaccard": interval(1.0)}, baselines={"keyword": beside(1.0, jaccard=1.0)})
    assert not verdict.no_better_than_keywords(Stub(found))  # type: ignore[arg-type]


def test_a_number_in_a_sentence_has_a_true_minus_and_zero_has_none() -> None:
    assert scorecards.as_in_tables("it is -0.000 (-0.021 to 0.016)") == "it is 0.000 (−0.021 to 0.016)"
    with translation.override("de"):
        assert (
            scorecards.as_in_tables("um -0.500 (-0.521 bis 1.016), gpt-4.1") == "um −0,500 (−0,521 bis 1,016), gpt-4.1"
        )
    assert scorecards.as_in_tables("it is -0.0004, of up-to-date rows") == "it is −0.0004, of up-to-date rows"


def test_the_languages_of_the_checked_queries_are_named() -> None:
    told = Card.of({"spoken": {"queries": 200, "languages": {"en": 150, "de": 40, "sv": 2, "fr": 1}}})
    assert (
        scorecards.spoken(told) == "Tested in: English (75 %), German (20 %), Swedish (1 %), too short to tell (4 %)."
    )
    with translation.override("de"):
        assert (
            scorecards.spoken(told)
            == "Geprüft in: Englisch (75 %), Deutsch (20 %), Schwedisch (1 %), zu kurz, um sie zu erkennen (4 %)."
        )
    for unknown in ({}, {"spoken": {"queries": 3, "languages": {}}}):
        assert scorecards.spoken(Card.of(unknown)) == ""
