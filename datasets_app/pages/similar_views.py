"""Similar queries beside the one on screen: which there are, and this person's leases on them while they choose."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from agents_app.access import Role, get_pool, person, require_role
from agents_app.models import Pool
from datasets_app.labeling import alike, queue
from datasets_app.pages import labeling_views as shared
from datasets_app.pages.labeling_page import item
from routerweb.http import opening
from routerweb.pages import parameters


@require_http_methods(["GET", "POST"])
@require_role(Role.LABELER)
@shared.unless_gone
def label_similar(request: HttpRequest, slug: str, query_id: int, number: int | None = None) -> HttpResponse:
    """The similar queries of an item: a GET shows them and writes nothing; a POST takes leases on them, and ends those on the queries
    that its `let_go` names. The script gets {"count", "queries", "html"}, a plain request the page of the item with them on it."""
    pool = get_pool(request, slug)
    query = shared.query_of(pool, query_id)
    lease = queue.assignment_of(query, person(request), pool)
    if request.method == "POST":
        queue.release(pool, person(request), parameters.listed(request.POST.get("let_go")))
    if lease is None:
        return JsonResponse(_drawn(request, pool, [])) if shared.wants_json(request) else opening(request, _("Label"))
    lease.item.pool, lease.person = pool, person(request)
    similar = [] if "let_go" in request.POST else alike.waiting(lease)
    if request.method == "POST" and similar:
        leased = {follower.item.query_id for follower in alike.take(lease, [match.query.pk for match in similar])}
        similar = [match for match in similar if match.query.pk in leased]
    if shared.wants_json(request):
        return JsonResponse(_drawn(request, pool, similar))
    return shared.label_page(request, pool, None, item(lease) | {"similar": similar, "similar_shown": True})


def _drawn(request: HttpRequest, pool: Pool, similar: list[alike.Alike]) -> dict[str, object]:
    html = render_to_string("datasets_app/_label_similar.html", {"pool": pool, "similar": similar}, request)
    return {"count": len(similar), "queries": [match.query.pk for match in similar], "html": html}
