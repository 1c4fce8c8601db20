"""While the archive cannot be written, nothing is deleted and an alarm says so; it ends when the job has made up for it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core import mail
from django.utils import timezone
from django_q.models import Schedule

from agents_app import tasks
from agents_app.background_work import jobs, schedules, work
from agents_app.models import BackgroundJob, Pool
from tests.training_app.decision_archive.conftest import Answered
from training_app.models import Alarm, AlarmReceiver, ArchivedDay, Decision
from training_app.watching import alarms, deliveries, watch
from training_app.watching.gauges import Gauges

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
PRUNE = "training_app.answering.decisions.prune"


@pytest.fixture(autouse=True)
def installed(db: None, monkeypatch: Any) -> None:
    schedules.install()
    monkeypatch.setattr(jobs, "send", lambda *_message: None)


def turn(due: str) -> str:
    """What the message of a schedule has a worker do."""
    return tasks.scheduled(PRUNE, due)


def later(hours: float) -> None:
    """Let so much time pass, for what the job's row says, while all other work is done."""
    job = BackgroundJob.objects.get(work=PRUNE)
    failing = job.arguments.get("failing")
    if failing:
        since = work.failing_of(job).since - timedelta(hours=hours)  # type: ignore[union-attr]
        job.arguments["failing"]["since"] = since.isoformat()
    BackgroundJob.objects.filter(pk=job.pk).update(
        finished_at=job.finished_at and job.finished_at - timedelta(hours=hours), arguments=job.arguments
    )


def held() -> Alarm | None:
    watch.look()
    return Alarm.objects.filter(kind="schedule", resolved_at=None).first()


def trouble_seconds() -> list[Any]:
    family = next(one for one in Gauges().collect() if one.name == "routerweb_schedule_trouble_seconds")
    return [(sample.labels["schedule"], sample.value > 900) for sample in family.samples]


def test_an_archive_that_cannot_be_written_is_an_alarm_until_the_job_succeeds(
    answered: Answered, pool: Pool, archive: Path, settings: Any
) -> None:
    AlarmReceiver.objects.create(pool=pool, kind="email", address="ops@example.com")
    settings.EMAIL_HOST = "smtp.example.com"
    archive.write_text("a file where the archive's folder should be")
    answered("old", 40)
    assert turn("2026-03-01T03:00:00+00:00") == "failed"
    assert held() is None, "one hiccup is no alarm"
    assert trouble_seconds() == [("Delete old decisions", False)]
    later(24)
    assert turn("2026-03-02T03:00:00+00:00") == "failed"
    assert Decision.objects.count() == 1
    alarm = held()
    assert alarm is not None
    assert "“Delete old decisions” has failed since" in alarm.sentence
    (title, said), (what, remedy) = alarm.evidence
    assert (title, what) == ("Delete old decisions", "What to do")
    assert "2 times in a row" in said
    assert f"The archive {archive}" in said
    assert "ArchiveError" not in said
    assert "DECISION_ARCHIVE" in remedy
    assert trouble_seconds() == [("Delete old decisions", True)]
    deliveries.send_due()
    assert "Delete old decisions" in mail.outbox[0].body
    archive.unlink()
    assert turn("2026-03-03T03:00:00+00:00") == "done"
    assert (Decision.objects.count(), ArchivedDay.objects.kept().count()) == (0, 1)
    assert held() is None
    assert trouble_seconds() == []


def test_it_stays_while_the_next_turn_waits_and_runs(answered: Answered, archive: Path) -> None:
    archive.write_text("no folder")
    answered("old", 40)
    turn("2026-03-01T03:00:00+00:00")
    later(1)
    job = work.due(PRUNE, "2026-03-01T04:00:00+00:00")
    assert job is not None
    assert held() is not None
    assert jobs.claim(BackgroundJob, job.pk)
    alarm = held()
    assert alarm is not None
    assert f"The archive {archive}" in alarm.evidence[0][1]


def test_a_failed_turn_is_due_again_within_an_hour(answered: Answered, archive: Path) -> None:
    archive.write_text("no folder")
    answered("old", 40)
    schedule = Schedule.objects.filter(args=f"('{PRUNE}',)")
    schedule.update(next_run=timezone.now() + timedelta(hours=20))
    turn("2026-03-01T03:00:00+00:00")
    assert schedule.get().next_run <= timezone.now() + work.AGAIN
    soon = timezone.now() + timedelta(minutes=5)
    schedule.update(next_run=soon)
    turn("2026-03-01T04:00:00+00:00")
    assert schedule.get().next_run == soon


def test_parts_are_made_ahead_although_the_archive_cannot_be_written(
    answered: Answered, archive: Path, monkeypatch: Any
) -> None:
    made: list[int] = []
    monkeypatch.setattr("training_app.answering.decision_partitions.make_ahead", made.append)
    archive.write_text("no folder")
    answered("old", 40)
    assert turn("2026-03-01T03:00:00+00:00") == "failed"
    assert made == [30]


def test_after_a_night_without_a_worker_all_work_has_its_time(archive: Path) -> None:
    Schedule.objects.update(next_run=timezone.now() - timedelta(hours=9))
    watch.look(late=False)
    assert not Alarm.objects.filter(kind="schedule").exists()
    assert held() is not None


def test_a_resolved_alarm_is_told_as_such(answered: Answered, archive: Path) -> None:
    archive.write_text("no folder")
    answered("old", 40)
    turn("2026-03-01T03:00:00+00:00")
    later(1)
    assert held() is not None
    archive.unlink()
    turn("2026-03-01T04:00:00+00:00")
    watch.look()
    assert [one.kind for one in alarms.past(None)] == ["schedule"]
