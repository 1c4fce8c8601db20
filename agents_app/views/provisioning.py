"""Page: how an identity provider keeps people here: its tokens, and which role each of its groups gives."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from agents_app.access import Role, person, require_role
from agents_app.models import Pool, ScimGroup, ScimPerson, ScimToken
from agents_app.scim import groups, tokens
from agents_app.scim.tokens import TokenRefused
from agents_app.views.forms import GroupRoleForm, RotationForm, TokenForm
from agents_app.views.settings import draw
from routerweb.pages.shown_errors import show_errors, show_errors_in


@require_role(Role.ADMIN)
@never_cache
@require_http_methods(["GET", "POST"])
def provisioning(request: HttpRequest) -> HttpResponse:
    """The address that a provider is given, its tokens, its groups; the form makes one more token, whose secret is in one answer."""
    form = TokenForm(request.POST or None)
    more: dict[str, Any] = {}
    if request.method == "POST" and form.is_valid():
        with show_errors_in(form, TokenRefused, field="name"):
            token, secret = tokens.create(form.cleaned_data["name"], person(request))
            more, form = {"token": token, "secret": secret}, TokenForm()
    return _draw(request, form, **more)


@require_role(Role.ADMIN)
@never_cache
@require_POST
def token_rotate(request: HttpRequest, token_id: int) -> HttpResponse:
    """A new secret for a token, shown once."""
    token = get_object_or_404(ScimToken, pk=token_id)
    with show_errors(request, TokenRefused):
        secret = tokens.rotate(token, person(request), grace=request.POST.get("grace", ""))
        return _draw(request, TokenForm(), token=token, secret=secret)
    return redirect("provisioning")


@require_role(Role.ADMIN)
@require_POST
def token_revoke(request: HttpRequest, token_id: int) -> HttpResponse:
    """Turn a token off."""
    token = get_object_or_404(ScimToken, pk=token_id)
    if tokens.revoke(token, person(request)):
        messages.success(request, _("The token “%(name)s” is revoked.") % {"name": token.name})
    else:
        messages.info(request, _("The token “%(name)s” was revoked before.") % {"name": token.name})
    return redirect("provisioning")


@require_role(Role.ADMIN)
@require_POST
def group_role(request: HttpRequest, group_id: int) -> HttpResponse:
    """Which role a group's members have."""
    group, form = get_object_or_404(ScimGroup, pk=group_id), GroupRoleForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("Choose one of the roles, and a pool, in the list."))
        return redirect("provisioning")
    with show_errors(request, groups.GroupRefused):
        groups.set_role(group, form.cleaned_data["role"], form.cleaned_data["pool"], person(request))
        messages.success(request, _("The members of “%(name)s” have their role.") % {"name": group.name})
    return redirect("provisioning")


def _draw(request: HttpRequest, form: TokenForm, **more: Any) -> HttpResponse:
    groups = [(group, group.members.count()) for group in ScimGroup.objects.select_related("pool")]
    context = {
        "on": settings.SCIM,
        "address": request.build_absolute_uri("/scim/v2"),
        "form": form,
        "tokens": ScimToken.objects.live().select_related("created_by"),
        "graces": RotationForm.base_fields["grace"].choices,  # type: ignore[attr-defined]
        "groups": groups,
        "roles": ScimGroup.ROLES,
        "pools": Pool.objects.in_use().only("slug", "name").order_by("name"),
        "people": ScimPerson.objects.linked().count(),
    }
    return draw(request, "agents_app/provisioning.html", "people", context | more, title=_("Provisioning"), pool=None)
