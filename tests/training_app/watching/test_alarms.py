"""An alarm opens once, is told once, is muted for a while, and passes."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents_app.models import AuditEntry
from tests.at_once import at_once
from training_app.models import Alarm, AlarmDelivery, AlarmMute
from training_app.watching import alarms, deliveries

RUNS, WORKERS, DRIFT = Alarm.Kind.RUNS, Alarm.Kind.WORKERS, Alarm.Kind.DRIFT


def long_ago(alarm: Alarm) -> None:
    Alarm.objects.filter(pk=alarm.pk).update(seen_at=timezone.now() - alarms.PASSED - timedelta(seconds=1))


def test_it_opens_once_and_keeps_its_newest_evidence(pool: Any, webhook: Any) -> None:
    first, new = alarms.hold(RUNS, "One failed.", [["Run", "1"]], pool)
    second, again = alarms.hold(RUNS, "Two failed.", [["Run", "2"]], pool)
    assert (new, again, first.pk) == (True, False, second.pk)
    assert (second.sentence, second.evidence) == ("Two failed.", [["Run", "2"]])
    assert AlarmDelivery.objects.count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.parametrize("of_the_site", [True, False])
@pytest.mark.at_length
def test_of_processes_that_see_it_at_once_one_opens_it(transactional_db: None, of_the_site: bool) -> None:
    from agents_app import pools

    pool = None if of_the_site else pools.create_pool("Support", "support", actor=None)
    found = at_once(6, lambda _number: alarms.hold(WORKERS, "No worker.", [], pool)[1])
    assert sorted(found, key=str) == [False] * 5 + [True]
    assert Alarm.objects.count() == 1


def test_what_is_not_seen_any_more_has_passed(pool: Any) -> None:
    kept = alarms.hold(RUNS, "Failed.", [], pool)[0]
    gone = alarms.hold(WORKERS, "No worker.", [])[0]
    hourly = alarms.hold(DRIFT, "Drift.", [], pool)[0]
    long_ago(gone)
    long_ago(hourly)
    assert alarms.resolve_passed() == 1
    assert {alarm.pk for alarm in alarms.open_alarms(pool)} == {kept.pk, hourly.pk}
    assert [alarm.pk for alarm in alarms.past(pool)] == [gone.pk]


def test_it_may_open_again(pool: Any) -> None:
    first = alarms.hold(RUNS, "Failed.", [], pool)[0]
    alarms.resolve(RUNS, pool)
    again, new = alarms.hold(RUNS, "Failed.", [], pool)
    assert new
    assert again.pk != first.pk


def test_a_muted_kind_is_told_to_nobody_until_its_time_is_over(pool: Any, webhook: Any, ops: Any) -> None:
    first = alarms.hold(RUNS, "Failed.", [], pool)[0]
    alarms.mute(first, 8, ops)
    alarms.resolve(RUNS, pool)
    AlarmDelivery.objects.all().delete()
    second = alarms.hold(RUNS, "Failed again.", [], pool)[0]
    assert alarms.tell_late() == 0
    assert AlarmDelivery.objects.count() == 0
    assert alarms.open_alarms(pool)[0].muted_until
    AlarmMute.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert alarms.tell_late() == 1
    assert [one.alarm_id for one in AlarmDelivery.objects.all()] == [second.pk]
    assert alarms.tell_late() == 0


def test_muting_one_pool_does_not_mute_another_or_another_kind(pool: Any, webhook: Any, ops: Any) -> None:
    alarms.mute(alarms.hold(RUNS, "Failed.", [], pool)[0], 8, ops)
    assert not alarms.muted(alarms.hold(DRIFT, "Drift.", [], pool)[0])
    assert not alarms.muted(alarms.hold(RUNS, "Failed.", [])[0])


def test_unmuting_tells_what_was_not_told(pool: Any, webhook: Any, ops: Any) -> None:
    alarm = alarms.hold(RUNS, "Failed.", [], pool)[0]
    alarms.mute(alarm, 8, ops)
    AlarmDelivery.objects.all().delete()
    alarms.unmute(alarm, ops)
    assert alarms.tell_late() == 1
    assert [e.action for e in AuditEntry.objects.order_by("pk")][-2:] == ["alarm.muted", "alarm.unmuted"]


def test_somebody_who_asks_later_is_told_of_what_is_still_open(pool: Any, receiver: Any, ops: Any) -> None:
    alarms.hold(RUNS, "Failed.", [], pool)
    deliveries.add_receiver(pool, "webhook", receiver.url, ops)
    assert alarms.tell_late() == 1
    assert deliveries.send_due() == 1
