"""Telling people and programs of alarms: by e-mail, and by webhooks that are signed, tried again for a while, and logged.

A webhook's request carries `Routerweb-Timestamp` (seconds since 1970) and `Routerweb-Signature: v1=HEX`, the HMAC-SHA256 under its
secret of the timestamp, a full stop and the body. Each attempt is signed again. docs/operations.md shows how a receiver checks it.
"""

import base64
import hashlib
import hmac
import json
import logging
import secrets
import smtplib
import time
from collections.abc import Collection
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.mail import send_mail
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.audit import Who
from agents_app.models import Pool
from agents_app.outbound import guard, signing
from training_app.models import Alarm, AlarmDelivery, AlarmReceiver, Promotion, Run

logger = logging.getLogger(__name__)

OPENED, RESOLVED, TEST = "alarm.opened", "alarm.resolved", "test"
RUN_ENDED, GATE_REFUSED = "run.ended", "gate.refused"
PROMOTED, ROLLED_BACK = "model.promoted", "model.rolled_back"
#: How long after each failed attempt the next one comes; after the last of them it is given up.
WAITS = tuple(timedelta(seconds=s) for s in (30, 120, 600, 3600, 6 * 3600))
#: While an attempt is under way nobody else makes one.
UNDER_WAY = timedelta(seconds=60)
AT_ONCE = 20
KEPT = timedelta(days=90)
Status, Kind = AlarmDelivery.Status, AlarmReceiver.Kind


class ReceiverRefused(ValueError):
    """An address that alarms are not sent to; the message says why."""


# --- Receivers ------------------------------------------------------------------------------------------------------


def add_receiver(pool: Pool, kind: str, address: str, actor: Who) -> AlarmReceiver:
    """Tell that address of the pool's alarms and the site's, or of its unsure decisions, from now on. Raises ReceiverRefused."""
    address = address.strip()
    if len(address) > 500:
        raise ReceiverRefused(_("The address is longer than 500 characters."))
    if kind == Kind.EMAIL:
        try:
            validate_email(address)
        except ValidationError:
            raise ReceiverRefused(_("This is not an e-mail address.")) from None
    else:
        try:
            guard.check(address)
        except guard.Refused as refused:
            raise ReceiverRefused(str(refused)) from None
        except OSError as error:
            raise ReceiverRefused(_("The host cannot be found: %(why)s") % {"why": guard.plain_words(error)}) from None
    if AlarmReceiver.objects.kept().filter(pool=pool, kind=kind, address=address).exists():
        raise ReceiverRefused(_("That address already receives alarms."))
    nonce = "" if kind == Kind.EMAIL else secrets.token_hex(16)
    with transaction.atomic():
        receiver = AlarmReceiver.objects.create(
            pool=pool, kind=kind, address=address, nonce=nonce, created_by=audit.actor_of(actor).user
        )
        audit.record("alarm_receiver.added", actor=actor, target=_shown(address), pool=pool, detail={"kind": kind})
    return receiver


def remove_receiver(receiver: AlarmReceiver, actor: Who) -> None:
    """Tell that address nothing more; what is on its way to it is given up."""
    with transaction.atomic():
        if AlarmReceiver.objects.filter(pk=receiver.pk, removed_at=None).update(removed_at=timezone.now()):
            receiver.deliveries.filter(status=Status.WAITING).update(status=Status.FAILED)
            audit.record(
                "alarm_receiver.removed", actor=actor, target=_shown(receiver.address), pool=receiver.pool,
                detail={"kind": receiver.kind},
            )  # fmt: skip


def stop_for_member(user: User, names: Collection[str]) -> None:
    """Mail alarms to an erased member no longer; their address is replaced in the rows of those receivers."""
    addressed = Q()
    for name in names:
        addressed |= Q(address__iexact=name)
    receivers = AlarmReceiver.objects.filter(addressed, kind=Kind.EMAIL)
    AlarmDelivery.objects.filter(receiver__in=receivers, status=Status.WAITING).update(status=Status.FAILED)
    receivers.kept().update(removed_at=timezone.now())


def restore_receiver(receiver: AlarmReceiver, actor: User) -> None:
    """Send alarms to a removed address again. Raises ReceiverRefused where it was added again meanwhile, or was an erased member's."""
    if receiver.kind == Kind.EMAIL and "@" not in receiver.address:
        raise ReceiverRefused(_("This is not an e-mail address."))
    same = AlarmReceiver.objects.filter(pool=receiver.pool, kind=receiver.kind, address=receiver.address)
    if same.filter(removed_at=None).exists():
        raise ReceiverRefused(_("That address already receives alarms."))
    with transaction.atomic():
        AlarmReceiver.objects.filter(pk=receiver.pk).update(removed_at=None, looked_until=timezone.now())
        audit.record(
            "alarm_receiver.restored", actor=actor, target=_shown(receiver.address), pool=receiver.pool,
            detail={"kind": receiver.kind},
        )  # fmt: skip


def _shown(address: str) -> str:
    # The query of an address often is a password.
    return address.partition("?")[0]


def secret_of(receiver: AlarmReceiver) -> str:
    """The secret that a webhook's requests are signed with. It follows from SECRET_KEY: with another key it is another one."""
    digest = hmac.new(settings.SECRET_KEY.encode(), f"routerweb webhook {receiver.nonce}".encode(), hashlib.sha256)
    return "whsec_" + base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=")


# --- Messages -------------------------------------------------------------------------------------------------------


def tell(alarm: Alarm, event: str) -> int:
    """Put messages of an alarm on their way: to every receiver of its pool, of all pools where it is the site's. That it
    has passed is told to those who were told that it began. Returns how many."""
    receivers = AlarmReceiver.objects.of_alarms()
    if alarm.pool_id:
        receivers = receivers.filter(pool=alarm.pool_id)
    if event == RESOLVED:
        receivers = receivers.filter(deliveries__alarm=alarm, deliveries__event=OPENED)
    different = {(receiver.kind, receiver.address): receiver for receiver in receivers.order_by("-pk").distinct()}
    body = json.dumps(message(event, alarm), ensure_ascii=False)
    deliveries = [
        AlarmDelivery(receiver=receiver, alarm=alarm, event=event, body=body) for receiver in different.values()
    ]
    AlarmDelivery.objects.bulk_create(deliveries)
    return len(deliveries)


def announce(pool: Pool, event: str, sentence: str, path: str) -> int:
    """Tell the pool's receivers of something that has happened, once; `path` is the page that shows it. Returns how many."""
    body = json.dumps(message(event, None, pool, sentence, settings.SITE_URL + path), ensure_ascii=False)
    receivers = AlarmReceiver.objects.of_alarms().filter(pool=pool)
    deliveries = [AlarmDelivery(receiver=receiver, event=event, body=body) for receiver in receivers]
    AlarmDelivery.objects.bulk_create(deliveries)
    return len(deliveries)


def run_ended(run: Run, refused: str) -> None:
    """Tell of a run that is done or has failed, and of a gate that did not let its model through, with what it found."""
    page = reverse("run", args=[run.pool.slug, run.pk])
    if run.status == Run.Status.FAILED:
        announce(run.pool, RUN_ENDED, _("%(run)s failed: %(why)s") % {"run": run, "why": run.error[:300]}, page)
    elif refused:
        announce(run.pool, GATE_REFUSED, _("%(run)s: %(why)s") % {"run": run, "why": refused[:400]}, page)
    else:
        announce(run.pool, RUN_ENDED, _("%(run)s is done.") % {"run": run}, page)


def promoted(promotion: Promotion) -> None:
    """Tell of a model that answers from now on, or decides no more; in the promotion's transaction."""
    pool, model, before = promotion.pool, promotion.model.name, promotion.previous
    page = reverse("models", args=[pool.slug])
    names = {"model": model, "previous": before.name if before else ""}
    if promotion.kind == Promotion.Kind.STOPPED:
        announce(pool, ROLLED_BACK, _("%(model)s decides no more.") % names, page)
    elif promotion.kind == Promotion.Kind.ROLLBACK:
        announce(pool, ROLLED_BACK, _("Rolled back to %(model)s from %(previous)s.") % names, page)
    elif before:
        announce(pool, PROMOTED, _("%(model)s was promoted in place of %(previous)s.") % names, page)
    else:
        announce(pool, PROMOTED, _("%(model)s was promoted.") % names, page)


def message(
    event: str, alarm: Alarm | None, pool: Pool | None = None, sentence: str = "", page: str = ""
) -> dict[str, Any]:
    """What is sent; `sentence` and `page` of what is no alarm."""
    body: dict[str, Any] = {"event": event, "site": settings.SITE_URL, "pool": None, "alarm": None}
    if sentence:
        body |= {"sentence": sentence, "page": page}
    about = alarm.pool if alarm else pool
    if about:
        body["pool"] = about.slug
    if alarm:
        page = reverse("alarms", args=[about.slug]) if about else reverse("home")
        body["alarm"] = {
            "id": alarm.pk,
            "kind": alarm.kind,
            "sentence": alarm.sentence,
            "evidence": alarm.evidence,
            "opened_at": alarm.opened_at.isoformat(),
            "resolved_at": alarm.resolved_at.isoformat() if alarm.resolved_at else None,
            "page": settings.SITE_URL + page,
        }
    return body


def send_test(receiver: AlarmReceiver) -> AlarmDelivery:
    """Send a message that says it is a test, once; returns it with its log. A webhook is called now, within seconds; a mail is left
    to the next round, for a page cannot wait for a mail server."""
    body = json.dumps(message(TEST, None, receiver.pool), ensure_ascii=False)
    delivery = AlarmDelivery.objects.create(receiver=receiver, event=TEST, body=body, attempts=len(WAITS))
    if receiver.kind != Kind.EMAIL:
        attempt(delivery)
        delivery.refresh_from_db()
    return delivery


# --- Sending --------------------------------------------------------------------------------------------------------


def send_due() -> int:
    """Make every attempt whose time has come; returns how many got through. Safe in any number of processes. What is told of decisions
    is left to `unsure_decisions`, so that many of them hold up no alarm."""
    AlarmDelivery.objects.filter(created_at__lt=timezone.now() - KEPT).delete()
    return sum(attempt(delivery) for delivery in list(due().filter(decision_id=None)[:AT_ONCE]))


def due() -> QuerySet[AlarmDelivery]:
    """What waits and whose time has come, that first which has waited longest, with its receiver."""
    waiting = AlarmDelivery.objects.filter(status=Status.WAITING, next_at__lte=timezone.now())
    return waiting.order_by("next_at", "created_at").select_related("receiver__pool")


def attempt(delivery: AlarmDelivery) -> bool:
    """Try once; whether it got through. Does nothing where another process is trying, or it has ended."""
    mine = AlarmDelivery.objects.filter(pk=delivery.pk, status=Status.WAITING, attempts=delivery.attempts)
    if not mine.update(attempts=F("attempts") + 1, next_at=timezone.now() + UNDER_WAY):
        return False
    delivery.attempts += 1
    began = time.monotonic()
    try:
        send = _mail if delivery.receiver.kind == Kind.EMAIL else _post
        code, reply = send(delivery)
        through = 200 <= code < 300
        if delivery.decision_id:
            reply = ""  # it may repeat the query
    except guard.Refused as refused:
        code, reply, through = 0, str(refused), False
    except (OSError, smtplib.SMTPException) as error:
        code, reply, through = 0, f"{type(error).__name__}: {error}", False
    entry = {
        "at": timezone.now().isoformat(timespec="seconds"), "code": code, "said": " ".join(reply.split())[:300],
        "ms": round(1000 * (time.monotonic() - began)),
    }  # fmt: skip
    status, next_at = Status.DELIVERED, timezone.now()
    if not through:
        over = delivery.attempts > len(WAITS)
        status = Status.FAILED if over else Status.WAITING
        next_at += timedelta() if over else WAITS[delivery.attempts - 1]
        logger.warning(
            "Alarm message %s did not get through to %s: %s", delivery.pk, _shown(delivery.receiver.address), reply
        )
    AlarmDelivery.objects.filter(pk=delivery.pk, status=Status.WAITING, attempts=delivery.attempts).update(
        status=status, next_at=next_at, log=[*delivery.log, entry]
    )
    return through


def _post(delivery: AlarmDelivery) -> tuple[int, str]:
    body, timestamp = as_its_kind_reads_it(delivery).encode(), int(time.time())
    headers = {
        "Content-Type": "application/json",
        "Routerweb-Event": delivery.event,
        "Routerweb-Delivery": str(delivery.pk),
        **signing.headers(secret_of(delivery.receiver), timestamp, body),
    }
    return guard.post(delivery.receiver.address, body, headers)


def as_its_kind_reads_it(delivery: AlarmDelivery) -> str:
    """The request's body: as it is for a webhook, and for a chat what its incoming webhooks take.

    Slack and Mattermost take {"text"} with links as <address|words>; a Teams workflow takes an adaptive card (schema 1.4).
    """
    kind = delivery.receiver.kind
    if kind in AlarmReceiver.SIGNED:
        return delivery.body
    title, lines, page = _in_lines(delivery)
    if kind == Kind.SLACK:
        escaped = [line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for line in (title, *lines)]
        text = "\n".join([f"*{escaped[0]}*", *escaped[1:], *([f"<{page}|{_('Open')}>"] if page else [])])
        return json.dumps({"text": text}, ensure_ascii=False)
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            {"type": "TextBlock", "text": title, "weight": "Bolder", "wrap": True},
            *({"type": "TextBlock", "text": line, "wrap": True} for line in lines),
        ],
    }
    if page:
        card["actions"] = [{"type": "Action.OpenUrl", "title": _("Open"), "url": page}]
    content = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return json.dumps({"type": "message", "attachments": [content]}, ensure_ascii=False)


def _in_lines(delivery: AlarmDelivery) -> tuple[str, list[str], str]:
    """A message for people: title, lines, and the page to look at ("" for a test)."""
    body = json.loads(delivery.body)
    alarm = body["alarm"]
    if alarm is not None:
        begins = _("Alarm: %(what)s") if delivery.event == OPENED else _("Passed: %(what)s")
        lines = [f"{name}: {value}" for name, value in alarm["evidence"]]
        return begins % {"what": alarm["sentence"]}, lines, alarm["page"]
    if body.get("sentence"):
        return body["sentence"], [], body["page"]
    return _("Routerweb: a test"), [_("Alarms of %(pool)s are sent here.") % {"pool": body["pool"]}], ""


def _mail(delivery: AlarmDelivery) -> tuple[int, str]:
    body = json.loads(delivery.body)
    alarm = body["alarm"]
    if body.get("sentence"):
        subject, text = "Routerweb " + body["sentence"], f"{body['sentence']}\n\n{body['page']}"
    elif alarm is None:
        subject, text = (
            _("Routerweb: a test"),
            _("Alarms of %(pool)s are sent to this address.") % {"pool": body["pool"]},
        )
    else:
        begins = _("Alarm: %(what)s") if delivery.event == OPENED else _("Passed: %(what)s")
        subject = "Routerweb " + begins % {"what": alarm["sentence"]}
        lines = [alarm["sentence"], "", *(f"{name}: {value}" for name, value in alarm["evidence"]), "", alarm["page"]]
        text = "\n".join(lines)
    if settings.EMAIL_BACKEND.endswith("dummy.EmailBackend"):
        raise OSError(_("no mail server is set up: EMAIL_HOST is not set"))
    send_mail(" ".join(subject.split())[:200], text, None, [delivery.receiver.address])
    if settings.EMAIL_BACKEND.endswith("console.EmailBackend"):
        return 200, _("printed to this server's log, not sent: EMAIL_HOST is not set")
    return 200, _("sent")
