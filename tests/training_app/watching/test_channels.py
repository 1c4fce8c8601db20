"""What reaches people besides alarms: runs that ended, a gate that refused, a queue that is empty; in the form of each chat."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents_app.models import Pool
from datasets_app.labeling import queue
from datasets_app.models import Assignment, Dataset, Query, SplitGroup, group_hash, text_hash
from tests.training_app.served import ScriptedRouter, promoted
from training_app.engine.routing import router as engine
from training_app.models import Alarm, AlarmDelivery, AlarmReceiver, Promotion, Run
from training_app.training import runs
from training_app.versions import registry
from training_app.watching import alarms, deliveries, watch


def channel(pool: Pool, kind: str, receiver: Any, actor: Any) -> AlarmReceiver:
    return deliveries.add_receiver(pool, kind, receiver.url + f"&{kind}", actor)


@pytest.mark.parametrize("kind", ["slack", "teams"])
def test_a_channel_is_told_in_the_form_that_it_takes(pool: Pool, receiver: Any, ops: Any, kind: str) -> None:
    channel(pool, kind, receiver, ops)
    alarms.hold(Alarm.Kind.RUNS, "The last run of <Support> failed.", [["Run 7", "out of memory"]], pool)
    assert deliveries.send_due() == 1
    body = json.loads(receiver.got[0][1])
    if kind == "slack":
        assert set(body) == {"text"}
        assert "The last run of &lt;Support&gt; failed." in body["text"]
        assert "Run 7: out of memory" in body["text"]
        assert "/p/support/alarms/|Open>" in body["text"]
    else:
        card = body["attachments"][0]["content"]
        assert card["type"] == "AdaptiveCard"
        assert "The last run of <Support> failed." in card["body"][0]["text"]
        assert card["actions"][0]["url"].endswith("/p/support/alarms/")


def test_a_test_of_a_channel_is_sent_at_once(pool: Pool, receiver: Any, ops: Any) -> None:
    made = deliveries.send_test(channel(pool, "slack", receiver, ops))
    assert made.status == "delivered"
    assert "a test" in json.loads(receiver.got[0][1])["text"]


def test_a_run_that_ended_and_a_gate_that_refused_are_told(
    run: Run, receiver: Any, ops: Any, webhook: Any, django_capture_on_commit_callbacks: Any
) -> None:
    attempt = runs.claim(run.pk)
    assert attempt
    with django_capture_on_commit_callbacks(execute=True):
        runs.fail(run.pk, attempt, "No query of the training split needs any agent.")
    run.refresh_from_db()
    deliveries.run_ended(run, "")
    deliveries.run_ended(Run(pk=run.pk, pool=run.pool, status=Run.Status.DONE), "support-1 does not pass the gate.")
    told = [json.loads(body) for body in AlarmDelivery.objects.order_by("created_at").values_list("body", flat=True)]
    assert [one["event"] for one in told] == ["run.ended", "run.ended", "gate.refused"]
    assert "No query of the training split" in told[0]["sentence"]
    assert told[0]["page"].endswith(f"/p/support/runs/{run.pk}/")
    assert "does not pass the gate" in told[2]["sentence"]
    assert deliveries.send_due() == 3


def test_a_mail_that_is_only_printed_says_so(pool: Pool, ops: Any, settings: Any) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
    made = deliveries.send_test(deliveries.add_receiver(pool, "email", "ops@example.com", ops))
    deliveries.send_due()
    made.refresh_from_db()
    assert "not sent" in made.log[0]["said"]


def queued(pool: Pool, count: int) -> None:
    dataset = Dataset.objects.create(pool=pool, name="Q")
    for n in range(count):
        group = SplitGroup.objects.create(pool=pool, key=group_hash(f"q{n}"))
        Query.objects.create(dataset=dataset, text=f"q{n}", text_hash=text_hash(f"q{n}"), group=group)
    settings = queue.stored_settings(pool)
    settings.overlap_share = 0.0
    settings.save()
    queue.fill(pool, everything=True)


def test_an_empty_queue_is_told_once_somebody_has_worked_in_it(pool: Pool, ops: Any) -> None:
    queued(pool, 1)
    watch._labeling_queue(pool)
    assert not Alarm.objects.exists()
    queue.finish(queue.take(pool, ops)[0])
    watch._labeling_queue(pool)
    assert Alarm.objects.get().sentence == "The labeling queue of Support is empty: labelers have nothing to do."


def test_a_queue_that_takes_longer_than_a_month_is_told(pool: Pool, ops: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(watch, "LONG_QUEUE", 10)
    queued(pool, 13)
    for _n in range(2):
        queue.finish(queue.take(pool, ops)[0])
    watch._labeling_queue(pool)
    assert not Alarm.objects.exists(), "two on the first day are two a day"
    Assignment.objects.filter(pk=Assignment.objects.earliest("pk").pk).update(
        ended_at=timezone.now() - timedelta(days=6.9)
    )
    watch._labeling_queue(pool)
    assert Alarm.objects.get().sentence == "The labeling queue of Support is long: 11 queries are 38 days of work."
    Alarm.objects.all().delete()
    monkeypatch.setattr(watch, "PACE", timedelta(days=1))
    watch._labeling_queue(pool)
    assert not Alarm.objects.exists(), "at two a day it is done in a week"


def test_promotions_and_roll_backs_are_told(pool: Any, webhook: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "Router", ScriptedRouter)
    first, second = promoted(pool, (0, "Billing")), promoted(pool, (0, "Billing"))
    registry.rollback(pool, actor=None)
    deliveries.promoted(Promotion(pool=pool, model=first, previous=first, kind="stopped"))
    told = [json.loads(one.body) for one in AlarmDelivery.objects.all()]
    assert {one["sentence"]: one["event"] for one in told} == {
        f"{first.name} was promoted.": "model.promoted",
        f"{second.name} was promoted in place of {first.name}.": "model.promoted",
        f"Rolled back to {first.name} from {second.name}.": "model.rolled_back",
        f"{first.name} decides no more.": "model.rolled_back",
    }
    assert told[0]["page"].endswith("/p/support/models/")
