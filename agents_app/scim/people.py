"""People as an identity provider knows them: made, matched by address, changed, closed; their roles follow its groups.

What it may not do: touch a superuser, take the last admin's role or account, or anybody who was made by hand and whom it has not
found by their address. Whatever it changes goes through the same functions as an admin's hand.
"""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from agents_app import audit
from agents_app.access import Role
from agents_app.accounts import mail, people
from agents_app.accounts.people import PeopleError
from agents_app.audit import Actor
from agents_app.models import Pool, PoolRole, ScimGroup, ScimPerson
from agents_app.scim import documents
from agents_app.scim.errors import ScimError, invalid
from agents_app.scim.filters import Tree
from agents_app.scim.schemas import USER

#: What may be asked of people, and the field that it stands for.
COLUMNS = {
    "id": "uid", "username": "user__username", "externalid": "external_id", "active": "user__is_active",
    "emails": "user__email", "emails.value": "user__email", "emails.type": "", "emails.primary": "",
    "name.givenname": "user__first_name", "name.familyname": "user__last_name", "displayname": "attributes__displayName",
    "groups": "groups__uid", "groups.value": "groups__uid",
    "meta.created": "created_at", "meta.lastmodified": "changed_at",
}  # fmt: skip
STRENGTH = [role.value for role in (Role.LABELER, Role.REVIEWER, Role.OPS, Role.ADMIN)]


def as_json(person: ScimPerson, base: str) -> dict[str, Any]:
    """A person as SCIM shows them; `base` is the address of /scim/v2."""
    user, attributes = person.user, person.attributes
    emails = attributes.get("emails") or []
    if user.email and user.email not in {email["value"].lower() for email in emails}:
        emails = [{"value": user.email, "type": "work", "primary": True}]
    name = {"givenName": user.first_name, "familyName": user.last_name}
    document = {
        "schemas": [USER],
        "id": str(person.uid),
        "externalId": person.external_id,
        "userName": user.username,
        "name": {key: value for key, value in name.items() if value},
        "displayName": attributes.get("displayName", ""),
        "emails": emails,
        "active": user.is_active,
        "groups": [
            {"value": str(group.uid), "$ref": f"{base}/Groups/{group.uid}", "display": group.name} for group in person.groups.all()
        ],
        "meta": {
            "resourceType": "User", "created": person.created_at.isoformat(), "lastModified": person.changed_at.isoformat(),
            "location": f"{base}/Users/{person.uid}",
        },
    }  # fmt: skip
    return {key: value for key, value in document.items() if value not in ("", [], {})}


def look_up(tree: Tree) -> None:
    """Let an identity provider find who was made by hand: an exact question for a user name or an address is what matches them.

    Nothing of the account changes by being found, only by what comes next under the id that the answer has.
    """
    if tree[0] != "eq" or tree[1] not in ("username", "emails", "emails.value") or not isinstance(tree[2], str):
        return
    name = people.plain(tree[2])
    accounts = User.objects.filter(Q(username__iexact=name) | Q(email__iexact=name), scim=None)[:2]
    if len(accounts) == 1 and not people.is_former(accounts[0]):
        ScimPerson.objects.get_or_create(user=accounts[0])


def create(document: Mapping[str, Any], actor: Actor, base_url: str) -> ScimPerson:
    """An account for whom the identity provider names; one that it had deleted is opened again. Raises ScimError (uniqueness)."""
    values = documents.person(document)
    name = values["userName"]
    with transaction.atomic():
        gone = (
            ScimPerson.objects.exclude(removed_at=None)
            .filter(user__username__iexact=name)
            .select_related("user")
            .first()
        )
        if gone is None:
            _check_free(name, _address(values), None)
            user = User(username=name, is_staff=True)
            user.set_unusable_password()
            user.save()
            person = ScimPerson.objects.create(user=user, linked_at=timezone.now())
            audit.record("person.provisioned", actor=actor, target=name)
        else:
            gone.delete()
            person = ScimPerson.objects.create(user=gone.user, linked_at=timezone.now())
            audit.record("person.provisioned", actor=actor, target=name, detail={"again": True})
            values["active"] = values.get("active") is not False
        _change(person, values, actor, new=True)
    if gone is None and person.user.is_active and not settings.OIDC_ISSUER:
        mail.link_later(person.user, mail.Kind.INVITATION, base_url)
    return person


def change(person: ScimPerson, document: Mapping[str, Any], actor: Actor) -> ScimPerson:
    """Bring an account to what the identity provider says of it. Raises ScimError."""
    values = documents.person(document)
    with transaction.atomic():
        _change(person, values, actor)
    return person


def _change(person: ScimPerson, resource: dict[str, Any], actor: Actor, *, new: bool = False) -> None:
    user = person.user
    before = (user.username, user.email, user.first_name, user.last_name, person.external_id, person.attributes)
    name, email, full = resource["userName"], _address(resource), resource.get("name") or {}
    user.username, user.email = name, email
    user.first_name, user.last_name = full.get("givenName") or "", full.get("familyName") or ""
    person.external_id = resource.get("externalId") or ""
    person.attributes = _attributes(resource)
    after = (user.username, user.email, user.first_name, user.last_name, person.external_id, person.attributes)
    active = resource.get("active")
    opens_or_closes = active is not None and active != user.is_active
    if after == before and not opens_or_closes and person.linked_at is not None:
        return
    _keep_superuser(user)
    if after[:2] != before[:2]:
        _check_free(name, email, user)
    if person.linked_at is None:
        person.linked_at = timezone.now()
        audit.record("person.linked", actor=actor, target=user.username)
    user.save(update_fields=("username", "email", "first_name", "last_name"))
    person.changed_at = timezone.now()
    person.save()
    names = ("user name", "e-mail", "given name", "family name", "external id", "attributes")
    changed = [what for what, old, now in zip(names, before, after, strict=True) if old != now]
    if changed and not new:
        audit.record("person.synchronized", actor=actor, target=user.username, detail={"changed": changed})
    if opens_or_closes:
        _set_active(user, bool(active), actor)


def remove(person: ScimPerson, actor: Actor) -> None:
    """What DELETE is here: the account closes, its sessions and keys end and what its groups gave goes; its labels stay. Raises
    ScimError."""
    _keep_superuser(person.user)
    with transaction.atomic():
        _set_active(person.user, False, actor)
        person.groups.clear()
        grant(person, actor)
        person.linked_at, person.removed_at, person.external_id, person.attributes = None, timezone.now(), "", {}
        person.save()
        audit.record("person.unprovisioned", actor=actor, target=person.user.get_username())


def grant(person: ScimPerson, actor: Actor) -> None:
    """Give a person the roles of their groups, the strongest for each pool and for all, and take back those that groups gave and
    give no more. What a hand has changed since stays. Raises ScimError for the last admin."""
    wanted: dict[str, str] = {}
    for group in person.groups.all():
        where = str(group.pool_id or "")
        if group.role and (where not in wanted or STRENGTH.index(group.role) > STRENGTH.index(wanted[where])):
            wanted[where] = group.role
    granted = dict(person.granted)
    if wanted == granted or person.user.is_superuser:
        return
    user = User.objects.prefetch_related("groups").get(pk=person.user_id)
    try:
        for where in wanted.keys() | granted.keys():
            if wanted.get(where) != granted.get(where):
                _give(user, where, wanted.get(where), granted.get(where), actor)
    except PeopleError as error:
        raise ScimError(409, str(error)) from None
    person.granted = wanted
    person.save(update_fields=("granted",))


def _give(user: User, where: str, role: str | None, before: str | None, actor: Actor) -> None:
    if not where:
        held = people.role_of(user)
        if role or (held is not None and held.value == before):
            people.set_role(user, role, actor)
        return
    pool = Pool.objects.filter(pk=int(where)).first()
    if pool is not None:
        now = PoolRole.objects.filter(user=user, pool=pool).values_list("role", flat=True).first()
        if role or now == before:
            people.set_pool_role(user, pool, role, actor)


def _set_active(user: User, active: bool, actor: Actor) -> None:
    try:
        people.reactivate(user, actor) if active else people.deactivate(user, actor)
    except PeopleError as error:
        raise ScimError(409, str(error)) from None


def _keep_superuser(user: User) -> None:
    if user.is_superuser:
        raise ScimError(403, f"{user.get_username()} is a superuser. Only a superuser changes that account.")


def _address(resource: Mapping[str, Any]) -> str:
    """The address that counts: the primary one, the first, or the user name where that is one."""
    emails = resource.get("emails") or []
    chosen = next((email for email in emails if email.get("primary")), emails[0] if emails else None)
    if chosen is not None:
        return str(chosen["value"]).lower()
    try:
        validate_email(resource["userName"])
    except ValidationError:
        return ""
    return str(resource["userName"]).lower()


def _attributes(resource: Mapping[str, Any]) -> dict[str, Any]:
    emails = [
        {key: value for key, value in email.items() if value not in (None, "")}
        for email in resource.get("emails") or []
    ]
    if sum(bool(email.get("primary")) for email in emails) > 1:
        raise invalid("emails: at most one is primary.")
    attributes = {"emails": emails, "displayName": resource.get("displayName") or ""}
    return {key: value for key, value in attributes.items() if value}


def _check_free(name: str, email: str, user: User | None) -> None:
    """Raises ScimError (uniqueness) where another account has that name or address: sign-in would not know whom it means."""
    wanted = Q(username__iexact=name) | Q(email__iexact=name)
    if email:
        wanted |= Q(username__iexact=email) | Q(email__iexact=email)
    others = User.objects.filter(wanted) if (name + email).isascii() else _like(name, email)
    if user is not None:
        others = others.exclude(pk=user.pk)
    if others.exists():
        reason = "has an account here. Look it up by userName eq and change what is found."
        raise ScimError(409, f"{name} {reason}", "uniqueness")


def _like(name: str, email: str) -> QuerySet[User]:
    """The accounts of that name or address in any case: SQLite compares no letters but those of ASCII so."""
    meant = {text.casefold() for text in (name, email) if text}
    rows = User.objects.values_list("pk", "username", "email")
    keys = [key for key, *names in rows if meant & {people.plain(text).casefold() for text in names}]
    return User.objects.filter(pk__in=keys)


def members_of(group: ScimGroup) -> list[ScimPerson]:
    """The people of a group, in the order of their names."""
    return list(group.members.select_related("user").order_by("user__username"))
