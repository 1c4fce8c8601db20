"""What a scorecard shows on the page of its run and of its model."""

import re
from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from tests.training_app.pages.figures import scorecard
from training_app.models import RouterModel, Run

Make = Callable[..., RouterModel]


def test_a_scorecard_gives_its_verdict_and_escapes_what_people_wrote(done: Run, browser: Client) -> None:
    page = browser.get(reverse("run", args=["support", done.pk])).content.decode()
    assert "Too few answers to judge: 12 checked. Check 38 more." in page
    assert "12 test queries are too few for a ranking" in page
    assert "&lt;b&gt;my parcel&lt;/b&gt;" in page
    assert "Only 3 queries of the train split require Billing" in page
    assert "Show as table" in page


def test_too_few_answers_come_with_the_button_that_gets_more(done: Run, browser: Client) -> None:
    page = browser.get(reverse("run", args=["support", done.pk])).content.decode()
    assert re.search(r'href="/p/support/label/">Label 38 more queries', page)


def test_a_scorecard_shows_who_needs_nobody_abstention_and_what_perturbed_answers_are_worth(
    done: Run, browser: Client
) -> None:
    page = browser.get(reverse("run", args=["support", done.pk])).content.decode()
    for figure in ("62.5", "75.0", "0.964", "14.5", "0.951", "0.972", "11.3", "4.7", "39.1", "0.955", "0.842", "0.876"):
        assert figure in page
    assert "off: abstain_alpha is 0" in page
    assert "Agents too many" in page


def test_a_scorecard_shows_the_llm_that_was_asked_with_what_it_took(make_model: Make, browser: Client) -> None:
    card = scorecard() | {"queries": 120}
    asked = {
        "model": "gpt-<tiny>",
        "queries": 50,
        "unanswered": 2,
        "metrics": card["metrics"],
        "difference": {"jaccard": {"mean": 0.071, "low": 0.031, "high": 0.112}},
        "cost": 0.25,
        "latency_ms": {"p50": 830.0, "p99": 2400.0},
    }
    page = browser.get(reverse("model", args=["support", make_model(card | {"llm": asked}).version])).content.decode()
    assert "gpt-&lt;tiny&gt;" in page
    assert "asked about 50 queries, the lead is over these; 2 without an answer; 0.8 s a call; cost 0.25" in page
    assert "+0.071" in page
    unpriced = asked | {"cost": None, "unanswered": 0}
    page = browser.get(
        reverse("model", args=["support", make_model(card | {"llm": unpriced}).version])
    ).content.decode()
    assert "the lead is over these; 0.8 s a call<" in page


def test_a_scorecard_says_who_goes_to_a_person_at_each_promise_or_what_it_takes(done: Run, browser: Client) -> None:
    plain = {"loss": "exact", "wrong": 0.01, "rows": 200}
    rows = [
        {**plain, "most_wrong": 0.01, "answered": 0.0, "needed": None, "level": None},
        {**plain, "most_wrong": 0.02, "answered": 0.0, "needed": 2_900, "level": None},
        {**plain, "most_wrong": 0.05, "answered": 0.69, "needed": 200, "level": 0.8},
    ]
    measured = RouterModel.objects.get(run=done).measured
    measured.content |= {"promises": rows}
    measured.save()
    page = browser.get(reverse("run", args=["support", done.pk])).content.decode()
    assert "too many of the surest answers are wrong" in page
    assert "it takes about 2,900 labels, 2,700 more" in page
    assert "31 of 100" in page
    address = f"{reverse('run_new', args=['support'])}?from={done.pk}&amp;most_wrong=0.05"
    assert address in page
    form = browser.get(address.replace("&amp;", "&")).content.decode()
    assert re.search(r'name="most_wrong" value="0.05"', form)


def test_a_scorecard_of_a_pool_without_such_queries_says_what_to_do(make_model: Make, browser: Client) -> None:
    card = scorecard() | {"empty": {"precision": None, "recall": None}, "abstention": {"level": 0.0}}
    make_model(card)
    page = browser.get(reverse("model", args=["support", 1])).content.decode()
    assert "Label some with “none of these”" in page
    assert "Not measured: the next run will." in page


@pytest.mark.parametrize(
    ("low", "high", "begins"),
    [(0.01, 0.03, "Better"), (-0.03, -0.01, "Worse"), (-0.01, 0.03, "No worse than"), (-0.05, 0.03, "May be worse")],
)
def test_the_verdict_follows_the_paired_interval(make_model: Make, low: float, high: float, begins: str) -> None:
    from training_app.versions import scorecards

    said = scorecards.verdict(make_model(scorecard(low, high) | {"queries": 120}))
    assert said.startswith(begins)
    assert (f"−{-low:.3f} to" in said) == (low < 0)


def test_a_model_without_a_scorecard_is_shown_all_the_same(make_model: Make, browser: Client) -> None:
    make_model({})
    assert "without a scorecard" in browser.get(reverse("model", args=["support", 1])).content.decode()
    assert browser.get(reverse("models", args=["support"])).status_code == 200
