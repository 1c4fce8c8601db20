"""What the columns of other projects' tables hold: Django's, allauth's and django-q2's. Ours declare it on their models."""

from typing import Any

from allauth.account.models import EmailAddress, EmailConfirmation
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from allauth.usersessions.models import UserSession
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.core.signing import BadSignature
from django_q.models import OrmQ, Schedule, Task
from django_q.signing import SignedPackage

from routerweb.holds import Packing, declare


def _message(payload: str) -> Any:
    try:
        return SignedPackage.loads(payload)
    except BadSignature:
        return None


#: Signed by this installation: reading them runs nothing that came from elsewhere.
MESSAGE = Packing(_message, SignedPackage.dumps)
SESSION = Packing(lambda data: SessionStore().decode(data), lambda values: SessionStore().encode(values))


def declare_all() -> None:
    """Declare what they hold. Called once, when the models are loaded."""
    _declare_accounts()
    declare(
        LogEntry,
        remark=["object_repr", "change_message"],
        person=["object_repr", "change_message"],
        neither=["object_id"],
        backup=False,
    )
    declare(Permission, neither=["name", "codename"])
    declare(Group, setting=["name"])
    declare(ContentType, neither=["app_label", "model"])
    # Messages of jobs: their arguments, and what they returned or failed with.
    declare(OrmQ, remark=["payload"], neither=["key"], packed={"payload": MESSAGE}, backup=False)
    declare(
        Task,
        remark=["args", "kwargs", "result"],
        neither=["id", "name", "func", "hook", "group", "cluster"],
        backup=False,
    )
    declare(
        Schedule,
        neither=["name", "func", "hook", "args", "kwargs", "cron", "task", "cluster", "intended_date_kwarg"],
    )


def _declare_accounts() -> None:
    declare(User, person=["username", "first_name", "last_name", "email"], secret=["password"])
    declare(
        Session,
        remark=["session_data"],
        secret=["session_key", "session_data"],
        packed={"session_data": SESSION},
        backup=False,
    )
    declare(UserSession, person=["ip", "user_agent"], secret=["session_key", "data"], backup=False)
    declare(EmailAddress, person=["email"])
    declare(EmailConfirmation, secret=["key"])
    declare(Authenticator, secret=["data"])
    declare(SocialApp, setting=["provider", "provider_id", "name", "client_id", "settings"], secret=["secret", "key"])
    declare(SocialAccount, person=["uid", "extra_data"], neither=["provider"])
    declare(SocialToken, secret=["token", "token_secret"])
