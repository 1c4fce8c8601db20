"""Telling programs of each decision that is left to people, by webhooks that are signed, tried again and logged as alarms' are.

A decision is left to people if the router abstained or its confidence was below UNSURE_CONFIDENCE. A delivery stores its id alone.
Text and answer are read when they are sent: what was deleted, erased or is redacted by then does not leave the server.
"""

import json
import time
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import privacy
from agents_app.models import Pool
from training_app.engine.data.conversations import earlier_as_json
from training_app.models import AlarmDelivery, AlarmReceiver, Decision
from training_app.rollout import decision_exports
from training_app.watching import deliveries

UNSURE = "decision.unsure"
#: How late a decision may be written and is told of all the same.
LATE = timedelta(minutes=10)
#: A receiver that is away for longer is not told of what it missed.
WAITS = timedelta(days=1)
#: Decisions that one turn queues for a receiver, rows of one insert, and seconds that it sends.
MOST, ROWS, SECONDS = 1_000, 500, 45.0
#: What a message holds of a decision.
SENT = [column.name for column in decision_exports.COLUMNS if column.of is Decision]
Status = AlarmDelivery.Status


def tell_all() -> int:
    """The schedule's job: queue what is new for every receiver, and send what is due; returns how many got through. `SECONDS` are
    shared by the receivers, so that a slow one holds up no other."""
    waiting = AlarmDelivery.objects.filter(status=Status.WAITING, decision_id__isnull=False)
    waiting.filter(created_at__lt=timezone.now() - WAITS).update(status=Status.FAILED)
    receivers = AlarmReceiver.objects.kept().filter(kind=AlarmReceiver.Kind.UNSURE, pool__in=Pool.objects.in_use())
    through = 0
    for receiver in (several := list(receivers)):
        find(receiver)
        through += send_due(receiver, SECONDS / len(several))
    return through


def find(receiver: AlarmReceiver) -> int:
    """Queue the unsure decisions since the last look, each once, `MOST` at most; returns how many."""
    now = timezone.now()
    since = max(receiver.looked_until - LATE, receiver.created_at)
    unsure = Q(abstained=True) | Q(confidence__lt=settings.UNSURE_CONFIDENCE)
    queued = AlarmDelivery.objects.filter(receiver=receiver, created_at__gte=since)
    queued_ids = set(queued.values_list("decision_id", flat=True))
    decisions = Decision.objects.filter(unsure, pool=receiver.pool_id, at__gte=since, at__lte=now).order_by("at", "pk")
    new: list[UUID] = []
    for key, at in decisions.values_list("pk", "at").iterator():
        if key not in queued_ids:
            new.append(key)
            if len(new) == MOST:
                now = min(now, at + LATE)  # the next turn goes on from here
                break
    deliveries = [AlarmDelivery(receiver=receiver, decision_id=key, event=UNSURE) for key in new]
    AlarmDelivery.objects.bulk_create(deliveries, ignore_conflicts=True, batch_size=ROWS)
    AlarmReceiver.objects.filter(pk=receiver.pk).update(looked_until=now)
    return len(new)


def send_due(receiver: AlarmReceiver, seconds: float = SECONDS) -> int:
    """Make a receiver's attempts whose time has come, for so long at most; returns how many got through. After a failure the rest
    waits for the next turn."""
    ends, through = time.monotonic() + seconds, 0
    for delivery in deliveries.due().filter(receiver=receiver, decision_id__isnull=False)[:MOST]:
        if time.monotonic() > ends:
            break
        if not (body := message(delivery)):
            _give_up(delivery)
            continue
        delivery.body = body
        if not deliveries.attempt(delivery):
            break
        through += 1
    return through


def message(delivery: AlarmDelivery) -> str:
    """What is sent of a delivery's decision, in JSON; "" where the decision or its text is gone."""
    pool = delivery.receiver.pool
    stored = Decision.objects.filter(pool=pool, pk=str(delivery.decision_id))
    decision = stored.select_related("model__pool").first()
    if decision is None or not decision.text:
        return ""
    redactor = privacy.redactor_of(pool.pk)
    if redactor is not None:
        query = redactor.conversation(decision.routed_text)
        decision.text, decision.messages = str(query), earlier_as_json(query)
    whole = decision_exports.row_of(decision, None, dict(pool.agents.values_list("number", "key")))
    page = settings.SITE_URL + reverse("decision", args=[pool.slug, decision.pk])
    body = {
        "event": UNSURE,
        "site": settings.SITE_URL,
        "pool": pool.slug,
        "decision": {name: whole[name] for name in SENT} | {"page": page},
    }
    return json.dumps(body, ensure_ascii=False)


def _give_up(delivery: AlarmDelivery) -> None:
    entry = {"at": timezone.now().isoformat(timespec="seconds"), "code": 0, "ms": 0}
    reason = _("The decision was deleted, or its text erased.")
    AlarmDelivery.objects.filter(pk=delivery.pk, status=Status.WAITING).update(
        status=Status.FAILED, log=[*delivery.log, entry | {"said": reason}]
    )
