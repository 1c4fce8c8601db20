"""Who may come in: people who were invited, by password or through the company's OpenID Connect provider.

django-allauth walks both ways. What is ours is said here: nobody signs up, at either door; a provider's word is taken only where its
token is signed with one of its published keys; and the person is found by the address that the provider has verified, again at
every sign-in. So nothing about the provider is stored, and an invitation is the one way to an account.
"""

import hashlib
import logging
from typing import Any

import jwt
from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.auth_backends import AuthenticationBackend
from allauth.account.internal.flows.login import AUTHENTICATION_METHODS_SESSION_KEY
from allauth.core import context, ratelimit
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.adapter import get_adapter as get_social_adapter
from allauth.socialaccount.models import SocialApp, SocialLogin
from allauth.socialaccount.providers.base.constants import AuthError, AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import User
from django.core import signing
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

log = logging.getLogger(__name__)

#: The name of the one provider in addresses: /login/oidc/callback/ is what is registered with it.
PROVIDER = "oidc"
# Public-key signatures alone: a key that both sides know could be the client's secret, and "none" is no signature.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
CLOCK_SKEW = 60  # seconds


def refusal(request: HttpRequest, title: str, reason: str, status: int = 403) -> HttpResponse:
    """The page for somebody who does not come in, in the sign-in page's look: why not, and what to do."""
    context = {**admin.site.each_context(request), "title": title, "reason": reason}
    return render(request, "account/refused.html", context, status=status)


class PasswordBackend(AuthenticationBackend):
    """One look-up and one password hash for every attempt, so that its time does not tell which addresses have accounts."""

    def _authenticate(self, request: HttpRequest | None, **credentials: Any) -> User | None:
        login = credentials.get("username") or credentials.get("email") or ""
        account: User | None = self._check_password(account_of(login), credentials["password"])
        return account


def account_of(login: str) -> User | None:
    """The account that somebody means: by its name in that spelling, in any, or by its address where only one has it."""
    accounts = list(User.objects.filter(Q(username__iexact=login) | Q(email__iexact=login)).order_by("pk")[:10])
    named = [user for user in accounts if user.username.casefold() == login.casefold()]
    exact = [user for user in named if user.username == login]
    for candidates in (exact, named, accounts):
        if candidates:
            return candidates[0] if len(candidates) == 1 else None
    return None


KNOWN_BROWSER = "routerweb_known"
KNOWN_SECONDS = 365 * 86_400


def remember_browser(response: HttpResponseBase, login: str) -> None:
    """Let this browser in to the account later, while others guess at it. The cookie holds a signed hash of the login alone."""
    value = signing.dumps(_login_hash(login), salt=KNOWN_BROWSER)
    response.set_cookie(
        KNOWN_BROWSER,
        value,
        max_age=KNOWN_SECONDS,
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )


def _is_known_browser(request: HttpRequest, login: str) -> bool:
    try:
        logins = signing.loads(request.COOKIES.get(KNOWN_BROWSER, ""), salt=KNOWN_BROWSER, max_age=KNOWN_SECONDS)
    except signing.BadSignature:
        return False
    return bool(logins == _login_hash(login))


def _login_hash(login: str) -> str:
    return hashlib.sha256(login.strip().lower().encode()).hexdigest()


class AccountAdapter(DefaultAccountAdapter):
    """Sign-in by password: no sign-up, our words, and no messages where the page itself says it."""

    error_messages = {
        **DefaultAccountAdapter.error_messages,
        **dict.fromkeys(
            ("email_password_mismatch", "username_password_mismatch"),
            gettext_lazy("The e-mail address or the password is wrong."),
        ),
        "too_many_login_attempts": gettext_lazy(
            "Too many failed attempts from your network address. Wait five minutes, or set a new password by “Forgotten your "
            "password?”. Your account is not locked: you can sign in from elsewhere."
        ),
        "too_many_for_account": gettext_lazy(
            "Too many failed attempts at this account, from many network addresses. Sign in from a browser that you have used "
            "before, set a new password by “Forgotten your password?”, or wait an hour."
        ),
    }

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def get_login_stages(self) -> list[str]:
        stages: list[str] = super().get_login_stages()
        if settings.SECOND_FACTOR_OIDC or not self._came_by_provider():
            return stages
        # The provider has asked for its own.
        return [stage for stage in stages if not stage.startswith("allauth.mfa.")]

    def _came_by_provider(self) -> bool:
        records = context.request.session.get(AUTHENTICATION_METHODS_SESSION_KEY) or []
        return bool(records) and records[-1].get("method") == "socialaccount"

    def forget_failures(self, request: HttpRequest, user: User) -> None:
        """Who has just set a new password need not wait for the old one's failures to lapse."""
        self._delete_login_attempts_cached_email(request, email=user.get_username())
        ratelimit.clear(request, action="account_failed", key=user.get_username().lower())

    def _get_login_attempts_cache_key(self, request: HttpRequest, **credentials: Any) -> str:
        # By account and network address together: by the account alone, five wrong passwords of anybody lock the right person out.
        return f"{super()._get_login_attempts_cache_key(request, **credentials)}:{self.get_client_ip(request)}"

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        super().pre_authenticate(request, **credentials)
        login = (credentials.get("email") or credentials.get("username") or "").lower()
        is_known = _is_known_browser(request, login)
        if not is_known and not ratelimit.consume(request, action="account_failed", key=login, dry_run=True):
            self._rollback_login_failed_rl_usage()
            raise self.validation_error("too_many_for_account")

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        login = (credentials.get("email") or credentials.get("username") or "").lower()
        ratelimit.consume(request, action="account_failed", key=login)

    def add_message(self, *args: Any, **kwargs: Any) -> None:
        """None of allauth's: that one is signed in, or out, is what the next page shows."""


class SocialAccountAdapter(DefaultSocialAccountAdapter):
    """Sign-in through the provider of the settings, for people who were invited."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return False

    def list_apps(
        self, request: HttpRequest, provider: str | None = None, client_id: str | None = None
    ) -> list[SocialApp]:
        """The settings' provider, or none; what stands in the database's table of providers plays no part."""
        if not settings.OIDC_ISSUER or provider not in (None, PROVIDER, "openid_connect"):
            return []
        app = SocialApp(
            provider="openid_connect",
            provider_id=PROVIDER,
            name=settings.OIDC_NAME,
            client_id=settings.OIDC_CLIENT_ID,
            secret=settings.OIDC_CLIENT_SECRET,
            settings={"server_url": settings.OIDC_ISSUER, "oauth_pkce_enabled": True},
        )
        return [app] if client_id in (None, app.client_id) else []

    def get_provider(self, request: HttpRequest, provider: str, client_id: str | None = None) -> Any:
        provider_ = super().get_provider(request, provider, client_id)
        provider_.oauth2_adapter_class = SignedOpenIDConnect
        return provider_

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Find the invited person, or answer with the page that says why nobody was found."""
        address = verified_address(sociallogin.account.extra_data)
        if not address:
            reason = _(
                "%(provider)s has not verified your e-mail address. Verify it there, or sign in with a password."
            )
            raise self._refused(request, "its address is not verified", _("Your address is not verified"), reason)
        user = account_of(address)
        if user is None:
            reason = _("%(address)s has not been invited. Ask an admin of this site for an invitation.")
            raise self._refused(request, "it was not invited", _("You have no account here"), reason, address)
        if not user.is_active:
            reason = _("The account of %(address)s was deactivated. Ask an admin of this site.")
            raise self._refused(request, "it was deactivated", _("Your account is deactivated"), reason, address)
        sociallogin.user = user
        # Never "connect" or "redirect", whatever the address asked for: nothing of the provider is stored.
        sociallogin.state["process"] = AuthProcess.LOGIN

    def _refused(
        self, request: HttpRequest, why: str, title: str, reason: str, address: str = ""
    ) -> ImmediateHttpResponse:
        log.warning("Sign-in through %s refused: %s%s", settings.OIDC_NAME, why, f" ({address})" if address else "")
        words = {"provider": settings.OIDC_NAME, "address": address}
        return ImmediateHttpResponse(refusal(request, title, reason % words))

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: Any = None,
        exception: Exception | None = None,
        extra_context: Any = None,
    ) -> None:
        raise ImmediateHttpResponse(failure(request, exception, cancelled=error == AuthError.CANCELLED))


def failure(request: HttpRequest, exception: Exception | None, *, cancelled: bool = False) -> HttpResponse:
    """The page for a walk to the provider and back that broke off; the log has the reason."""
    if cancelled:
        reason = _("You cancelled at %(provider)s. Nothing was changed.")
        return refusal(request, _("You are not signed in"), reason % {"provider": settings.OIDC_NAME})
    log.warning("Sign-in through %s failed: %r", settings.OIDC_NAME, exception or "the state or the code is missing")
    reason = _(
        "The answer of %(provider)s is invalid: it came too late, twice, or from elsewhere. "
        "Try again. If that does not help, tell an admin."
    )
    return refusal(request, _("You are not signed in"), reason % {"provider": settings.OIDC_NAME}, status=401)


def verified_address(claims: dict[str, Any]) -> str:
    """The address that the provider says it has verified, in small letters, or "".

    `claims` has the parts "userinfo" and "id_token", each as the provider gave it; an address counts only with its own part's word
    for it, which is true, or the text "true" that some providers send.
    """
    for part in (claims.get("userinfo"), claims.get("id_token")):
        if not isinstance(part, dict) or not isinstance(part.get("email"), str):
            continue
        if part.get("email_verified") in (True, "true"):
            return str(part["email"]).strip().lower()
    return ""


class SignedOpenIDConnect(OpenIDConnectOAuth2Adapter):
    """allauth's walk, with the ID token's signature checked always, and held together with the rest of the answer."""

    @property
    def openid_config(self) -> dict[str, Any]:
        try:
            config: dict[str, Any] = super().openid_config
        except AttributeError:
            raise OAuth2Error(f"the configuration of {settings.OIDC_ISSUER} is not a JSON object") from None
        if str(config["issuer"]).rstrip("/") != settings.OIDC_ISSUER:
            raise OAuth2Error(f"OIDC_ISSUER is {settings.OIDC_ISSUER}, but its configuration says {config['issuer']!r}")
        return config

    def complete_login(self, request: HttpRequest, app: SocialApp, token: Any, **kwargs: Any) -> SocialLogin:
        signed = self._decode_id_token(app, kwargs["response"].get("id_token") or "")
        claims = {"id_token": signed, "userinfo": None}
        if "userinfo_endpoint" in self.openid_config:
            about = claims["userinfo"] = self._fetch_user_info(token.token)
            # OpenID Connect Core 1.0, 5.3.2: otherwise the two may be of different people.
            if not isinstance(about, dict) or about.get("sub") != signed["sub"]:
                raise OAuth2Error("the userinfo is not of the person of the ID token")
        return self.get_provider().sociallogin_from_response(request, claims)

    def _decode_id_token(self, app: SocialApp, id_token: str) -> dict[str, Any]:
        """The token's claims. Raises OAuth2Error unless it is signed by the issuer, for this client, and in time."""
        try:
            header = jwt.get_unverified_header(id_token)
            decoded: dict[str, Any] = jwt.decode(
                id_token,
                key=self._signing_key(header.get("kid")),
                algorithms=ALGORITHMS,
                audience=app.client_id,
                issuer=self.openid_config["issuer"],
                leeway=CLOCK_SKEW,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except (jwt.PyJWTError, TypeError, AttributeError) as error:
            raise OAuth2Error(f"the ID token is refused: {error}") from error
        return decoded

    def _signing_key(self, kid: str | None) -> jwt.PyJWK:
        with get_social_adapter().get_requests_session() as session:
            answer = session.get(self.openid_config["jwks_uri"])
            answer.raise_for_status()
            keys = jwt.PyJWKSet.from_dict(answer.json()).keys
        signing = [key for key in keys if key.public_key_use in (None, "sig") and kid in (None, key.key_id)]
        if len(signing) != 1:
            raise OAuth2Error(f"the ID token names a key that {settings.OIDC_ISSUER} has not published")
        return signing[0]
