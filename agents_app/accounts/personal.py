"""What is stored on a person who uses the product: given out as a file, and taken away while what they labeled stays.

Both walk the columns that refer to an account, in every table that there is: a new one is part of it from its first day.
"""

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models, transaction
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from agents_app import audit, keys
from agents_app.accounts import sessions
from agents_app.accounts.people import FORMER, PeopleError, is_former, keep_an_admin, keep_station, keys_of
from agents_app.audit import Who
from agents_app.models import AuditEntry, PoolRole, ScimPerson, Stamp
from agents_app.texts import columns
from agents_app.texts.matching import MemberName
from routerweb import holds, hooks
from routerweb.erasing import empty_log
from routerweb.holds import Content

#: What goes with who they are.
THEIRS: tuple[type[models.Model], ...] = (Authenticator, EmailAddress, SocialAccount, PoolRole, ScimPerson)


def tables(user: User) -> Iterator[tuple[str, "models.QuerySet[Any]"]]:
    """(name, rows) of every table that refers to a person, by each column that does: "datasets_app.label.author"."""
    yield "account", User.objects.filter(pk=user.pk)
    for model in apps.get_models(include_auto_created=True):
        for field in model._meta.concrete_fields:
            if isinstance(field, models.ForeignKey) and field.related_model is User:
                name = f"{model._meta.label_lower}.{field.name}"
                yield name, model._base_manager.filter(**{field.name: user}).order_by("pk")
    named = AuditEntry.objects.filter(target=user.get_username()).exclude(actor=user).order_by("pk")
    yield "agents_app.auditentry.target", named


def counts(user: User) -> list[tuple[str, str, int]]:
    """(table and column in words, as `tables` names them, rows) of what is stored on a person, without what is empty."""
    return [(_in_words(name, rows.model), name, count) for name, rows in tables(user) if (count := rows.count())]


def _in_words(name: str, model: type[models.Model]) -> str:
    """ "Labels: author" of "datasets_app.label.author"."""
    if model is User:
        return _("Account")
    field = model._meta.get_field(name.rpartition(".")[2])
    return capfirst(f"{model._meta.verbose_name_plural}: {field.verbose_name}")  # type: ignore[union-attr]


def export(user: User, actor: Who) -> bytes:
    """A ZIP file of all that is stored on a person, a file of JSON lines for each table and column, and one that says what is what."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        exported = {}
        for name, rows in tables(user):
            columns = [
                field.attname
                for field in rows.model._meta.concrete_fields
                if not holds.content(field) & Content.SECRET and not isinstance(field, models.BinaryField)
            ]
            with archive.open(f"{name}.jsonl", "w", force_zip64=True) as file:
                count = 0
                for row in rows.values(*columns).iterator(chunk_size=500):
                    file.write(json.dumps(row, cls=DjangoJSONEncoder, ensure_ascii=False).encode() + b"\n")
                    count += 1
            exported[f"{name}.jsonl"] = count
        read_me = {
            "account": user.get_username(),
            "rows": {name: count for name, count in exported.items() if count},
            "left_out": "passwords, keys and other secrets, and the queries that labels are about: those are the site's",
        }
        archive.writestr("README.json", json.dumps(read_me, indent=2, ensure_ascii=False))
    audit.record("person.exported", actor=actor, target=user.get_username())
    return content.getvalue()


def erase(user: User, actor: Who) -> str:
    """Take away who somebody is: name, address, password, roles, sessions, second factor, keys; for ever. Their labels, reviews and
    entries stay, as those of "former member #n", which is returned. Raises PeopleError for the last active admin, for a superuser
    where an admin asks, and for an account of which this was done."""
    keep_station(user, actor)
    if is_former(user):
        raise PeopleError(_("%(name)s has been erased already.") % {"name": user.username})
    former, names = f"{FORMER}{user.pk}", {user.username, user.email} - {""}
    with transaction.atomic():
        keep_an_admin(user)
        for key in keys_of(user):
            keys.revoke(key, actor)
        sessions.end_all(user)
        for model in THEIRS:
            model._default_manager.filter(user=user).delete()
        user.groups.clear()
        user.user_permissions.clear()
        user.username, user.email, user.first_name, user.last_name = former, "", "", ""
        user.is_active = user.is_staff = user.is_superuser = False
        user.last_login = None
        user.set_unusable_password()
        user.save()
        hooks.member_erased(user, names)
        _rename(names, former)
        of_the_account = LogEntry.objects.filter(content_type=ContentType.objects.get_for_model(User))
        of_the_account.filter(object_id=str(user.pk)).update(object_repr=former, change_message="")
        # Nobody who reads the trail learns from the entry of the erasing whose it was.
        by = audit.Actor(former) if audit.actor_of(actor).user == user else actor
        audit.record("person.erased", actor=by, target=former)
        Stamp.bump()
    empty_log()
    return former


def _rename(names: set[str], former: str) -> None:
    """Write the former member's name into every column that holds a member's name or address, in place of theirs."""
    lookup = MemberName(names, former)
    for model in holds.tables():
        if model is not User:
            columns.take_out(model, holds.columns(model, Content.PERSON), lookup)
