"""Page: a person's own account: their second factor, where they are signed in, what is stored on them."""

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import FileResponse, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from agents_app.access import person
from agents_app.accounts import personal, second_factor, sessions
from routerweb.http import page
from routerweb.pages import parameters
from routerweb.pages.downloads import download


@login_required
@never_cache
@require_GET
def account(request: HttpRequest) -> HttpResponse:
    """What signs this person in, and where they are signed in."""
    user = person(request)
    by_provider = second_factor.came_by_provider(request, user)
    context = {
        "has_second_factor": second_factor.has_one(user),
        "asked": second_factor.is_asked_of(user),
        "codes_left": second_factor.codes_left(user),
        "provider": settings.OIDC_NAME if by_provider and not settings.SECOND_FACTOR_OIDC else "",
        "sessions": sessions.of(user, request.session.session_key),
    }
    return page(request, "agents_app/account.html", context, title=_("Your account"))


@login_required
@require_POST
def account_data(request: HttpRequest) -> FileResponse:
    """All that is stored on the person who asks, as a file."""
    user = person(request)
    return download([personal.export(user, user)], "application/zip", "my-data.zip")


@login_required
@require_POST
def sessions_end(request: HttpRequest) -> HttpResponse:
    """End one session, `session`, or all but the one that asks."""
    user = person(request)
    if "session" in request.POST:
        key = parameters.number(request.POST["session"])
        if key is not None and sessions.end(user, key):
            messages.success(request, _("That browser is signed out."))
        else:
            messages.warning(request, _("That session had ended already."))
        return redirect("account")
    count = sessions.end_others(user, request.session.session_key)
    message = ngettext("%(n)d other session was ended.", "%(n)d other sessions were ended.", count)
    messages.success(request, message % {"n": count})
    return redirect("account")
