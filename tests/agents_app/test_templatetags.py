"""What pages draw over and over."""

from datetime import UTC, datetime, timedelta

import pytest
from django.template import Context, Template
from django.test import RequestFactory
from django.utils import timezone

from agents_app.models import Agent
from agents_app.templatetags import routerweb as tags
from training_app.engine.data import examples as data


def draw(text: str, **context: object) -> str:
    request = RequestFactory().get("/list/", {"q": "a b", "page": "2"})
    return Template("{% load routerweb %}" + text).render(Context({"request": request, **context}))


def test_an_agent_is_a_code_a_hue_and_a_name() -> None:
    ours = Agent(number=2, code="SH", name="Ship <ping>")
    engine = data.Agent(2, "Ship <ping>", code="SH")
    for agent in (ours, engine):
        assert (
            tags.agent_chip(agent)
            == f'<span class="rw-agent" style="--hue: {ours.hue}"><b>SH</b>Ship &lt;ping&gt;</span>'
        )
        assert 'title="Ship &lt;ping&gt;">SH</abbr>' in tags.agent_chip(agent, code_only=True)
    assert "rw-agent-retired" in tags.agent_chip(Agent(number=2, code="SH", name="S", state="retired"))


def test_a_text_is_cut_only_where_it_is_longer() -> None:
    assert [draw("{{ words|shortened:5 }}", words=words) for words in ("abc", "abcde", "abcdef", "<b>")] == [
        "abc", "abcde", "abcd…", "&lt;b&gt;",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("delta", "words"),
    [
        (timedelta(seconds=5), "just now"),
        (timedelta(seconds=-5), "in a moment"),
        (timedelta(minutes=3, seconds=2), "3\xa0minutes ago"),
        (timedelta(days=3, hours=1), "3\xa0days ago"),
        (timedelta(hours=-2, minutes=-1), "in 2\xa0hours"),
    ],
)
def test_a_time_is_relative_with_the_exact_one_on_hover(delta: timedelta, words: str) -> None:
    when = timezone.now() - delta
    shown = tags.ago(when)
    assert f">{words}</time>" in shown
    assert f'datetime="{when.astimezone(UTC).isoformat(timespec="seconds")}"' in shown
    assert str(when.year) in shown.split('title="')[1]


def test_an_account_breaks_behind_its_at_and_is_escaped() -> None:
    assert tags.account("ana@shop.example") == "ana@<wbr>shop.example"
    assert tags.account("<ana>") == "&lt;ana&gt;"


def test_what_is_not_there_is_a_dash() -> None:
    assert [tags.ago(None), tags.percent(None), tags.number(None), tags.figure(float("nan")), tags.state("")] == [
        "–"
    ] * 5


def test_figures() -> None:
    assert tags.percent(0.9134, 1) == "91.3\u202f%"
    assert tags.number(1234567) == "1,234,567"
    assert tags.figure(0.91342) == "0.913"


def test_below_zero_is_a_minus_not_a_hyphen() -> None:
    assert tags.percent(-0.5) == "−50\u202f%"
    assert (tags.number(-1234), tags.figure(-0.25), tags.amount(-1.5)) == ("−1,234", "−0.250", "−1.5")


def test_a_state_has_its_one_word() -> None:
    assert tags.state("running") == '<span class="rw-state rw-state-running">Running</span>'
    assert "&lt;b&gt;" in tags.state("<b>")


def test_every_state_of_a_model_has_a_word() -> None:
    from datasets_app.models import Import, Query
    from training_app.models import RouterModel, Run

    for choices in (Query.State, Import.Status, Run.Status, RouterModel.State, Agent.State):
        assert set(choices.values) <= set(tags.STATES)


@pytest.mark.parametrize(("done", "total", "value"), [(3, 10, "30.0"), (0, 0, "0.0"), (12, 10, "100.0")])
def test_progress(done: int, total: int, value: str) -> None:
    assert f'max="100" value="{value}"' in tags.progress_bar(done, total)


def test_a_bar_draws_its_interval() -> None:
    shown = tags.share_bar(0.5, 0.4, 0.7)
    assert 'title="0.500 (0.400 to 0.700)"' in shown
    assert 'style="left: 40.00%; width: 30.00%"' in shown
    assert 'title="50 of 100 (40 to 70)"' in tags.share_bar(0.5, 0.4, 0.7, digits=0)


def test_pages_keep_the_rest_of_the_address() -> None:
    from django.core.paginator import Paginator

    shown = draw("{% pagination rows %}", rows=Paginator(range(95), 10).page(2))
    assert 'href="?q=a+b&amp;page=1"' in shown
    assert 'href="?q=a+b&amp;page=3"' in shown
    assert "11 to 20 of 95" in shown
    assert draw("{% pagination rows %}", rows=Paginator(range(5), 10).page(1)).strip() == ""


def test_a_head_sorts_and_turns_round() -> None:
    assert '<th scope="col"><a href="?q=a+b&amp;sort=name">' in draw('{% sort_link "name" "Name" %}')
    shown = draw('{% sort_link "name" "Name" "name" %}')
    assert 'aria-sort="ascending"' in shown
    assert "sort=-name" in shown
    assert '<th scope="col" class="rw-number"><a' in draw('{% sort_link "cost" "Cost" number=True %}')


def test_a_chart_has_its_table_and_harmless_json() -> None:
    content = {"type": "line", "x": "step", "labels": [1, 2], "datasets": [{"label": "</script>", "data": [0.5, None]}]}
    shown = draw('{% chart "curve" content "Loss" %}', content=content)
    assert shown.count("</script>") == 1
    assert '<th scope="col">step</th>' in shown
    assert '<th scope="col"></th>' not in draw('{% chart "c" content %}', content={**content, "x": ""})
    assert '<canvas data-rw-chart="curve"' in shown
    assert '<td class="rw-number">0.5000</td>' in shown
    assert '<td class="rw-number">–</td>' in shown
    points = {"x": "cost", "y": "quality", "datasets": [{"label": "ours", "data": [{"x": 1.5, "y": 2}]}]}
    assert '<th scope="row">ours</th><td class="rw-number">1.5000</td>' in draw(
        '{% chart "p" content %}', content=points
    )


def test_a_time_in_another_zone_is_the_same_moment(settings: object) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"  # type: ignore[attr-defined]
    assert "Jan. 2, 2026" in tags.ago(datetime(2026, 1, 1, 20, 0, tzinfo=UTC))


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1.5, "1.5"),
        (0, "0"),
        (2.0, "2"),
        (0.00012, "0.00012"),
        (0.000025, "0.000025"),
        (-0.0009996, "−0.001"),
        (0.01234, "0.0123"),
        (1234.25, "1,234.25"),
        (1e-9, "0"),
        (None, "–"),
        (float("inf"), "–"),
    ],
)
def test_an_amount_has_no_zeros_at_its_end(value: float | None, shown: str) -> None:
    assert tags.amount(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0, "0.00"), (0.00042, "0.00042"), (0.012345, "0.012"), (3.14159, "3.14"), (1234.5, "1,234.50"), (0.5, "0.50")],
)
def test_a_cost_has_two_digits_that_say_something(value: float, shown: str) -> None:
    assert tags.money(value, "USD") == f"USD\u00a0{shown}"


def test_the_table_behind_a_chart_of_points_names_its_first_column_only_where_it_is_the_axis() -> None:
    points = {
        "type": "scatter",
        "datasets": [{"label": "ours", "data": [{"x": 1, "y": 0.5}]}],
        "x": "agents",
        "y": "recall",
    }
    lines = {"type": "line", "labels": [1], "datasets": [{"label": "ours", "data": [0.5]}], "x": "step"}
    assert [(tags.chart("id", content)["x"], tags.chart("id", content)["columns"]) for content in (points, lines)] == [
        ("", ["agents", "recall"]),
        ("step", ["ours"]),
    ]
