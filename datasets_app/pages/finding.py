"""What the command search finds of labeling: a labeler's own labels, the guidelines; for those who may browse, the pool's queries."""

from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext as _
from unfold.dataclasses import SearchResult

from agents_app.access import Role, person, roles_of
from agents_app.models import Pool
from datasets_app.figures import own
from datasets_app.models import Query
from datasets_app.queries import text_search

SHOWN = 5


def find(request: HttpRequest, pool: Pool, term: str) -> list[SearchResult]:
    """Up to a few of each, newest first."""
    roles = roles_of(request.user, pool)
    results = []
    guidelines = _("Guidelines")
    if Role.LABELER in roles and term in guidelines.lower():
        results.append(
            SearchResult(guidelines, pool.name, reverse("label", args=[pool.slug]) + "#guidelines", "menu_book")
        )
    if not text_search.is_long_enough(term):
        return results
    if Role.LABELER in roles:
        for label in own.labels_of(pool, person(request), term)[:SHOWN]:
            address = reverse("label_item", args=[pool.slug, label.query_id])
            results.append(SearchResult(_line(label.query), _("My label"), address, "bookmark_check"))
    if roles & {Role.REVIEWER, Role.OPS}:
        for query in (
            Query.objects.of(pool).filter(text_search.holding(term), erased_at__isnull=True).order_by("-pk")[:SHOWN]
        ):
            results.append(
                SearchResult(_line(query), _("Query"), reverse("query", args=[pool.slug, query.pk]), "list_alt")
            )
    return results


def _line(query: Query) -> str:
    text = " ".join(query.text.split())
    return text if len(text) <= 80 else text[:79] + "…"
