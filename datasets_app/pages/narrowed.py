"""What a labeler wants to be asked about, as the label page keeps it: in its address, and for the session."""

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from agents_app.access import Role, get_pool, person, require_role
from agents_app.models import Pool
from datasets_app.labeling import narrowing, queue
from datasets_app.labeling.narrowing import Narrowing
from routerweb.pages import parameters

_KEPT = "label_narrowed"


def chosen(request: HttpRequest, pool: Pool) -> Narrowing:
    """What the address asks for; where it asks for nothing, what this person chose last in this session."""
    choice = (
        request.GET
        if "agent" in request.GET or "kind" in request.GET
        else request.session.get(_KEPT, {}).get(str(pool.pk), {})
    )
    return narrowing.of(pool, parameters.number(choice.get("agent")), choice.get("kind") or "")


def address(pool: Pool, narrow: Narrowing) -> str:
    """The label page of what is wanted."""
    page = reverse("label", args=[pool.slug])
    return f"{page}?{urlencode(narrow.parameters)}" if narrow else page


def drawn(request: HttpRequest, pool: Pool) -> dict[str, Any]:
    """What the page needs for its choice: the agents, the kinds, what is chosen, and how many of it wait."""
    narrow = chosen(request, pool)
    return {
        "narrow": narrow,
        "narrow_at": urlencode(narrow.parameters),
        "narrow_agents": list(pool.agents.active().order_by("number")),
        "narrow_kinds": [(code, kind.name) for code, kind in narrowing.KINDS.items()],
        "narrow_kind": narrowing.KINDS[narrow.kind].name if narrow.kind else "",
        "narrow_waits": queue.waiting_for(pool, person(request), narrow) if narrow else 0,
        "narrow_most": narrowing.LOOKED_AT,
    }


@require_POST
@require_role(Role.LABELER)
def label_narrow(request: HttpRequest, slug: str) -> HttpResponse:
    """Keep for the session what this person wants to be asked about, and let go of what they hold beside it."""
    pool = get_pool(request, slug)
    narrow = narrowing.of(pool, parameters.number(request.POST.get("agent")), request.POST.get("kind", ""))
    others = {key: value for key, value in request.session.get(_KEPT, {}).items() if key != str(pool.pk)}
    request.session[_KEPT] = others | ({str(pool.pk): narrow.parameters} if narrow else {})
    if narrow:
        queue.keep_only(pool, person(request), narrow)
    return redirect(address(pool, narrow))
