"""People: invited by e-mail or link, given one role, deactivated without losing what they labeled."""

import re
import unicodedata
from dataclasses import dataclass

from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.access import Role
from agents_app.accounts import mail, sessions
from agents_app.audit import Who, actor_of
from agents_app.models import ApiKey, Pool, PoolRole, Stamp

#: What an account is called of which nothing but labels and entries is left; its number follows.
FORMER = "former member #"
#: Categories of characters that nobody sees: controls, format and direction marks, line and paragraph separators, unassigned ones.
UNSEEN = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"))


class PeopleError(Exception):
    """A change of an account that cannot be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Invitation:
    """An account and the link by which its person sets a password, once. `mailed` says whether a worker mails one too."""

    user: User
    link: str
    mailed: bool = False


def plain(text: str) -> str:
    """A name or address with full-width and composed letters as plain ones, and single spaces."""
    return re.sub(" +", " ", unicodedata.normalize("NFKC", text)).strip(" ")


def user_name(text: str) -> str:
    """A user name as it is stored, plain. Raises PeopleError for one with a line break, a direction mark or another character that
    nobody sees, and for one that is kept for former members."""
    name = plain(text)
    if not name or any(unicodedata.category(letter) in UNSEEN for letter in name):
        raise PeopleError(_("A user name must not contain line breaks, direction marks or other invisible characters."))
    if len(name) > 150:
        raise PeopleError(_("The user name is longer than 150 characters."))
    if name.casefold().startswith(FORMER):
        raise PeopleError(_("Names that begin with “%(former)s” are kept for erased accounts.") % {"former": FORMER})
    return name


def username_of(email: str) -> str:
    """The user name that belongs to an address: the address in small, plain letters. Raises PeopleError when it is not one."""
    email = plain(email).lower()
    try:
        validate_email(email)
    except ValidationError:
        raise PeopleError(_("“%(email)s” is not an e-mail address.") % {"email": email}) from None
    if len(email) > 150:
        raise PeopleError(_("The e-mail address is longer than 150 characters."))
    return email


def role_of(user: User) -> Role | None:
    """The role that was given to a person. Reads `user.groups`, so prefetch it for lists."""
    if user.is_superuser:
        return Role.ADMIN
    names = {group.name for group in user.groups.all()}
    return next((role for role in reversed(Role) if role in names), None)


def invite(email: str, role: Role | str, inviter: Who, *, base_url: str = "", pool: Pool | None = None) -> Invitation:
    """An account for that address, without a password yet, in that role's group or, in `pool` alone, with that role, and its
    set-password link.

    A worker mails it where EMAIL_HOST is set; it is returned in any case for delivery by hand. Raises PeopleError for
    a bad address, an unknown role, or an address that has an account.
    """
    username, role = username_of(email), _known_role(role)
    with transaction.atomic():
        account = User.objects.filter(username__iexact=username).first()
        if account is not None:
            raise PeopleError(
                _("%(email)s has an account already.") % {"email": username}
                if account.is_active
                else _("%(email)s has an account that was deactivated. Reactivate it instead.") % {"email": username}
            )
        user = User(username=username, email=username, is_staff=True)
        user.set_unusable_password()
        user.save()
        if pool is None:
            user.groups.add(_group(role))
        else:
            PoolRole.objects.create(user=user, pool=pool, role=_of_a_pool(role))
        audit.record("person.invited", actor=inviter, target=username, pool=pool, detail={"role": role.value})
    return _delivered(user, mail.Kind.INVITATION, base_url)


def new_link(user: User, actor: Who, *, base_url: str = "") -> Invitation:
    """Another set-password link for a person who lost the first one or the password. Raises PeopleError when they are
    deactivated, or a superuser and the actor is none."""
    if not user.is_active:
        raise PeopleError(_("%(email)s is deactivated. Reactivate the account first.") % {"email": user.get_username()})
    keep_station(user, actor)
    audit.record("person.password_link", actor=actor, target=user.get_username())
    return _delivered(user, mail.Kind.NEW_LINK, base_url)


def _delivered(user: User, kind: mail.Kind, base_url: str) -> Invitation:
    link = mail.set_password_link(user, base_url)
    return Invitation(user, link, mailed=mail.link_later(user, kind, base_url))


def set_role(user: User, role: Role | str | None, actor: Who) -> User:
    """Give a person another role for all pools, or None: what they are in single pools stays. Raises PeopleError for an unknown one,
    when the last active admin would go, or an admin would lower a superuser."""
    role = _known_role(role) if role else None
    keep_station(user, actor)
    with transaction.atomic():
        before = role_of(user)
        if role == before:
            return user
        if role != Role.ADMIN:
            keep_an_admin(user)
            User.objects.filter(pk=user.pk).update(is_superuser=False)
        user.groups.remove(*Group.objects.filter(name__in=list(Role)))
        if role:
            user.groups.add(_group(role))
        audit.record(
            "person.role",
            actor=actor,
            target=user.get_username(),
            detail={"before": before.value if before else None, "role": role.value if role else None},
        )
    return User.objects.get(pk=user.pk)


def set_pool_role(user: User, pool: Pool, role: Role | str | None, actor: Who) -> None:
    """Make a person labeler, reviewer or ops of one pool, beside what they are in all of them; None takes it away. Raises
    PeopleError for another role, and where an admin would change a superuser."""
    wanted = _of_a_pool(_known_role(role)) if role else None
    keep_station(user, actor)
    with transaction.atomic():
        before = PoolRole.objects.filter(user=user, pool=pool).values_list("role", flat=True).first()
        if before == wanted:
            return
        if wanted:
            PoolRole.objects.update_or_create(user=user, pool=pool, defaults={"role": wanted})
        else:
            PoolRole.objects.filter(user=user, pool=pool).delete()
        audit.record(
            "person.pool_role", actor=actor, target=user.get_username(), pool=pool,
            detail={"before": before, "role": wanted},
        )  # fmt: skip


def _of_a_pool(role: Role) -> str:
    if role.value not in PoolRole.Role.values:
        raise PeopleError(_("The role admin is for all pools. In one pool, choose labeler, reviewer or ops."))
    return role.value


def deactivate(user: User, actor: Who) -> User:
    """Close an account at once: its sessions end for good, and the API keys that it made or that label as it stop working until it
    is reactivated. Its labels and entries stay. Raises PeopleError for the last active admin, and where an admin would close a
    superuser's account."""
    keep_station(user, actor)
    with transaction.atomic():
        keep_an_admin(user)
        if User.objects.filter(pk=user.pk, is_active=True).update(is_active=False):
            stopped = [str(key) for key in keys_of(user)]
            audit.record(
                "person.deactivated", actor=actor, target=user.get_username(),
                detail={"keys_stopped": stopped} if stopped else {},
            )  # fmt: skip
            sessions.end_all(user)
            Stamp.bump()
    user.is_active = False
    return user


def reactivate(user: User, actor: Who) -> User:
    """Open a deactivated account again, in the role that it had, with its keys. Nobody is signed in by that. Raises PeopleError
    where an admin would open a superuser's, and where nothing but labels is left of the account."""
    keep_station(user, actor)
    if is_former(user):
        raise PeopleError(_("%(name)s has been erased. Invite the person again.") % {"name": user.get_username()})
    with transaction.atomic():
        if User.objects.filter(pk=user.pk, is_active=False).update(is_active=True):
            audit.record("person.reactivated", actor=actor, target=user.get_username())
            sessions.end_all(user)
            Stamp.bump()
    user.is_active = True
    return user


def is_former(user: User) -> bool:
    """Whether nothing but the labels and entries of this account is left."""
    return user.username.startswith(FORMER) and not user.is_active


def keys_of(user: User) -> QuerySet[ApiKey]:
    """The keys that stop with this person: those that they made, and those whose labels are theirs."""
    return ApiKey.objects.filter(Q(created_by=user) | Q(person=user), revoked_at__isnull=True).order_by("name")


def keep_station(user: User, actor: Who) -> None:
    """A superuser's account is a superuser's, or the command line's, to change. Raises PeopleError."""
    by = actor_of(actor).user
    if user.is_superuser and by is not None and not by.is_superuser:
        raise PeopleError(
            _("%(email)s is a superuser. Only a superuser may change that account.") % {"email": user.get_username()}
        )


def admins() -> QuerySet[User]:
    """Active people with every right who can sign in; those who never took up their invitation do not count."""
    return (
        User.objects.filter(is_active=True)
        .filter(Q(is_superuser=True) | Q(groups__name=Role.ADMIN.value))
        .exclude(Q(password__startswith=UNUSABLE_PASSWORD_PREFIX) & Q(last_login__isnull=True))
        .distinct()
    )


def keep_an_admin(user: User) -> None:
    """To be called in a transaction. Raises PeopleError where no active admin but this one is left."""
    # The lock on the group's row makes two admins who take each other's role away at once do it one after the other.
    Group.objects.select_for_update().get_or_create(name=Role.ADMIN.value)
    current = admins()
    if current.filter(pk=user.pk).exists() and not current.exclude(pk=user.pk).exists():
        raise PeopleError(
            _("%(email)s is the last active admin. Make another admin first.") % {"email": user.get_username()}
        )


def _known_role(role: Role | str) -> Role:
    try:
        return Role(role)
    except ValueError:
        raise PeopleError(
            _("“%(role)s” is not a role. Choose from %(roles)s.") % {"role": role, "roles": ", ".join(Role)}
        ) from None


def _group(role: Role) -> Group:
    return Group.objects.get_or_create(name=role.value)[0]
