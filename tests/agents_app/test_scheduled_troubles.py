"""Scheduled work that fails, or does not run, is in trouble, and nothing else is."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from django_q.models import Schedule

from agents_app import tasks
from agents_app.background_work import jobs, schedules, work
from agents_app.background_work.work import Work
from agents_app.models import BackgroundJob
from routerweb import hooks

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
DAY = 24 * 60


@pytest.fixture(autouse=True)
def doing(monkeypatch: Any) -> Iterator[list[Exception]]:
    """Work of every day that raises the last of these errors, while there is one."""
    raised: list[Exception] = []

    def run(_running: Any) -> None:
        if raised:
            raise raised[-1]

    def registered() -> tuple[Work, ...]:
        return (Work("try", run, "Try it", DAY),)

    hooks.background_work.register(registered)
    work.every.cache_clear()
    Schedule.objects.all().delete()
    schedules.install()
    Schedule.objects.exclude(name="Try it").delete()
    Schedule.objects.update(next_run=timezone.now() + timedelta(hours=20))
    yield raised
    hooks.background_work._implementations.remove(registered)
    work.every.cache_clear()


def names() -> list[str]:
    return [trouble.work.title for trouble in schedules.troubles()]


def age(**of: timedelta) -> None:
    BackgroundJob.objects.update(**{name: timezone.now() - ago for name, ago in of.items()})


def test_what_is_done_seldom_waits_an_hour_when_it_is_new() -> None:
    """A new installation's first jobs do not stand behind a look for missing agents."""
    Schedule.objects.all().delete()
    schedules.install()
    soon = timezone.now() + timedelta(minutes=1)
    assert {(schedule.minutes < 60, schedule.next_run < soon) for schedule in Schedule.objects.all()} == {
        (True, True),
        (False, False),
    }


def test_work_that_is_done_is_in_none(doing: list[Exception]) -> None:
    assert names() == []
    assert tasks.scheduled("try", "2026-03-01T03:00:00+00:00") == "done"
    assert names() == []


def test_turns_that_fail_are_counted_from_the_first_until_one_is_done(doing: list[Exception]) -> None:
    for number in (1, 2, 3):
        doing.append(ValueError(f"no {number}"))
        assert tasks.scheduled("try", f"2026-03-0{number}T03:00:00+00:00") == "failed"
        if number == 1:
            age(finished_at=timedelta(hours=49))
    (trouble,) = schedules.troubles()
    assert trouble.failing is not None
    assert (trouble.failing.turns, trouble.failing.error) == (3, "ValueError: no 3")
    assert trouble.since == trouble.failing.since < timezone.now() - timedelta(hours=48)
    doing.clear()
    assert tasks.scheduled("try", "2026-03-04T03:00:00+00:00") == "done"
    assert names() == []
    doing.append(ValueError("again"))
    tasks.scheduled("try", "2026-03-05T03:00:00+00:00")
    assert names() == [], "it counts from now on"


def test_work_whose_turns_do_not_come_has_not_run(doing: list[Exception]) -> None:
    tasks.scheduled("try", "2026-03-01T03:00:00+00:00")
    age(finished_at=timedelta(days=2))
    assert names() == []
    age(finished_at=timedelta(days=2, hours=1))
    (trouble,) = schedules.troubles()
    assert (trouble.work.title, trouble.failing) == ("Try it", None)


def test_a_schedule_that_no_cluster_looks_at_has_not_run(doing: list[Exception]) -> None:
    Schedule.objects.update(next_run=timezone.now() - timedelta(minutes=14))
    assert names() == []
    Schedule.objects.update(next_run=timezone.now() - timedelta(minutes=16))
    assert names() == ["Try it"]
    Schedule.objects.update(repeats=0)
    assert names() == [], "an admin has stopped it"


def test_a_turn_may_take_long_but_not_for_ever(doing: list[Exception]) -> None:
    Schedule.objects.update(minutes=1)
    job = work.due("try", "2026-03-01T03:00:00+00:00")
    assert job is not None
    assert jobs.claim(BackgroundJob, job.pk)
    age(started_at=timedelta(hours=23))
    assert names() == []
    age(started_at=timedelta(hours=25))
    assert names() == ["Try it"]
