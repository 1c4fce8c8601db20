"""Mails with a link that sets a password. A worker of the default cluster finds the account, makes the link and sends it.

So a page waits for no mail server, and takes as long for an address without an account as for one with it. The queue holds no link:
what works for days stands in the mail alone, and in no log and no table.
"""

import logging
from enum import StrEnum
from smtplib import SMTPException

from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.auth.tokens import default_token_generator
from django.core.mail import send_mail
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.audit import Actor
from agents_app.background_work import work

logger = logging.getLogger(__name__)


class Kind(StrEnum):
    """Why a link is mailed."""

    INVITATION = "invitation"
    NEW_LINK = "new link"
    RESET = "reset"


def set_up() -> bool:
    """Whether there is a mail server to give mails to."""
    return bool(settings.EMAIL_HOST)


def set_password_link(user: User, base_url: str = "") -> str:
    """A link that lets its bearer set the user's password: once, and within INVITATION_DAYS."""
    token = default_token_generator.make_token(user)
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    return (base_url or settings.SITE_URL).rstrip("/") + reverse("password_reset_confirm", args=(uid, token))


def link_later(user: User, kind: Kind, base_url: str) -> bool:
    """Have a worker mail that person a link; False where there is no mail server, or no address."""
    if not set_up() or not user.email:
        return False
    work.submit("mail_link", user=user.pk, kind=kind.value, base_url=base_url)
    return True


def reset_link_later(address: str, base_url: str) -> None:
    """Have a worker mail a link to whoever has that address, if anybody has; the same work for every address."""
    if set_up():
        work.submit("mail_reset", address=address, base_url=base_url)
    else:
        logger.warning(
            "A new password was asked for, and no mail server is set up (EMAIL_HOST): an admin can give out a link under People."
        )


def mail_link(running: work.Running) -> bool:
    """Mail a person a link that sets the password; whether the mail server took it."""
    arguments = running.arguments
    user = User.objects.filter(pk=arguments["user"], is_active=True).first()
    return user is not None and send_link(user, Kind(arguments["kind"]), arguments["base_url"])


def mail_reset(running: work.Running) -> int:
    """Mail a link to every active account with that address, those without a first password too; how many the server took."""
    queued = 0
    for user in User.objects.filter(email__iexact=running.arguments["address"], is_active=True).order_by("pk"):
        if user.pk > running.progress.get("last", 0):
            queued += send_link(user, Kind.RESET, running.arguments["base_url"])
            running.save(last=user.pk)
    return queued


def send_link(user: User, kind: Kind, base_url: str) -> bool:
    """Mail that person a fresh link; a mail server that refuses or is silent for EMAIL_TIMEOUT is told to the audit trail."""
    site = settings.UNFOLD["SITE_TITLE"]
    words = {
        "site": site,
        "name": user.get_username(),
        "days": settings.PASSWORD_RESET_TIMEOUT // 86_400,
        "link": set_password_link(user, base_url),
    }
    subject = _("You are invited to %(site)s") if kind == Kind.INVITATION else _("Your password for %(site)s")
    if kind == Kind.RESET:
        begins = _("Somebody, probably you, asked to set a new password for %(site)s. Set it here:")
        ends = _("If it was not you, ignore this mail.")
    else:
        begins, ends = _("Hello,\n\nset your password for %(site)s here:"), ""
    body = (
        f"{begins}\n%(link)s\n\n"
        + _("The link works once, within %(days)d days. You sign in as %(name)s.")
        + f"\n{ends}"
    )
    try:
        send_mail(subject % words, body % words, settings.DEFAULT_FROM_EMAIL, [user.email])
    except (OSError, SMTPException) as error:
        why = f"{type(error).__name__}: {error}"[:200]
        logger.warning("No mail could be sent to account %s: %s", user.pk, why)
        audit.record(
            "person.mail_failed", actor=Actor("mail"), target=user.get_username(),
            detail={"kind": kind.value, "why": why},
        )  # fmt: skip
        return False
    return True
