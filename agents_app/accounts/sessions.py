"""Where people are signed in: each session's device, address and when it was last seen, and its end.

django-allauth keeps a row for each session. It is written at the sign-in and then at most once in SEEN_SECONDS, so that opening a page
costs no write. A session without a row gets one when it is next used.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from allauth.account.adapter import get_adapter
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.cache import caches
from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, transaction
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.audit import Who

log = logging.getLogger(__name__)

SEEN_SECONDS = 300
# The first that fits counts: each browser's own name comes before those that it claims to be like.
BROWSERS = (
    ("Edg", "Edge"), ("OPR", "Opera"), ("SamsungBrowser", "Samsung Internet"), ("Firefox", "Firefox"), ("FxiOS", "Firefox"),
    ("CriOS", "Chrome"), ("Chrome", "Chrome"), ("Safari", "Safari"), ("curl", "curl"), ("python", "Python"),
)  # fmt: skip
SYSTEMS = (
    ("iPhone", "iPhone"), ("iPad", "iPad"), ("Android", "Android"), ("Windows", "Windows"), ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"), ("Linux", "Linux"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SignedIn:
    """One session: its row's key, its device in words, the address it was last seen at, and whether it is the one that asks."""

    pk: int
    device: str
    address: str
    began: datetime
    seen: datetime
    is_this: bool


def device(user_agent: str) -> str:
    """What a browser says of itself, in words: "Firefox on Windows"."""
    browser = next((name for sign, name in BROWSERS if sign in user_agent), "")
    system = next((name for sign, name in SYSTEMS if sign in user_agent), "")
    if browser and system:
        return _("%(browser)s on %(system)s") % {"browser": browser, "system": system}
    return browser or system or _("An unknown device")


def of(user: User, this: str | None = None) -> list[SignedIn]:
    """A person's sessions that still work, the last seen first; `this` is the key of the session that asks."""
    rows = sorted(UserSession.objects.purge_and_list(user), key=lambda row: row.last_seen_at, reverse=True)
    return [
        SignedIn(row.pk, device(row.user_agent), row.ip, row.created_at, row.last_seen_at, row.session_key == this)
        for row in rows
    ]


def end(user: User, pk: int) -> bool:
    """End one of a person's sessions; whether there was one of that key."""
    row = UserSession.objects.filter(user=user, pk=pk).first()
    if row is None:
        return False
    with transaction.atomic():
        row.end()
        audit.record("person.session_ended", actor=user, target=user.get_username(), detail={"sessions": 1})
    return True


def end_others(user: User, this: str | None) -> int:
    """End all sessions of a person but this one, and say so in the audit trail; how many."""
    with transaction.atomic():
        count = end_all(user, but=this)
        audit.record("person.session_ended", actor=user, target=user.get_username(), detail={"sessions": count})
    return count


def end_by(user: User, actor: Who) -> int:
    """Somebody else ends all sessions of a person; how many."""
    with transaction.atomic():
        count = end_all(user)
        audit.record("person.sessions_ended", actor=actor, target=user.get_username(), detail={"sessions": count})
    return count


def end_all(user: User, *, but: str | None = None) -> int:
    """End every session of a person, those without a row too; how many there were. `but` is the key of one that stays."""
    # A session names its person only inside its signed text, so each one is opened: some twenty microseconds.
    count = 0
    for session in Session.objects.filter(expire_date__gt=timezone.now()).iterator():
        if session.session_key != but and session.get_decoded().get(SESSION_KEY) == str(user.pk):
            session.delete()
            count += 1
    UserSession.objects.filter(user=user).exclude(session_key=but or "").delete()
    return count


def prune() -> int:
    """Delete the sessions that have run out, and what was kept of each; how many. A schedule calls it."""
    with transaction.atomic():
        count = Session.objects.filter(expire_date__lt=timezone.now()).delete()[0]
        UserSession.objects.exclude(session_key__in=Session.objects.values("session_key")).delete()
    return count


class Seen:
    """Middleware: keeps when and where each session was last seen."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        answer = self.get_response(request)
        if settings.SESSIONS_SEEN:
            try:
                _see(request)
            except DatabaseError as error:
                # Somebody else writes for long: the page is made, and is no worse for it.
                log.warning("When a session was last seen could not be written: %s", error)
        return answer


class DrawnFor:
    """Middleware: refuses what a page's script sends for somebody else than who is signed in now.

    The script names whom its page was drawn for (`X-Person`). What it kept while they were signed out must not be written as the work
    of whoever signs in after them at the same desk.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: object, args: object, kwargs: object) -> None:
        """Raises PermissionDenied."""
        named = request.headers.get("X-Person")
        if named and request.user.is_authenticated and named != str(request.user.pk):
            raise PermissionDenied(
                _("This page was drawn for somebody else, who is no longer signed in here. Reload it.")
            )


def _see(request: HttpRequest) -> None:
    key = request.session.session_key
    # Who never touched the session is nobody's: asking for the person would read the database.
    if not key or not request.session.accessed or not isinstance(request.user, User):
        return
    # Each process remembers whom it has seen, so that only a write that is due reaches the database.
    if not caches["process"].add("seen:" + hashlib.sha256(key.encode()).hexdigest(), 1, timeout=SEEN_SECONDS):
        return
    now = timezone.now()
    with transaction.atomic():
        last = UserSession.objects.filter(session_key=key).values_list("last_seen_at", flat=True).first()
        if last is None or last < now - timedelta(seconds=SEEN_SECONDS):
            UserSession.objects.update_or_create(
                session_key=key,
                defaults={
                    "user": request.user,
                    "ip": get_adapter().get_client_ip(request),
                    "user_agent": request.META.get("HTTP_USER_AGENT", "")[:200],
                    "last_seen_at": now,
                },
            )


def live(users: Iterable[User]) -> dict[int, int]:
    """Person → rows of sessions that have not expired, for a list of people."""
    keys = Session.objects.filter(expire_date__gt=timezone.now()).values("session_key")
    counts: dict[int, int] = {}
    for user_id in UserSession.objects.filter(user__in=list(users), session_key__in=keys).values_list(
        "user_id", flat=True
    ):
        counts[user_id] = counts.get(user_id, 0) + 1
    return counts
