"""Pages: the one door, and the way to the company's provider and back. allauth's views, drawn in unfold's look."""

from collections.abc import Callable
from urllib.parse import urlencode

import requests
from allauth.account.utils import get_next_redirect_url
from allauth.account.views import LoginView, LogoutView
from allauth.socialaccount.models import SocialApp
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from django.conf import settings
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from agents_app.accounts import setup
from agents_app.signin import SignedOpenIDConnect, failure, refusal, remember_browser
from agents_app.views.setup import waiting


@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponseBase:
    """By e-mail and password, or a button that leads to the provider of the settings."""
    if request.method == "GET" and not settings.OIDC_ISSUER and setup.is_new():
        return waiting(request)
    shell = admin.site.each_context(request)
    context = {**shell, "title": _("Sign in"), "oidc_name": settings.OIDC_NAME if settings.OIDC_ISSUER else ""}
    answer = LoginView.as_view(extra_context=context)(request)
    if request.method == "POST" and request.user.is_authenticated:
        remember_browser(answer, request.POST.get("login", ""))
    return answer


@never_cache
def admin_sign_in(request: HttpRequest) -> HttpResponse:
    """The admin's own door leads to the one door; who stands inside but may not open the admin is told so."""
    user = request.user
    if user.is_authenticated and not admin.site.has_permission(request):
        raise PermissionDenied(_("Your account has no access to the admin site. Ask an admin."))
    target = get_next_redirect_url(request)
    query = "?" + urlencode({"next": target}) if target else ""
    return redirect(reverse("account_login") + query)


@require_http_methods(["GET", "POST"])
def sign_out(request: HttpRequest) -> HttpResponseBase:
    """A post signs out; a bare visit asks first."""
    shell = admin.site.each_context(request)
    return LogoutView.as_view(extra_context={**shell, "title": _("Sign out")})(request)


@require_GET
def deactivated(request: HttpRequest) -> HttpResponse:
    """Where the right password of a closed account leads."""
    reason = _("This account was deactivated. Ask an admin.")
    return refusal(request, _("Your account is deactivated"), reason)


def _walk(request: HttpRequest, provider_id: str, view: Callable[..., HttpResponse]) -> HttpResponse:
    try:
        return view(request)
    except SocialApp.DoesNotExist:
        raise Http404(_("No single sign-on is set up.")) from None
    except (requests.RequestException, OAuth2Error, ValueError, KeyError) as error:
        # The provider is away, or what it answers is not what the protocol says.
        return failure(request, error)


@never_cache
@require_http_methods(["GET", "POST"])
def oidc(request: HttpRequest, provider_id: str) -> HttpResponse:
    """The button: a post leads to the provider; a bare visit to the page with the button."""
    if request.method != "POST":
        return redirect("account_login")
    return _walk(request, provider_id, OAuth2LoginView.adapter_view(SignedOpenIDConnect(request, provider_id)))


@never_cache
@require_GET
def oidc_callback(request: HttpRequest, provider_id: str) -> HttpResponse:
    """Where the provider sends people back to."""
    return _walk(request, provider_id, OAuth2CallbackView.adapter_view(SignedOpenIDConnect(request, provider_id)))
