"""Pages: the second factor, at the sign-in and where a person sets it up, turns it off and makes recovery codes."""

import re
from typing import Any

from allauth.account.adapter import get_adapter as get_account_adapter
from allauth.account.internal.flows.login import get_authentication_records
from allauth.account.internal.stagekit import clear_login, get_pending_stage
from allauth.account.utils import get_next_redirect_url
from allauth.core import context, ratelimit
from allauth.core.internal.cryptokit import normalize_user_code
from allauth.mfa.adapter import get_adapter
from allauth.mfa.base.forms import AuthenticateForm
from allauth.mfa.base.internal.flows import check_rate_limit
from allauth.mfa.base.views import AuthenticateView
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import generate_totp_secret
from django import forms
from django.contrib import admin, messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from unfold.widgets import BASE_INPUT_CLASSES

from agents_app import audit, sealing
from agents_app.access import person
from agents_app.accounts import second_factor, sessions
from agents_app.accounts.second_factor import SecondFactorError
from agents_app.signin import remember_browser
from routerweb.http import page
from routerweb.pages.shown_errors import show_errors_in

#: Where the secret lies, sealed, between the page with its QR code and the first code.
OFFERED = "offered"
USED_SECONDS = 120  # longer than any code is right
CODE = {"autocomplete": "one-time-code", "inputmode": "numeric", "spellcheck": "false", "autofocus": ""}


class CodeForm(AuthenticateForm):
    """A code at the sign-in: one of the app, each of them once, or a recovery code."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        code = self.fields["code"]
        code.label, code.max_length = _("Code"), 40
        code.widget.attrs = {**CODE, "class": " ".join(BASE_INPUT_CLASSES)}

    def clean_code(self) -> str:
        """The code, which works once. A wrong one counts as a guess; a right one does not, however often it is sent at once."""
        code = str(self.cleaned_data["code"])
        try:
            right = second_factor.right_one(self.user, code)
            if right is None:
                return str(super().clean_code())  # counts the guess, and refuses it
        except sealing.CannotOpen:
            raise forms.ValidationError(
                _("Your second factor cannot be read any more. Ask an admin of this site to reset it.")
            ) from None
        # allauth forgets a used code after half a minute, and a code of then may still be right. Of many requests one adds this.
        used = f"second-factor:{self.user.pk}:{normalize_user_code(code)}"
        if not cache.add(used, 1, timeout=USED_SECONDS):
            raise get_adapter().validation_error("incorrect_code")
        guesses = {"action": "login_failed", "key": f"mfa-auth-user-{self.user.pk}"}
        if not ratelimit.consume(context.request, **guesses, dry_run=True):
            cache.delete(used)
            raise get_account_adapter().validation_error("too_many_login_attempts")
        if not right.wrap().validate_code(code):
            raise get_adapter().validation_error("incorrect_code")
        ratelimit.clear(context.request, **guesses)
        self.authenticator = right
        return code

    def save(self) -> None:
        super().save()
        if self.authenticator.type == Authenticator.Type.RECOVERY_CODES:
            codes_left = second_factor.codes_left(self.user)
            audit.record(
                "person.recovery_code_used",
                actor=self.user,
                target=self.user.get_username(),
                detail={"left": codes_left},
            )


class ConfirmForm(forms.Form):
    """Asks who is signed in for their password once more; where they have none, as they come by the provider, for a code."""

    password = forms.CharField(
        label=gettext_lazy("Your password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
    )

    def __init__(self, request: HttpRequest, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.request, self.user = request, person(request)
        if not self.user.has_usable_password():
            del self.fields["password"]
            if second_factor.has_one(self.user):
                self.fields["code"] = CodeForm(user=self.user).fields["code"]

    def clean_password(self) -> str:
        password: str = self.cleaned_data["password"]
        if not ratelimit.consume(self.request, action="reauthenticate", user=self.user):
            raise forms.ValidationError(_("Too many attempts. Wait a minute."))
        if not self.user.check_password(password):
            raise forms.ValidationError(_("This is not your password."))
        return password

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        if "code" in cleaned and second_factor.has_one(self.user):
            code = CodeForm(user=self.user, data={"code": cleaned["code"]})
            if not code.is_valid():
                self.add_error("code", code.errors["code"])
        return cleaned


class SetUpForm(ConfirmForm):
    """The first code of a new secret, with the password."""

    code = forms.CharField(
        label=gettext_lazy("The six digits that the app shows"), max_length=40, widget=forms.TextInput(attrs=CODE)
    )
    field_order = ("code", "password")

    def clean_code(self) -> str:
        self.forget_attempts = check_rate_limit(self.user)
        return str(self.cleaned_data["code"])


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def second_factor_sign_in(request: HttpRequest) -> HttpResponseBase:
    """After the right password: asks for a code; `cancel` goes back to the sign-in."""
    stage = get_pending_stage(request)
    if request.method == "POST" and "cancel" in request.POST:
        clear_login(request)
        return redirect("account_login")
    user = stage.login.user if stage else None
    shell = admin.site.each_context(request)
    context = {**shell, "title": _("Your second factor"), "person": user.get_username() if user else ""}
    view = AuthenticateView.as_view(template_name="account/second_factor.html", extra_context=context)
    answer: HttpResponseBase = view(request)
    if request.method == "POST" and isinstance(request.user, User):
        for record in get_authentication_records(request, request.user):
            if record.get("method") == "password":
                remember_browser(answer, record.get("email") or record.get("username") or "")
    return answer


@login_required
@never_cache
@require_http_methods(["GET", "POST"])
def set_up(request: HttpRequest) -> HttpResponse:
    """The QR code of a new secret; the first right code turns the second factor on, and shows the recovery codes, once."""
    user = person(request)
    if second_factor.has_one(user):
        return redirect("account")
    required = second_factor.is_missing(request)
    form = SetUpForm(request, request.POST or None)
    sealed = request.POST.get(OFFERED, "")
    if request.method == "POST" and form.is_valid():
        with show_errors_in(form, SecondFactorError, sealing.CannotOpen, field="code"):
            codes = second_factor.turn_on(user, sealing.opened(sealed), form.cleaned_data["code"])
            form.forget_attempts()
            # Whoever else is in by the password alone is out.
            sessions.end_all(user, but=request.session.session_key)
            return _show_codes(request, codes, _("Your second factor is on"))
    try:
        secret = sealing.opened(sealed)
    except sealing.CannotOpen:  # the site's key was changed meanwhile
        secret = ""
    if not secret:
        secret = generate_totp_secret()
        sealed = sealing.seal(secret)
    context = {
        "form": form, "qr": _qr_code(user, secret), "secret": _in_fours(secret), "asked": required, "offered": sealed,
    }  # fmt: skip
    return _draw(request, "agents_app/second_factor.html", context, _("Set up a second factor"), alone=required)


def _qr_code(user: User, secret: str) -> SafeString:
    adapter = get_adapter()
    svg = adapter.build_totp_svg(adapter.build_totp_url(user, secret))
    return mark_safe(svg[svg.index("<svg") :])  # noqa: S308  # squares that the package drew: no text of anybody's is in it


def _in_fours(secret: str) -> str:
    return " ".join(re.findall(".{1,4}", secret))


@login_required
@never_cache
@require_http_methods(["GET", "POST"])
def turn_off(request: HttpRequest) -> HttpResponse:
    """Turns the second factor off, for the password."""
    user = person(request)
    form = ConfirmForm(request, request.POST or None)
    if request.method == "POST" and form.is_valid():
        with show_errors_in(form, SecondFactorError):
            second_factor.turn_off(user)
            messages.success(request, _("Your second factor is off. The password alone signs you in."))
            return redirect("account")
    context = {"form": form, "off": True, "asked": second_factor.is_asked_of(user)}
    return _draw(request, "agents_app/second_factor_confirm.html", context, _("Turn the second factor off"))


@login_required
@never_cache
@require_http_methods(["GET", "POST"])
def recovery_codes(request: HttpRequest) -> HttpResponse:
    """Makes ten new recovery codes, for the password, and shows them once."""
    form = ConfirmForm(request, request.POST or None)
    if request.method == "POST" and form.is_valid():
        with show_errors_in(form, SecondFactorError):
            return _show_codes(request, second_factor.new_codes(person(request)), _("Your recovery codes"))
    return _draw(request, "agents_app/second_factor_confirm.html", {"form": form}, _("New recovery codes"))


def _show_codes(request: HttpRequest, codes: list[str], title: str) -> HttpResponse:
    """The answer that makes codes is the only one that shows them."""
    shown = [f"{code[:4]} {code[4:]}" for code in codes]
    site = request.get_host()
    text = _("Recovery codes of %(person)s for %(site)s. Each works once.") % {
        "person": person(request).get_username(),
        "site": site,
    }
    target = get_next_redirect_url(request) or reverse("account")
    context = {"codes": shown, "file": "\r\n".join([text, "", *shown, ""]), "target": target}
    return _draw(request, "agents_app/recovery_codes.html", context, title)


def _draw(
    request: HttpRequest, template: str, context: dict[str, Any], title: str, *, alone: bool = False
) -> HttpResponse:
    """A page below the person's own; `alone` without the sidebar, whose pages they do not reach yet."""
    crumbs = [] if alone else [(_("Your account"), reverse("account"))]
    shell = {"is_nav_sidebar_enabled": False} if alone else {}
    return page(request, template, {**shell, **context}, title=title, crumbs=crumbs)
