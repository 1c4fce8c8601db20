"""Each unsure decision reaches the webhook that asked for it once, signed, as it reads when it is sent."""

import hashlib
import hmac
import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from agents_app.models import Pool, Privacy
from training_app.models import AlarmDelivery, AlarmReceiver, Decision
from training_app.watching import alarms, deliveries, unsure_decisions

Status = AlarmDelivery.Status


@pytest.fixture
def webhook(receiver: Any, pool: Pool, ops: Any) -> AlarmReceiver:
    return deliveries.add_receiver(pool, "unsure", receiver.url, ops)


def decided(pool: Pool, text: str = "where is it", confidence: float = 0.2, **more: Any) -> Decision:
    fields = {"agents": [1], "scores": {"1": 0.3}, "steps": 1, "stop_reason": "stop", "microseconds": 90}
    return Decision.objects.create(pool=pool, text=text, confidence=confidence, **(fields | more))


def later(**by: int) -> None:
    for one in AlarmDelivery.objects.filter(status=Status.WAITING):
        AlarmDelivery.objects.filter(pk=one.pk).update(next_at=one.next_at - timedelta(**by))


def texts(receiver: Any) -> list[str]:
    return [json.loads(body)["decision"]["text"] for _headers, body in receiver.got]


def test_a_decision_that_is_left_to_people_is_sent_signed_with_its_answer(
    webhook: AlarmReceiver, receiver: Any, pool: Pool
) -> None:
    earlier = [{"role": "assistant", "content": "Anything else?"}]
    unsure = decided(pool, messages=earlier)
    decided(pool, "abstained from", 0.9, abstained=True, stop_reason="abstained")
    decided(pool, "sure", 0.9)
    assert unsure_decisions.tell_all() == 2
    headers, body = receiver.got[0]
    sent = json.loads(body)
    assert sent["event"] == headers["Routerweb-Event"] == "decision.unsure"
    assert sent["pool"] == "support"
    one = sent["decision"]
    assert (one["id"], one["text"], one["messages"]) == (str(unsure.pk), "where is it", earlier)
    assert (one["agents"], one["agent_keys"], one["confidence"]) == ([1], ["shipping"], 0.2)
    assert one["page"].endswith(f"/p/support/decisions/{unsure.pk}/")
    signed = f"{headers['Routerweb-Timestamp']}.".encode() + body
    secret = deliveries.secret_of(webhook).encode()
    assert headers["Routerweb-Signature"] == "v1=" + hmac.new(secret, signed, hashlib.sha256).hexdigest()
    assert texts(receiver) == ["where is it", "abstained from"]
    assert unsure_decisions.tell_all() == 0
    assert len(receiver.got) == 2


def test_the_delivery_stores_the_id_and_no_word(webhook: AlarmReceiver, receiver: Any, pool: Pool) -> None:
    receiver.body = b"got: where is it"
    unsure = decided(pool)
    unsure_decisions.tell_all()
    kept = AlarmDelivery.objects.get()
    assert (kept.decision_id, kept.body, kept.status) == (unsure.pk, "", Status.DELIVERED)
    assert "where" not in json.dumps(kept.log)


@pytest.mark.parametrize("how", ["erased", "deleted"])
def test_what_is_gone_before_it_is_sent_is_not_sent(
    webhook: AlarmReceiver, receiver: Any, pool: Pool, how: str
) -> None:
    unsure = decided(pool)
    receiver.status = 503
    assert unsure_decisions.tell_all() == 0
    receiver.status = 200
    later(hours=1)
    gone = Decision.objects.filter(pk=unsure.pk)
    gone.update(text="", messages=None) if how == "erased" else gone.delete()
    assert unsure_decisions.tell_all() == 0
    assert len(receiver.got) == 1
    kept = AlarmDelivery.objects.get()
    assert (kept.status, [entry["code"] for entry in kept.log]) == (Status.FAILED, [503, 0])


def test_a_rule_that_redacts_holds_for_what_waits(webhook: AlarmReceiver, receiver: Any, pool: Pool) -> None:
    decided(pool, "write to ann@example.com", messages=[{"role": "user", "content": "I am bob@example.com"}])
    Privacy.objects.update_or_create(pool=pool, defaults={"kinds": ["e-mail"]})
    assert unsure_decisions.tell_all() == 1
    assert b"example.com" not in receiver.got[0][1]


def test_a_receiver_that_is_away_costs_one_attempt_a_turn_and_gets_all_once_it_is_back(
    webhook: AlarmReceiver, receiver: Any, pool: Pool
) -> None:
    for n in range(5):
        decided(pool, f"query {n}")
    receiver.status = 500
    unsure_decisions.tell_all()
    assert len(receiver.got) == 1
    receiver.status = 200
    assert unsure_decisions.tell_all() == 4
    later(minutes=1)
    assert unsure_decisions.tell_all() == 1
    assert sorted(set(texts(receiver))) == [f"query {n}" for n in range(5)]


def test_what_waits_for_a_day_is_given_up(webhook: AlarmReceiver, receiver: Any, pool: Pool) -> None:
    decided(pool)
    receiver.status = 500
    unsure_decisions.tell_all()
    AlarmDelivery.objects.update(created_at=timezone.now() - timedelta(hours=25))
    later(hours=1)
    unsure_decisions.tell_all()
    assert (len(receiver.got), AlarmDelivery.objects.get().status) == (1, Status.FAILED)


def test_more_than_one_turn_takes_is_told_over_several(
    webhook: AlarmReceiver, receiver: Any, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unsure_decisions, "MOST", 2)
    began = timezone.now() - timedelta(hours=3)
    AlarmReceiver.objects.update(created_at=began, looked_until=began)
    for n in range(5):
        decided(pool, f"query {n}", at=began + timedelta(minutes=30 * n + 1))
    assert [unsure_decisions.tell_all() for _ in range(4)] == [2, 2, 1, 0]
    assert texts(receiver) == [f"query {n}" for n in range(5)]


def test_a_decision_that_is_written_late_is_told_of(webhook: AlarmReceiver, receiver: Any, pool: Pool) -> None:
    AlarmReceiver.objects.update(created_at=timezone.now() - timedelta(hours=1))
    decided(pool, "first")
    unsure_decisions.tell_all()
    decided(pool, "late", at=timezone.now() - timedelta(minutes=5))
    assert unsure_decisions.tell_all() == 1
    assert texts(receiver) == ["first", "late"]


def test_decisions_of_before_of_other_pools_and_after_its_removal_are_not_told(
    webhook: AlarmReceiver, receiver: Any, pool: Pool, ops: Any
) -> None:
    decided(pool, "before", at=timezone.now() - timedelta(minutes=1))
    decided(Pool.objects.create(slug="other", name="Other"), "elsewhere")
    assert unsure_decisions.tell_all() == 0
    decided(pool)
    deliveries.remove_receiver(webhook, ops)
    assert unsure_decisions.tell_all() == 0
    assert receiver.got == []


def test_alarms_and_decisions_go_to_their_own_receivers(webhook: AlarmReceiver, receiver: Any, pool: Pool) -> None:
    alarms.hold("runs", "The last run failed.", [], pool)
    deliveries.announce(pool, deliveries.RUN_ENDED, "Done.", "/")
    decided(pool)
    unsure_decisions.find(webhook)
    assert deliveries.send_due() == 0, "decisions hold up no alarm"
    assert unsure_decisions.tell_all() == 1
    assert receiver.events == ["decision.unsure"]
    deliveries.send_test(webhook)
    assert receiver.events[1:] == ["test"]


def test_one_receiver_is_told_of_a_decision_once_whatever_happens(webhook: AlarmReceiver, pool: Pool) -> None:
    from django.db import IntegrityError, transaction

    key = uuid.uuid4()
    AlarmDelivery.objects.create(receiver=webhook, decision_id=key, event="decision.unsure")
    with pytest.raises(IntegrityError), transaction.atomic():
        AlarmDelivery.objects.create(receiver=webhook, decision_id=key, event="decision.unsure")
