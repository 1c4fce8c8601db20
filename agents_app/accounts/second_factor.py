"""The second factor at sign-in: six digits from an app on the person's own device (TOTP, RFC 6238), or one of ten recovery codes.

django-allauth keeps and checks them. What is ours: their secrets are sealed before they are stored, whom the site asks for one
(`SECOND_FACTOR`), that nobody who is asked reaches a page before they have it, and that all of it stands in the audit trail. A
sign-in through the company's provider needs none here, as the provider asks for its own, unless SECOND_FACTOR_OIDC says otherwise.
"""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from allauth.account.internal.flows.login import get_authentication_records
from allauth.core.internal.cryptokit import compare_user_code
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, validate_totp_code
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents_app import audit, sealing
from agents_app.access import Role, roles_anywhere
from agents_app.accounts import sessions
from agents_app.accounts.people import keep_station
from agents_app.audit import Who

#: What somebody without their second factor still opens: what sets it up, and the way out.
STILL_OPEN = frozenset({"second_factor_set_up", "account_logout", "set_language", "account_login", "mfa_authenticate"})


class SecondFactorError(Exception):
    """A change of a second factor that cannot be made; the message says why."""


class Adapter(DefaultMFAAdapter):
    """allauth's, with secrets sealed as those of executors are, and in our words."""

    error_messages = {
        **DefaultMFAAdapter.error_messages,
        "incorrect_code": gettext_lazy(
            "This code is wrong. Codes change every 30 seconds and work once: wait for the next one, and check that your "
            "device's clock is right."
        ),
    }

    def get_totp_issuer(self) -> str:
        return str(settings.UNFOLD["SITE_TITLE"])

    def encrypt(self, text: str) -> str:
        return sealing.seal(text)

    def decrypt(self, encrypted_text: str) -> str:
        return sealing.opened(encrypted_text)


def has_one(user: User) -> bool:
    """Whether a person is asked for a second factor when they sign in by password."""
    return Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).exists()


def has_them(users: "list[User]") -> set[int]:
    """The keys of those among these people who have one."""
    authenticators = Authenticator.objects.filter(user__in=users, type=Authenticator.Type.TOTP)
    return set(authenticators.values_list("user_id", flat=True))


def codes_left(user: User) -> int:
    """How many of a person's recovery codes have not been used."""
    recovery_codes = Authenticator.objects.filter(user=user, type=Authenticator.Type.RECOVERY_CODES).first()
    return (
        0
        if recovery_codes is None
        else settings.MFA_RECOVERY_CODE_COUNT - int(recovery_codes.data["used_mask"]).bit_count()
    )


def right_one(user: User, code: str) -> Authenticator | None:
    """What of a person's second factor a code is right for, used before or not; None for a wrong one. Raises CannotOpen."""
    for authenticator in Authenticator.objects.filter(user=user):
        codes = authenticator.wrap()
        if isinstance(codes, TOTP) and validate_totp_code(sealing.opened(authenticator.data["secret"]), code):
            return authenticator
        if isinstance(codes, RecoveryCodes) and any(
            compare_user_code(actual=code, expected=recovery_code) for recovery_code in codes.generate_codes()
        ):
            return authenticator
    return None


def is_asked_of(user: User) -> bool:
    """Whether the site asks this person for a second factor, by what they may do in any pool."""
    if settings.SECOND_FACTOR == "ops":
        return bool(roles_anywhere(user) & {Role.OPS, Role.ADMIN})
    return bool(settings.SECOND_FACTOR == "everybody")


def came_by_provider(request: HttpRequest, user: Any) -> bool:
    """Whether this session began at the company's provider, which asks for factors of its own."""
    began = [record["method"] for record in get_authentication_records(request, user) if record["method"] != "mfa"]
    return began[-1:] == ["socialaccount"]


def is_missing(request: HttpRequest) -> bool:
    """Whether the signed-in person of a request has to set up a second factor before they reach anything."""
    user = request.user
    if settings.SECOND_FACTOR == "nobody" or not isinstance(user, User) or not is_asked_of(user) or has_one(user):
        return False
    return settings.SECOND_FACTOR_OIDC or not came_by_provider(request, user)


class AskedFor:
    """Middleware: whom the site asks for a second factor, and who has none, is led to set it up, whatever they wanted to open."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: Any) -> HttpResponse | None:
        """The way to the page where it is set up, or None. Raises PermissionDenied where something would change."""
        name = request.resolver_match.url_name if request.resolver_match else None
        if settings.SECOND_FACTOR == "nobody" or name in STILL_OPEN or request.path == reverse("admin:logout"):
            return None
        if not is_missing(request):
            return None
        if request.method not in ("GET", "HEAD"):
            raise PermissionDenied(_("This site requires a second factor. Set it up first."))
        return redirect(f"{reverse('second_factor_set_up')}?{urlencode({'next': request.get_full_path()})}")


def turn_on(user: User, secret: str, code: str) -> list[str]:
    """Ask this person for codes of `secret` from now on. Returns their recovery codes, which are told once; raises
    SecondFactorError where `code` is not one of the secret's now, or they have a second factor already."""
    if not validate_totp_code(secret, code):
        raise SecondFactorError(str(Adapter.error_messages["incorrect_code"]))
    with transaction.atomic():
        User.objects.select_for_update().get(pk=user.pk)
        if has_one(user):
            raise SecondFactorError(_("You have a second factor already. Turn it off first."))
        TOTP.activate(user, secret)
        codes = _fresh_codes(user)
        audit.record("person.second_factor_on", actor=user, target=user.get_username())
    return codes


def new_codes(user: User) -> list[str]:
    """Ten fresh recovery codes, which are told once; earlier ones stop working. Raises SecondFactorError without a second factor."""
    with transaction.atomic():
        User.objects.select_for_update().get(pk=user.pk)
        if not has_one(user):
            raise SecondFactorError(_("You have no second factor. Set it up first."))
        codes = _fresh_codes(user)
        audit.record("person.recovery_codes", actor=user, target=user.get_username())
    return codes


def _fresh_codes(user: User) -> list[str]:
    Authenticator.objects.filter(user=user, type=Authenticator.Type.RECOVERY_CODES).delete()
    codes: list[str] = RecoveryCodes.activate(user).generate_codes()
    return codes


def turn_off(user: User) -> None:
    """Ask this person for their password alone from now on. Raises SecondFactorError where the site asks them for more."""
    if is_asked_of(user):
        raise SecondFactorError(_("This site requires a second factor, so you cannot turn yours off."))
    with transaction.atomic():
        if Authenticator.objects.filter(user=user).delete()[0]:
            audit.record("person.second_factor_off", actor=user, target=user.get_username())


def reset(user: User, actor: Who) -> bool:
    """Take away the second factor of somebody who lost theirs, and end their sessions; whether they had one. Where the site asks for
    one, they set up another after their next sign-in. Raises PeopleError where an admin would change a superuser."""
    keep_station(user, actor)
    with transaction.atomic():
        if not Authenticator.objects.filter(user=user).delete()[0]:
            return False
        sessions.end_all(user)
        audit.record("person.second_factor_reset", actor=actor, target=user.get_username())
    return True


def reseal() -> int:
    """Seal every person's secrets under the present SECRET_KEY; how many. Raises CannotOpen, and then changes none."""
    with transaction.atomic():
        authenticators = list(Authenticator.objects.select_for_update())
        for authenticator in authenticators:
            for name in {"secret", "seed"} & authenticator.data.keys():
                authenticator.data[name] = sealing.seal(sealing.opened(authenticator.data[name]))
        Authenticator.objects.bulk_update(authenticators, ["data"])
    return len(authenticators)
