"""The pages: executors, an episode as a timeline, many as a graph."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from agents_app.models import Pool
from orchestration_app.episodes import runner
from orchestration_app.models import Episode, Executor, Step
from tests.orchestration_app.crew import Served
from tests.training_app.served import ScriptedRouter, promoted

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.commits_for_others]


@pytest.fixture
def begun(crew: Pool, conducted: Callable[..., Any], executor: Callable[..., Any], browser: Client) -> Episode:
    """An episode of two steps, begun on its page."""
    conducted(0, 1)
    executor(0, script={"do": "say", "text": "It is about <b>billing</b>."})
    executor(1, script={"do": "echo"})
    answer = browser.post("/p/crew/episodes/new/", {"task": "I was charged twice", "budget": "1"})
    return Episode.objects.get(pk=answer.url.rstrip("/").split("/")[-1])


def test_a_timeline_shows_who_was_chosen_why_and_what_came_back(begun: Episode, browser: Client) -> None:
    page = browser.get(f"/p/crew/episodes/{begun.pk}/").content.decode()
    assert "It is about &lt;b&gt;billing&lt;/b&gt;." in page
    assert page.index("Triage") < page.index("Billing")
    assert "What spoke for it" in page
    assert "of the budget of 1 USD" in page
    assert "every 1s" not in page


def test_home_says_what_calls_cost(begun: Episode, browser: Client) -> None:
    Episode.objects.filter(pk=begun.pk).update(cost=0.042)
    Episode.objects.create(pool=begun.pool, task="long ago", cost=7.0)
    Episode.objects.exclude(pk=begun.pk).update(created_at=timezone.now() - timedelta(days=31))
    home = browser.get("/").content.decode()
    assert "Calls of agents in 1 episode cost USD\xa00.042." in home
    assert "The last answer: Triage, Billing." in home
    assert f"/p/crew/episodes/{begun.pk}/" in home


def test_agents_of_a_set_have_no_probability_of_their_own(
    crew: Pool, executor: Callable[..., Any], browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training_app.engine.routing.router.Router", ScriptedRouter)
    promoted(crew, (0, "Triage"), (1, "Billing"), (2, "Checker"))
    for number in range(3):
        executor(number, script={"do": "echo"})
    answer = browser.post("/p/crew/episodes/new/", {"task": "triage and billing"})
    page = browser.get(answer.url).content.decode()
    assert page.count("Called at the same time as others") == 2
    assert "What the policy gave this choice" not in page.partition("Stop</b>")[0]
    assert "0.0 %" not in page.partition("Stop</b>")[0]


def test_an_episode_without_an_answer_names_who_failed_and_why_once(
    crew: Pool, conducted: Callable[..., Any], executor: Callable[..., Any], browser: Client
) -> None:
    conducted(0, 1)
    executor(0, script={"do": "say", "fails": "it is down"})
    executor(1, script={"do": "echo"}, approval="always")
    answer = browser.post("/p/crew/episodes/new/", {"task": "I was charged twice"})
    browser.post(f"{answer.url}reply/", {"call": 1, "approve": "0"})
    runner.go_on_here(Episode.objects.get())
    page = browser.get(answer.url).content.decode()
    lacks = page[page.index("There is no answer.") : page.index("</div>", page.index("There is no answer."))]
    assert "Triage: Who was called failed. It is down" in lacks
    assert lacks.count("A person did not approve the call.") == 1
    assert "failed:" not in page


def test_who_begins_an_episode_reads_first_what_keeps_it_from_beginning(
    crew: Pool, executor: Callable[..., Any], browser: Client
) -> None:
    new, settings_page = "/p/crew/episodes/new/", 'href="/p/crew/settings/executors/"'
    assert settings_page not in browser.get(new).content.decode()  # nobody has checked the pool
    refused = browser.post(new, {"task": "I was charged twice"}).content.decode()
    assert "can be called" in refused
    assert settings_page in refused
    executor(0, script={"do": "echo"})
    browser.post("/p/crew/settings/executors/check/")
    for page in (browser.get(new), browser.post(new, {"task": "I was charged twice"})):
        shown = page.content.decode()
        assert "Billing: Nobody has said how it is called." in shown
        assert settings_page in shown
        assert "(/p/crew" not in shown


def test_a_pool_whose_answers_nobody_writes_yet_is_told_so(crew: Pool, browser: Client, settings: Any) -> None:
    settings.LLM_BASE_URL = settings.LLM_MODEL = ""
    saved = browser.post("/p/crew/settings/executors/answers/", {"rule": "composer", "composer": ""}, follow=True)
    page = saved.content.decode()
    assert "Until you choose an agent or connect a language model" in page
    assert "The language model of this site" not in page


def test_the_list_shows_an_answer_of_several_parts_without_marks(begun: Episode, browser: Client) -> None:
    shown = browser.get("/p/crew/episodes/").content.decode()
    assert "Triage: It is about &lt;b&gt;billing&lt;/b&gt;. · Billing: I was charged twice" in shown
    assert "##" not in shown
    assert "Nobody else was to be called" in shown


def test_a_running_episode_is_drawn_anew_and_can_be_cancelled(begun: Episode, browser: Client) -> None:
    Episode.objects.filter(pk=begun.pk).update(status="running")
    assert 'hx-trigger="every 1s"' in browser.get(f"/p/crew/episodes/{begun.pk}/").content.decode()
    browser.post(f"/p/crew/episodes/{begun.pk}/cancel/")
    begun.refresh_from_db()
    assert (begun.status, begun.stop_reason) == ("cancelled", "cancelled")


def test_a_person_says_how_well_it_did(begun: Episode, browser: Client) -> None:
    browser.post(f"/p/crew/episodes/{begun.pk}/judge/", {"success": "1", "rating": "0.5", "comment": "slow"})
    begun.refresh_from_db()
    assert (begun.success, begun.rating, begun.comment, begun.judge) == (True, 0.5, "slow", "person")


def test_many_are_a_graph_and_an_export(begun: Episode, browser: Client) -> None:
    page = browser.get("/p/crew/episodes/graph/").content.decode()
    assert "TR → BI: 1" in page
    assert "<circle" in page
    lines = b"".join(browser.get("/p/crew/episodes/?format=jsonl").streaming_content).decode()
    assert '"agent": 0' in lines
    assert "No episode matches" in browser.get("/p/crew/episodes/?q=nothing").content.decode()


def test_who_follows_itself_or_another_both_ways_is_a_cycle(begun: Episode, browser: Client) -> None:
    Step.objects.filter(episode=begun, agent=None).delete()
    for turn in (2, 3):
        again = Step.objects.get(episode=begun, number=0)
        again.pk, again.turn, again.number = None, turn, turn
        again.save()
    page = browser.get("/p/crew/episodes/graph/").content.decode()
    cycles = page[page.index("Cycles:") : page.index("Show as table")]
    assert re.findall(r">(\w\w)</abbr></span> to itself (\d)<", cycles) == [("TR", "1")]
    assert cycles.count("⇄") == 1


def test_utilisation_is_drawn_from_the_second_day_on(begun: Episode, browser: Client) -> None:
    graph = "/p/crew/episodes/graph/"
    assert "are drawn from the second day on" in browser.get(graph).content.decode()
    browser.post("/p/crew/episodes/new/", {"task": "again", "max_steps": "1"})
    Episode.objects.filter(pk=begun.pk).update(created_at=timezone.now() - timedelta(days=1))
    answer = browser.get(graph)
    assert "Utilisation over time" in answer.content.decode()
    drawn = {line["label"]: line["data"] for line in answer.context["uses_chart"]["datasets"]}
    assert drawn == {"Triage": [0.5, 1.0], "Billing": [0.5, 0.0]}


def test_episodes_are_in_the_sidebar_only_where_agents_are_called(
    crew: Pool, executor: Callable[..., Any], browser: Client
) -> None:
    link = 'href="/p/crew/episodes/"'
    assert link not in browser.get("/p/crew/agents/").content.decode()
    executor(0)
    assert link in browser.get("/p/crew/agents/").content.decode()


def test_an_executor_is_tried_and_its_secret_is_shown_nowhere(crew: Pool, agents: Served, browser: Client) -> None:
    secret = "sk-not-for-anybodys-eyes"
    form = {
        "kind": "chat", "address": f"{agents.url}/v1", "model": "m", "secret": secret, "active": "on", "seconds": "5", "retries": "1",
        "most_kb": "100", "at_once": "0", "per_minute": "0", "price_in": "1", "price_out": "1", "most_tokens": "100",
    }  # fmt: skip
    answer = browser.post("/p/crew/settings/executors/1/", form)
    assert answer.status_code == 302, answer.content.decode()
    assert secret not in Executor.objects.get().secret
    page = browser.post("/p/crew/settings/executors/1/try/", {"task": "Hello"}).content.decode()
    assert agents.headers[0]["authorization"] == f"Bearer {secret}"
    assert "m: Hello" in page
    assert "{\n  &quot;model&quot;: &quot;m&quot;" in page
    assert "Authorization: •••" in page
    assert secret not in page
    assert secret not in browser.get("/p/crew/settings/executors/1/").content.decode()
    assert secret not in browser.get("/admin/agents_app/agent/").content.decode()


def test_an_executor_that_cannot_be_is_told_beside_its_field(crew: Pool, browser: Client) -> None:
    form = {
        "kind": "chat",
        "address": "http://10.0.0.1/v1",
        "model": "",
        "seconds": "5",
        "retries": "1",
        "most_kb": "100",
    }
    page = browser.post("/p/crew/settings/executors/1/", form).content.decode()
    assert "This field is required" in page
    assert not Executor.objects.exists()
