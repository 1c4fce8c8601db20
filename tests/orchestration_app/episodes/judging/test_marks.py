"""A language model marks episodes' answers, over HTTP; the page shows how far it agrees with people."""

from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents_app.models import Pool
from orchestration_app.episodes import episodes
from orchestration_app.episodes.judging import marks
from orchestration_app.models import Episode, EpisodeLearning, EpisodeMark
from tests import llm_server

pytestmark = pytest.mark.django_db


@pytest.fixture
def server(settings: Any) -> Iterator[llm_server.Server]:
    with llm_server.Server() as started:
        settings.LLM_BASE_URL, settings.LLM_MODEL, settings.LLM_API_KEY = started.url, "big", "sk-test"
        started.retry_after = "0"
        yield started


def ended(pool: Pool, task: str, answer: str) -> Episode:
    """An episode that was answered, with one call."""
    made = Episode.objects.create(
        pool=pool, status="done", policy="one_shot", task=task, answer=answer, steps=1, finished_at=timezone.now()
    )
    made.trajectory.create(
        turn=0, number=0, call=0, agent=0, status="done", output=answer, candidates=[0, None], probabilities=[0.9, 0.1]
    )
    return made


def judge(**options: Any) -> str:
    call_command("judge_episodes", pool="crew", stdout=(said := StringIO()), **options)
    return said.getvalue()


def test_it_marks_once_and_people_keep_the_last_word(
    crew: Pool, server: llm_server.Server, ops: User, browser: Client
) -> None:
    graph = reverse("episodes_graph", args=["crew"])
    rows = [ended(crew, f"task {n}", "this is right" if n < 3 else "no idea") for n in range(5)]
    same = ended(crew, "task 0", "this is right")
    assert "No person has judged these episodes yet" in browser.get(graph).content.decode()
    for n, row in enumerate(rows[:4]):
        episodes.judge(row, success=n in (0, 1), person=ops)
    assert "People have judged 4 of these episodes" in browser.get(graph).content.decode()
    assert "6 episodes marked, 4 as right; 2 of them nobody had judged. 0 got no usable mark." in judge()
    assert len(server.bodies) == 5  # the same answer to the same task once
    assert set(EpisodeMark.objects.values_list("mark", flat=True)) == {0.9, 0.2}
    same.refresh_from_db()
    assert (same.judge, same.rating, same.success) == ("llm", 0.9, True)
    rows[2].refresh_from_db()
    assert (rows[2].judge, rows[2].success) == ("person", False)
    assert "0 episodes marked" in judge()
    assert len(server.bodies) == 5

    [found] = marks.agreement(episodes.of_pool(crew))
    assert (found.judge, found.count, found.few) == ("big", 4, True)
    assert (found.both_right, found.both_wrong, found.only_judge, found.only_people) == (2, 1, 1, 0)
    assert (found.share["mean"], found.kappa) == (0.75, pytest.approx(0.5))
    assert (round(found.share["low"], 3), round(found.share["high"], 3)) == (0.301, 0.954)
    assert found.apart["mean"] == pytest.approx((0.1 + 0.1 + 0.9 + 0.2) / 4)
    shown = browser.get(graph).content.decode()
    assert "75.0" in shown
    assert "too few to rely on" in shown
    assert "big marked the answer with" in browser.get(reverse("episode", args=["crew", same.pk])).content.decode()


def test_another_rubric_is_another_judge(crew: Pool, server: llm_server.Server, ops: User, tmp_path: Path) -> None:
    row = ended(crew, "task", "this is right")
    episodes.judge(row, success=True, person=ops)
    judge()
    (tmp_path / "rubric.txt").write_text("10: it is short.")
    judge(rubric=str(tmp_path / "rubric.txt"))
    assert "by this rubric: 10: it is short." in server.bodies[-1]["messages"][0]["content"]
    assert len(marks.agreement(episodes.of_pool(crew))) == 2
    with pytest.raises(CommandError, match="cannot be read"):
        judge(rubric=str(tmp_path / "none.txt"))


@pytest.mark.parametrize("fault", ["not json", "wrong id", "empty"])
def test_what_is_no_mark_is_none(fault: str, crew: Pool, server: llm_server.Server) -> None:
    row = ended(crew, "task", "this is right")
    server.fault = lambda text, nth: fault
    assert "0 episodes marked, 0 as right; 0 of them nobody had judged. 1 got no usable mark." in judge()
    row.refresh_from_db()
    assert (row.judge, EpisodeMark.objects.count()) == ("", 0)


def test_a_server_that_is_of_no_use_is_named(crew: Pool, server: llm_server.Server, settings: Any) -> None:
    ended(crew, "task", "this is right")
    server.refuse_key = True
    with pytest.raises(CommandError, match="could not be asked"):
        judge()
    settings.LLM_MODEL = ""
    with pytest.raises(CommandError, match="LLM_MODEL"):
        judge()


def test_by_the_clock_it_marks_a_random_and_an_unsure_share_within_its_budget(
    crew: Pool, server: llm_server.Server
) -> None:
    rows = [ended(crew, f"task {n}", "this is right") for n in range(12)]
    rows[7].trajectory.update(probabilities=[0.5, 0.5])
    assert marks.turn() == 0, "nobody allowed it"
    EpisodeLearning.objects.create(pool=crew, judge_a_day=2)
    unsure = {tuple(one.pk for one in marks.chosen(crew, 2))[-1] for _ in range(8)} | {
        one.pk for _ in range(8) for one in marks.chosen(crew, 2)
    }
    assert rows[7].pk in unsure
    assert marks.turn() == 2
    assert EpisodeMark.objects.count() == 2
    assert marks.turn() == 0, "the day's budget is used"
    EpisodeLearning.objects.update(judged_on=timezone.now().date() - timedelta(days=1))
    assert marks.turn() == 2
    assert EpisodeMark.objects.count() == 4


def test_a_models_judgement_counts_as_far_as_it_agrees_with_people(crew: Pool, ops: User) -> None:
    assert marks.weight(Episode.objects.all()) == marks.UNCOMPARED
    for n in range(40):
        row = ended(crew, f"task {n}", "this is right")
        episodes.judge(row, success=n % 4 > 0, person=ops)
        row.marks.create(judge="big", rubric="r", digest=str(n), mark=0.9)
    assert marks.weight(Episode.objects.all()) == pytest.approx(0.5)
