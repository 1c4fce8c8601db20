"""Groups of an identity provider: their members have the role that an admin, or its name, gives the group.

A group named `routerweb-ops` gives that role in all pools, `routerweb-support-ops` in the pool `support`; another one gives none
until an admin says which, under People → Provisioning.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.access import Role
from agents_app.audit import Actor, Who, actor_of
from agents_app.models import Pool, ScimGroup, ScimPerson
from agents_app.scim import documents, people
from agents_app.scim.errors import ScimError, invalid
from agents_app.scim.schemas import GROUP

#: What may be asked of groups, and the field that it stands for.
COLUMNS = {
    "id": "uid", "displayname": "name", "externalid": "external_id", "members": "members__uid", "members.value": "members__uid",
    "meta.created": "created_at", "meta.lastmodified": "changed_at",
}  # fmt: skip
PREFIX = "routerweb-"


class GroupRefused(Exception):
    """A role that a group cannot give; the message says why."""


def as_json(group: ScimGroup, base: str, *, members: bool = True) -> dict[str, Any]:
    """A group as SCIM shows it, with its members or without; `base` is the address of /scim/v2."""
    document = {
        "schemas": [GROUP],
        "id": str(group.uid),
        "externalId": group.external_id,
        "displayName": group.name,
        "members": [
            {"value": str(person.uid), "$ref": f"{base}/Users/{person.uid}"}
            for person in (people.members_of(group) if members else ())
        ],
        "meta": {
            "resourceType": "Group", "created": group.created_at.isoformat(), "lastModified": group.changed_at.isoformat(),
            "location": f"{base}/Groups/{group.uid}",
        },
    }  # fmt: skip
    return {key: value for key, value in document.items() if value not in ("", [])}


def create(document: Mapping[str, Any], actor: Actor) -> ScimGroup:
    """A new group, with the role that its name says. Raises ScimError."""
    values = documents.group(document)
    with transaction.atomic():
        _check_free(values["displayName"], None)
        role, pool = role_of_name(values["displayName"])
        group = ScimGroup.objects.create(name=values["displayName"], role=role, pool=pool)
        audit.record(
            "scim_group.created", actor=actor, target=group.name, pool=pool, detail={"role": role} if role else {}
        )
        _change(group, values, actor)
    return group


def change(group: ScimGroup, document: Mapping[str, Any], actor: Actor) -> ScimGroup:
    """Bring a group to what the identity provider says of it. Raises ScimError."""
    values = documents.group(document)
    with transaction.atomic():
        _change(group, values, actor)
    return group


def remove(group: ScimGroup, actor: Actor) -> None:
    """Delete a group; its members lose what it gave them. Raises ScimError for the last admin."""
    with transaction.atomic():
        members = people.members_of(group)
        audit.record("scim_group.deleted", actor=actor, target=group.name, pool=group.pool)
        group.delete()
        _grant(members, actor)


def set_role(group: ScimGroup, role: str, pool: Pool | None, actor: Who) -> None:
    """Which role a group's members have, in one pool or in all; "" is none. They have it at once. Raises GroupRefused."""
    if role and role not in list(Role):
        raise GroupRefused(_("“%(role)s” is not a role.") % {"role": role})
    if role == Role.ADMIN and pool is not None:
        raise GroupRefused(_("The role admin is for all pools. In one pool, choose labeler, reviewer or ops."))
    pool = pool if role else None
    try:
        with transaction.atomic():
            if (group.role, group.pool_id) == (role, pool.pk if pool else None):
                return
            group.role, group.pool, group.changed_at = role, pool, timezone.now()
            group.save()
            audit.record("scim_group.role", actor=actor, target=group.name, pool=pool, detail={"role": role})
            _grant(people.members_of(group), actor_of(actor))
    except ScimError as error:
        raise GroupRefused(error.detail) from None


def role_of_name(name: str) -> tuple[str, Pool | None]:
    """The role, and the pool, that a group's name says; "" where it says none."""
    name = name.strip().lower()
    if not name.startswith(PREFIX):
        return "", None
    where, _dash, role = name.removeprefix(PREFIX).rpartition("-")
    if role not in list(Role):
        return "", None
    if not where:
        return role, None
    pool = Pool.objects.in_use().filter(slug=where).first()
    return ("", None) if pool is None or role == Role.ADMIN else (role, pool)


def _change(group: ScimGroup, resource: Mapping[str, Any], actor: Actor) -> None:
    name, external = resource["displayName"], resource.get("externalId") or ""
    if name != group.name:
        _check_free(name, group)
        # A name is read once, when the group comes: a rename in the provider's directory gives nobody a role.
        audit.record("scim_group.renamed", actor=actor, target=name, detail={"before": group.name})
    changed = (name, external) != (group.name, group.external_id)
    group.name, group.external_id = name, external
    wanted = _people({member["value"] for member in resource.get("members") or ()})
    held = {person.pk: person for person in people.members_of(group)}
    came = [person for person in wanted if person.pk not in held]
    went = [person for pk, person in held.items() if pk not in {person.pk for person in wanted}]
    if changed or came or went:
        group.changed_at = timezone.now()
        group.save()
    if came or went:
        group.members.add(*came)
        group.members.remove(*went)
        audit.record(
            "scim_group.members", actor=actor, target=group.name, pool=group.pool,
            detail={
                "added": [person.user.get_username() for person in came[:100]],
                "removed": [person.user.get_username() for person in went[:100]],
            },
        )  # fmt: skip
        _link(came, actor)
        _grant([*came, *went], actor)


def _people(ids: set[UUID]) -> list[ScimPerson]:
    people = list(ScimPerson.objects.not_removed().filter(uid__in=ids).select_related("user"))
    if missing := ids - {person.uid for person in people}:
        raise invalid(f"members: there is nobody with the id {min(map(str, missing))} here.")
    return people


def _link(people: Iterable[ScimPerson], actor: Actor) -> None:
    """Who was made by hand and looked up is looked after from here on."""
    for person in people:
        if person.linked_at is None and not person.user.is_superuser:
            person.linked_at = timezone.now()
            person.save(update_fields=("linked_at",))
            audit.record("person.linked", actor=actor, target=person.user.get_username())


def _grant(persons: Iterable[ScimPerson], actor: Actor) -> None:
    for person in persons:
        people.grant(person, actor)


def _check_free(name: str, group: ScimGroup | None) -> None:
    others = ScimGroup.objects.filter(name__iexact=name)
    if group is not None:
        others = others.exclude(pk=group.pk)
    if others.exists():
        raise ScimError(409, f"There is a group {name!r} already. Look it up by displayName eq.", "uniqueness")
