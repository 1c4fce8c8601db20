"""People: invited by e-mail or link, given one role, deactivated without losing what they labeled."""

from dataclasses import dataclass
from smtplib import SMTPException

from django.conf import settings
from django.contrib.auth.hashers import UNUSABLE_PASSWORD_PREFIX
from django.contrib.auth.models import Group, User
from django.contrib.auth.tokens import default_token_generator
from django.core.exceptions import ValidationError
from django.core.mail import send_mail
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils.encoding import force_bytes
from django.utils.http import urlsafe_base64_encode
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.access import Role


class PeopleError(Exception):
    """A change of an account that cannot be made; the message says why."""


@dataclass(frozen=True, slots=True)
class Invitation:
    """An account and the link by which its person sets a password, once. `mailed` says whether the link went out by e-mail;
    `problem` says why not, where it should have."""

    user: User
    link: str
    mailed: bool = False
    problem: str = ""


def username_of(email: str) -> str:
    """The user name that belongs to an address: the address in small letters. Raises PeopleError when it is not one."""
    email = email.strip().lower()
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


def set_password_link(user: User, base_url: str = "") -> str:
    """A link that lets its bearer set the user's password: once, and within INVITATION_DAYS."""
    token = default_token_generator.make_token(user)
    uid = urlsafe_base64_encode(force_bytes(user.pk))
    return (base_url or settings.SITE_URL).rstrip("/") + reverse("password_reset_confirm", args=(uid, token))


def invite(
    email: str, role: Role | str, inviter: User | None, *, base_url: str = "", actor_name: str = ""
) -> Invitation:
    """An account for that address, without a password yet, in that role's group, and its set-password link.

    The link goes out by e-mail where EMAIL_HOST is set, and is returned in any case for delivery by hand. Raises PeopleError for
    a bad address, an unknown role, or an address that has an account.
    """
    username, role = username_of(email), _known_role(role)
    with transaction.atomic():
        known = User.objects.filter(username__iexact=username).first()
        if known is not None:
            raise PeopleError(
                _("%(email)s has an account already.") % {"email": username}
                if known.is_active
                else _("%(email)s has an account that was deactivated. Reactivate it instead.") % {"email": username}
            )
        user = User(username=username, email=username, is_staff=True)
        user.set_unusable_password()
        user.save()
        user.groups.add(_group(role))
        audit.record(
            "person.invited", actor=inviter, actor_name=actor_name, target=username, detail={"role": role.value}
        )
    return _delivered(user, base_url, _("You are invited to %(site)s"))


def new_link(user: User, actor: User | None, *, base_url: str = "", actor_name: str = "") -> Invitation:
    """Another set-password link for a person who lost the first one or the password. Raises PeopleError when deactivated."""
    if not user.is_active:
        raise PeopleError(_("%(email)s is deactivated. Reactivate the account first.") % {"email": user.get_username()})
    audit.record("person.password_link", actor=actor, actor_name=actor_name, target=user.get_username())
    return _delivered(user, base_url, _("Your password for %(site)s"))


def _delivered(user: User, base_url: str, subject: str) -> Invitation:
    link = set_password_link(user, base_url)
    if not settings.EMAIL_HOST or not user.email:
        return Invitation(user, link)
    site = settings.UNFOLD["SITE_TITLE"]
    days = settings.PASSWORD_RESET_TIMEOUT // 86_400
    body = _(
        "Hello,\n\nset your password for %(site)s here:\n%(link)s\n\nThe link works once, within %(days)d days. "
        "You sign in with this e-mail address.\n"
    ) % {"site": site, "link": link, "days": days}
    try:
        send_mail(subject % {"site": site}, body, settings.DEFAULT_FROM_EMAIL, [user.email])
    except (OSError, SMTPException) as error:
        return Invitation(user, link, problem=_("The e-mail could not be sent: %(why)s") % {"why": error})
    return Invitation(user, link, mailed=True)


def set_role(user: User, role: Role | str, actor: User | None, *, actor_name: str = "") -> User:
    """Give a person another role. Raises PeopleError for an unknown one, or when the last active admin would go."""
    role = _known_role(role)
    with transaction.atomic():
        before = role_of(user)
        if role == before:
            return user
        if role != Role.ADMIN:
            _keep_an_admin(user)
            User.objects.filter(pk=user.pk).update(is_superuser=False)
        user.groups.remove(*Group.objects.filter(name__in=list(Role)))
        user.groups.add(_group(role))
        audit.record(
            "person.role",
            actor=actor,
            actor_name=actor_name,
            target=user.get_username(),
            detail={"before": before.value if before else None, "role": role.value},
        )
    return User.objects.get(pk=user.pk)


def deactivate(user: User, actor: User | None, *, actor_name: str = "") -> User:
    """Close an account at once, its open sessions too; its labels and entries stay. Raises PeopleError for the last active admin."""
    with transaction.atomic():
        _keep_an_admin(user)
        if User.objects.filter(pk=user.pk, is_active=True).update(is_active=False):
            audit.record("person.deactivated", actor=actor, actor_name=actor_name, target=user.get_username())
    user.is_active = False
    return user


def reactivate(user: User, actor: User | None, *, actor_name: str = "") -> User:
    """Open a deactivated account again, in the role that it had."""
    with transaction.atomic():
        if User.objects.filter(pk=user.pk, is_active=False).update(is_active=True):
            audit.record("person.reactivated", actor=actor, actor_name=actor_name, target=user.get_username())
    user.is_active = True
    return user


def admins() -> QuerySet[User]:
    """Active people with every right who can sign in; those who never took up their invitation do not count."""
    return (
        User.objects.filter(is_active=True)
        .filter(Q(is_superuser=True) | Q(groups__name=Role.ADMIN.value))
        .exclude(Q(password__startswith=UNUSABLE_PASSWORD_PREFIX) & Q(last_login__isnull=True))
        .distinct()
    )


def _keep_an_admin(user: User) -> None:
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
