"""Alarms reach who asked for it: signed, tried again with growing pauses, logged, never twice, and no more once removed."""

import hashlib
import hmac
import json
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.utils import timezone

from agents_app.models import AuditEntry
from training_app.models import Alarm, AlarmDelivery
from training_app.watching import alarms, deliveries

Status = AlarmDelivery.Status


@pytest.fixture
def alarm(pool: Any, webhook: Any) -> Alarm:
    return alarms.hold(Alarm.Kind.RUNS, "The last run failed.", [["Run 1", "out of memory"]], pool)[0]


def sent(receiver: Any) -> tuple[dict[str, str], bytes]:
    assert deliveries.send_due() == 1
    return receiver.got[-1]


def later(**by: int) -> None:
    """Let that much time pass for what waits."""
    for one in AlarmDelivery.objects.filter(status=Status.WAITING):
        AlarmDelivery.objects.filter(pk=one.pk).update(next_at=one.next_at - timedelta(**by))


def test_a_webhook_gets_the_alarm_with_its_evidence_signed(alarm: Alarm, receiver: Any, webhook: Any) -> None:
    headers, body = sent(receiver)
    found = json.loads(body)
    assert found["event"] == headers["Routerweb-Event"] == "alarm.opened"
    assert found["pool"] == "support"
    assert found["alarm"]["evidence"] == [["Run 1", "out of memory"]]
    signed = f"{headers['Routerweb-Timestamp']}.".encode() + body
    secret = deliveries.secret_of(webhook)
    assert headers["Routerweb-Signature"] == "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
    assert abs(int(headers["Routerweb-Timestamp"]) - timezone.now().timestamp()) < 60
    kept = AlarmDelivery.objects.get()
    assert kept.status == Status.DELIVERED
    assert [(one["code"], one["said"]) for one in kept.log] == [(200, "thank you")]


def test_the_secret_is_another_for_each_webhook_and_not_in_the_database(
    webhook: Any, pool: Any, ops: Any, settings: Any
) -> None:
    settings.INTERNAL_HOSTS = ("localhost",)
    other = deliveries.add_receiver(pool, "webhook", webhook.address + "2", ops)
    secret = deliveries.secret_of(webhook)
    assert secret.startswith("whsec_")
    assert len(secret) > 40
    assert secret != deliveries.secret_of(other)
    assert secret not in json.dumps([str(value) for value in vars(webhook).values()])


def test_a_failed_attempt_is_tried_again_with_growing_pauses_and_then_given_up(alarm: Alarm, receiver: Any) -> None:
    receiver.status = 500
    pauses = []
    for _ in range(len(deliveries.WAITS)):
        assert deliveries.send_due() == 0
        one = AlarmDelivery.objects.get()
        pauses.append(round((one.next_at - timezone.now()).total_seconds()))
        assert one.status == Status.WAITING
        later(days=1)
    assert pauses == [30, 120, 600, 3600, 21600]
    deliveries.send_due()
    one = AlarmDelivery.objects.get()
    assert (one.status, len(one.log), {entry["code"] for entry in one.log}) == (Status.FAILED, 6, {500})
    later(days=9)
    deliveries.send_due()
    assert len(receiver.got) == 6


def test_it_gets_through_once_the_receiver_is_back(alarm: Alarm, receiver: Any) -> None:
    receiver.status = 503
    deliveries.send_due()
    receiver.status = 204
    assert deliveries.send_due() == 0, "its time has not come"
    later(minutes=1)
    assert deliveries.send_due() == 1
    assert [entry["code"] for entry in AlarmDelivery.objects.get().log] == [503, 204]


def test_two_processes_make_one_attempt(alarm: Alarm, receiver: Any) -> None:
    one, same = AlarmDelivery.objects.get(), AlarmDelivery.objects.get()
    assert deliveries.attempt(one)
    assert not deliveries.attempt(same)
    assert len(receiver.got) == 1


def test_what_is_not_there_or_not_allowed_is_logged(alarm: Alarm, receiver: Any, webhook: Any, settings: Any) -> None:
    settings.INTERNAL_HOSTS = ()
    deliveries.send_due()
    later(days=1)
    settings.INTERNAL_HOSTS = ("localhost",)
    webhook.address = "http://localhost:1/"
    webhook.save()
    deliveries.send_due()
    said = [entry["said"] for entry in AlarmDelivery.objects.get().log]
    assert "https" in said[0]
    assert "refused" in said[1]
    assert receiver.got == []


def test_that_it_has_passed_is_told_to_who_was_told_that_it_began(
    alarm: Alarm, receiver: Any, pool: Any, ops: Any
) -> None:
    deliveries.send_due()
    deliveries.add_receiver(pool, "webhook", receiver.url + "&late=1", ops)
    alarms.resolve(Alarm.Kind.RUNS, pool)
    deliveries.send_due()
    assert receiver.events == ["alarm.opened", "alarm.resolved"]
    assert json.loads(receiver.got[-1][1])["alarm"]["resolved_at"]


def test_an_alarm_of_the_site_is_told_once_to_an_address_that_two_pools_name(
    receiver: Any, webhook: Any, ops: Any
) -> None:
    from agents_app import pools

    deliveries.add_receiver(pools.create_pool("Other", "other", actor=None), "webhook", receiver.url, ops)
    alarms.hold(Alarm.Kind.WORKERS, "No worker.", [])
    deliveries.send_due()
    assert receiver.events == ["alarm.opened"]


def test_another_pools_alarm_is_not_told(receiver: Any, webhook: Any) -> None:
    from agents_app import pools

    alarms.hold(Alarm.Kind.RUNS, "Failed.", [], pools.create_pool("Other", "other", actor=None))
    assert deliveries.send_due() == 0


def test_an_e_mail_says_what_and_where(pool: Any, ops: Any) -> None:
    deliveries.add_receiver(pool, "email", "ann@example.com", ops)
    alarms.hold(Alarm.Kind.RUNS, "The last run failed.", [["Run 1", "out of memory"]], pool)
    assert deliveries.send_due() == 1
    [letter] = mail.outbox
    assert letter.to == ["ann@example.com"]
    assert "The last run failed." in letter.subject
    assert "Run 1: out of memory" in letter.body
    assert "/p/support/alarms/" in letter.body


def test_a_mail_server_that_is_away_is_tried_again(pool: Any, ops: Any, monkeypatch: Any) -> None:
    deliveries.add_receiver(pool, "email", "ann@example.com", ops)
    alarms.hold(Alarm.Kind.RUNS, "Failed.", [], pool)

    def refuse(*_given: Any) -> None:
        raise ConnectionRefusedError("no mail today")

    monkeypatch.setattr(deliveries, "send_mail", refuse)
    assert deliveries.send_due() == 0
    kept = AlarmDelivery.objects.get()
    assert (kept.status, "no mail today" in kept.log[0]["said"]) == (Status.WAITING, True)


def test_a_test_is_sent_once_and_now(webhook: Any, receiver: Any) -> None:
    receiver.status = 410
    made = deliveries.send_test(webhook)
    assert (made.status, made.log[0]["code"]) == (Status.FAILED, 410)
    assert receiver.events == ["test"]
    receiver.status = 200
    assert deliveries.send_test(webhook).status == Status.DELIVERED


def test_a_test_by_mail_waits_for_the_next_round(pool: Any, ops: Any) -> None:
    made = deliveries.send_test(deliveries.add_receiver(pool, "email", "ann@example.com", ops))
    assert (made.status, made.log, mail.outbox) == (Status.WAITING, [], [])
    assert deliveries.send_due() == 1
    assert [message.to for message in mail.outbox] == [["ann@example.com"]]


def test_a_receiver_that_was_removed_is_told_nothing_more(alarm: Alarm, webhook: Any, receiver: Any, ops: Any) -> None:
    deliveries.remove_receiver(webhook, ops)
    assert deliveries.send_due() == 0
    assert receiver.got == []
    assert [entry.action for entry in AuditEntry.objects.order_by("pk")][-2:] == [
        "alarm_receiver.added", "alarm_receiver.removed",
    ]  # fmt: skip
    assert "token" not in AuditEntry.objects.latest("pk").target


@pytest.mark.parametrize(
    ("kind", "address"),
    [
        ("webhook", "http://example.com/"), ("webhook", "https://10.0.0.1/"), ("webhook", "https://no-such-host.invalid/"),
        ("webhook", "not an address"), ("email", "ann"), ("email", "ann@example.com\nBcc: bob@example.com"), ("webhook", "x" * 501),
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_told_is_refused(pool: Any, ops: Any, kind: str, address: str) -> None:
    with pytest.raises(deliveries.ReceiverRefused):
        deliveries.add_receiver(pool, kind, address, ops)


def test_an_address_is_told_once(webhook: Any, pool: Any, ops: Any) -> None:
    with pytest.raises(deliveries.ReceiverRefused, match="already"):
        deliveries.add_receiver(pool, "webhook", webhook.address, ops)
