"""What a reader turns on a scorecard's page: the rival, the page of errors; confusion between agents and the operating points."""

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse

from datasets_app.models import Label
from tests.training_app.words import PERFECT, WEAK, card, interval
from training_app.models import RouterModel
from training_app.pages.versions import mistakes, scorecard_tables
from training_app.versions import comparisons, kinds, registry

Make = Callable[..., RouterModel]
ROSTER = {0: "Billing", 1: "Shipping", 2: "Technical"}


def lead(low: float) -> dict:
    return {
        "by_size": {"1": {"queries": 9, "difference": interval(low, low + 0.1)}},
        "by_agent": [{"id": 0, "ours": 0.9, "theirs": 0.8, "difference": interval(low + 0.2, low + 0.3)}],
    }


def full(**more: object) -> dict:
    """A scorecard with all parts; the SVM and the constant set have leads of their own."""
    found = card()
    for name, low, agents in (("svm", 0.01, 1.5), ("constant", 0.5, 2.0)):
        found["baselines"][name] |= {**lead(low), "point": {"agents": agents, "recall": 0.7, "jaccard": 0.6}}
    point = {"agents": 1.25, "recall": 0.9, "jaccard": 0.8}
    return {
        **found,
        "by_size": {"1": {"queries": 9, **found["metrics"]}},
        "by_agent": [
            {"id": 0, "name": "Billing", "support": 3, "selected": 3, "precision": 1.0, "recall": 1.0, "f1": 1.0}
        ],
        "operating_points": {"queries": 18, "chosen": point, "curve": [{**point, "margin": 0.0}]},
        "confusion": {
            "pairs": [[0, 1, 4], [1, 0, 1]],
            "missed": {"0": 5, "1": 1, "2": 1},
            "missed_alone": {"0": 1, "2": 1},
            "in_vain": {"1": 6, "0": 1},
            "in_vain_alone": {"1": 2},
        },
        "error_count": 60,
        "errors": [
            {"text": f"wrong {number}", "required": [0], "selected": [1], "nearest": []} for number in range(60)
        ],
        **more,
    }


@pytest.fixture
def path(word_model: Make) -> str:
    return reverse("model", args=["support", word_model(PERFECT, full()).version])


# ---------------------------------------------------------------------------------------------------- beside another router


def test_the_leads_are_over_the_rival_that_the_address_names(path: str, browser: Client) -> None:
    context = browser.get(path).context
    assert (context["against"], context["by_size"][0][2]["low"]) == ("svm", 0.01)
    assert context["by_agent"][0]["lead"]["low"] == pytest.approx(0.21)
    context = browser.get(path, {"against": "constant"}).context
    assert (context["against"], context["by_size"][0][2]["low"]) == ("constant", 0.5)
    assert browser.get(path, {"against": "nobody"}).context["against"] == "svm"


def test_the_active_model_stands_on_the_board_and_is_the_first_rival(word_model: Make, browser: Client) -> None:
    registry.promote(word_model(WEAK), actor=None)
    model = word_model(PERFECT, full())
    answer = browser.get(reverse("model", args=["support", model.version]))
    assert answer.context["against"] == "active"
    assert next(iter(answer.context["rivals"].values())) == "the active model, support-1"
    row = next(row for row in answer.context["leaderboard"] if row.get("active"))
    assert (row["name"], row["jaccard"]["mean"]) == ("support-1", pytest.approx(7 / 9))
    assert row["lead"]["mean"] == pytest.approx(2 / 9)
    # It misses every agent of crashes: half of the sets of one and two agents that hold it.
    figures = comparisons.between(model, registry.active(model.pool)).figures
    assert answer.context["by_size"][0][2] == figures["by_size"]["1"]["difference"]
    assert [row["id"] for row in figures["by_agent"]] == [0, 1, 2]
    assert [row["difference"]["mean"] for row in figures["by_agent"]] == [0.0, 0.0, 1.0]
    assert row["set_size"]["mean"] < 1


def test_a_scorecard_of_an_earlier_version_has_no_leads(word_model: Make, browser: Client) -> None:
    old = full(confusion=None, operating_points={})
    for found in old["baselines"].values():
        del found["by_size"], found["by_agent"], found["point"]
    model = word_model(PERFECT, old)
    answer = browser.get(reverse("model", args=["support", model.version]))
    assert answer.status_code == 200
    assert [answer.context[name] for name in ("confusion", "operating")] == [None, None]
    assert answer.context["by_size"][0][2] is None


def test_a_comparison_of_an_earlier_version_has_no_leads(word_model: Make, browser: Client) -> None:
    registry.promote(word_model(WEAK), actor=None)
    model = word_model(PERFECT, full())
    compared = comparisons.between(model, registry.active(model.pool))
    for name in ("by_size", "by_agent", "set_size"):
        del compared.figures[name]
    compared.save()
    answer = browser.get(reverse("model", args=["support", model.version]))
    assert answer.status_code == 200
    assert answer.context["by_size"][0][2] is None


# ---------------------------------------------------------------------------------------------------- confusion, operating points


def test_the_heat_is_of_the_pairs(path: str, browser: Client) -> None:
    answer = browser.get(path)
    found = answer.context["confusion"]
    assert [agent.name for agent in found["columns"]] == ["Shipping", "Billing", "Technical"]
    names = [agent.name if agent else "" for agent, _cells in found["rows"]]
    assert names == ["Shipping", "Billing", "Technical", ""]
    cells = [[cell["count"] for cell in cells] for _agent, cells in found["rows"]]
    assert cells == [[0, 1, 0, 0], [4, 0, 0, 1], [0, 0, 0, 1], [2, 0, 0]]
    heats = [[cell["heat"] for cell in cells] for _agent, cells in found["rows"]]
    assert heats == [[0, 1, 0, 0], [4, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0]]
    assert "run-heat-4" in answer.content.decode()


def test_a_large_pool_shows_the_agents_with_most_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scorecard_tables, "CONFUSED", 2)
    found = scorecard_tables.confusion(full(), {})
    assert found
    assert ([agent.id for agent in found["columns"]], found["left_out"]) == ([1, 0], 1)


def test_without_an_error_there_is_no_confusion() -> None:
    nothing = {"pairs": [], "missed": {}, "missed_alone": {}, "in_vain": {}, "in_vain_alone": {}}
    assert scorecard_tables.confusion({"confusion": nothing}, {}) is None


def test_the_operating_points_hold_curve_choice_and_baselines(path: str, browser: Client) -> None:
    found = browser.get(path).context["operating"]
    points = {one["label"]: one["data"] for one in found["datasets"]}
    assert points["this model as it answers"] == [{"x": 1.25, "y": 0.9}]
    assert points["linear SVM"] == [{"x": 1.5, "y": 0.7}]
    assert len(points) == 4
    assert len({one.get("pointStyle") for one in found["datasets"]}) == 4  # by their shape, not by colour alone
    nobody = full()
    nobody["operating_points"]["chosen"]["recall"] = None
    assert scorecard_tables.operating(nobody, kinds.of("set_router")) is None


# ---------------------------------------------------------------------------------------------------- errors


def test_every_error_is_on_some_page_and_can_be_sent_to_labeling(path: str, browser: Client) -> None:
    seen = []
    for number in (1, 2, 3):
        answer = browser.get(path, {"errors": number, "against": "svm"})
        seen += [mistake.place for mistake in answer.context["mistakes"].rows]
    assert sorted(seen) == list(range(60))
    assert f'name="error" value="{seen[-1]}"' in answer.content.decode()
    assert "errors=2&amp;against=svm" in answer.content.decode()


def test_a_long_mail_among_the_mistakes_is_cut_until_it_is_opened(word_model: Make, browser: Client) -> None:
    mail = "the bin was not emptied and " * 60 + "that is all"
    wrong = [{"text": text, "required": [0], "selected": [1], "nearest": []} for text in (mail, "short")]
    made = word_model(PERFECT, full(errors=wrong, error_count=2))
    page = browser.get(reverse("model", args=["support", made.version])).text
    assert page.count('<details class="run-long">') == 1
    assert f"<p>{mail}</p>" in page
    assert "2 out of" in page
    assert "worst of" not in page, "all of them are shown"
    assert "test queries" in page


def test_mistakes_of_cross_validation_are_counted_among_all_labeled_queries(word_model: Make, browser: Client) -> None:
    wrong = [{"text": "short", "required": [0], "selected": [1], "nearest": []}]
    folded = {"folds": 5, "queries": 140, "metrics": full()["metrics"], "baselines": {}, "answers": {}}
    made = word_model(PERFECT, full(errors=wrong, error_count=1, cross_validated=folded))
    page = browser.get(reverse("model", args=["support", made.version])).text
    mistakes = page[page.index('id="errors-title"') :]
    mistakes = mistakes[: mistakes.index("<table")]
    assert "out of 140 labeled queries" in mistakes
    assert "had not learned from it" in mistakes
    assert "test queries" not in mistakes


def test_mistakes_are_grouped_by_the_pair_that_is_confused(path: str, browser: Client) -> None:
    found = browser.get(path).context["mistakes"]
    counts = [pair.count for pair in found.pairs]
    assert counts == sorted(counts, reverse=True)
    first = found.pairs[0]
    assert [mistake.pair for mistake in found.rows[: first.count]] == [first] * min(first.count, len(found.rows))
    alone = browser.get(path, {"pair": first.key})
    assert {mistake.pair for mistake in alone.context["mistakes"].rows} == {first}
    assert alone.context["tab"] == "mistakes"


@pytest.mark.parametrize(
    ("required", "selected", "pair"),
    [
        ([1], [0], (1, 0)),
        ([0, 1], [0], (1, None)),
        ([0], [0, 2], (None, 2)),
        ([1, 2], [0], (1, 0)),
        ([], [2], (None, 2)),
    ],
)
def test_a_pair_is_what_was_missed_and_what_came_instead(required: list, selected: list, pair: tuple) -> None:
    assert mistakes.pair_of({"required": required, "selected": selected}) == pair


def test_a_label_is_corrected_where_the_mistake_is_seen(path: str, browser: Client) -> None:
    mistake = next(one for one in browser.get(path).context["mistakes"].rows if one.form)
    browser.post(
        reverse("correct", args=["support"]),
        {"text": mistake.form.text, "at": "run", "right": mistake.form.listed_right},
    )
    label = Label.objects.latest("pk")
    assert label.required == sorted(mistake.form.right)
    assert label.provenance["seen_at"] == "run"


@pytest.mark.parametrize(("high", "refused"), [(-0.1, True), (0.2, False)])
def test_the_first_model_stands_beside_the_agents_descriptions(
    word_model: Make, browser: Client, high: float, refused: bool
) -> None:
    shares = {"metrics": {"exact": {"mean": 0.57}}, "ours": {"exact": {"mean": 0.49}}}
    row = {"queries": 80, **shares, "difference": {"exact": {"mean": -0.3, "low": -0.5, "high": high}}}
    model = word_model(PERFECT, full(descriptions=row))
    text = " ".join(browser.get(reverse("model", args=["support", model.version])).content.decode().split())
    assert "without a model, are right in 57 of 100, this model in 49, on the same 80 queries." in text
    assert ("The gate does not let it through without a reason." in text) == refused
    assert ("Keyword rules do as well" in text) is False
    assert "57 of 100, this model in 49" in browser.get(reverse("pool_home", args=["support"])).content.decode()
