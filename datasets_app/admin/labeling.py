"""What the admin may do with chosen queries beside what their own list offers: the same functions that the pages call."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from agents_app import llm
from agents_app.access import person
from agents_app.models import Pool
from datasets_app.labeling import bulk, bulk_actions
from datasets_app.labeling.bulk_actions import BulkAction
from datasets_app.models import PrelabelJob, Query
from datasets_app.prelabeling import jobs as prelabel

IN_AN_ADDRESS = 500  # more chosen queries than this do not fit into a link


def _by_pool(chosen: "QuerySet[Query]") -> list[tuple[Pool, "QuerySet[Query]"]]:
    keys = chosen.order_by().values("pk")
    pools = Pool.objects.filter(datasets__queries__in=keys).distinct()
    return [(pool, Query.objects.filter(dataset__pool=pool, pk__in=keys)) for pool in pools]


def _alive_by_pool(chosen: "QuerySet[Query]") -> list[tuple[Pool, "QuerySet[Query]"]]:
    return [(pool, of_pool.filter(deleted_at__isnull=True)) for pool, of_pool in _by_pool(chosen)]


def _bulk(action: BulkAction) -> Any:
    """The admin's action that does a bulk action to the chosen queries: at once, or by way of the page that asks which agent."""

    def act(model_admin: Any, request: HttpRequest, queryset: "QuerySet[Query]") -> HttpResponse | None:
        if action.takes_agent:
            return _to_preview(request, queryset, action.code)
        for pool, of_pool in _by_pool(queryset):
            change = bulk.apply(pool, of_pool, action.code, None, author=person(request))
            undo = reverse("bulk_undo", args=[pool.slug, change.pk])
            messages.success(request, action.done(change.changed), extra_tags=f"undo:{undo}")
        return None

    act.__name__ = f"bulk_{action.code}"
    act.short_description = action.label  # type: ignore[attr-defined]
    act.allowed_permissions = ("curate",)  # type: ignore[attr-defined]
    return act


@admin.action(description=_("Pre-label with the LLM"), permissions=["curate"])
def prelabel_chosen(model_admin: Any, request: HttpRequest, queryset: "QuerySet[Query]") -> None:
    """Start a job with the settings of the pool's last one, or the site's."""
    connection = llm.connection()
    for pool, chosen in _alive_by_pool(queryset):
        last = PrelabelJob.objects.filter(pool=pool).first()
        try:
            job = prelabel.create(
                pool,
                chosen,
                base_url=last.base_url if last else connection.base_url,
                model=last.model if last else connection.model,
                author=person(request),
                fallback=last.fallback if last else PrelabelJob.Fallback.SKIP,
            )
        except prelabel.PrelabelError as error:
            messages.error(request, f"{pool}: {error}")
            continue
        prelabel.enqueue(job)
        messages.success(request, _t("%(pool)s: job %(n)s asks the LLM.") % {"pool": pool, "n": job.pk})


def _to_preview(request: HttpRequest, queryset: "QuerySet[Query]", action: str) -> HttpResponse | None:
    by_pool = _by_pool(queryset)
    if len(by_pool) != 1:
        messages.error(request, _t("Choose queries of one pool: an agent belongs to one."))
        return None
    pool, chosen = by_pool[0]
    keys = list(chosen.order_by("pk").values_list("pk", flat=True)[: IN_AN_ADDRESS + 1])
    if len(keys) > IN_AN_ADDRESS:
        messages.error(
            request, _t("More than 500 queries: search for them on the page Queries and change all that match.")
        )
        return None
    query = QueryDict(mutable=True)
    query.setlist("query", [str(key) for key in keys])
    query["action"] = action
    return redirect(f"{reverse('bulk_preview', args=[pool.slug])}?{query.urlencode()}")


@admin.action(description=_("Label this"), permissions=["curate"])
def label_this(model_admin: Any, request: HttpRequest, queryset: "QuerySet[Query]") -> HttpResponse | None:
    """Go to the labeling page with the query on it."""
    return _to_page(request, queryset, "label_item")


@admin.action(description=_("Send to review: decide it now"), permissions=["curate"])
def review_this(model_admin: Any, request: HttpRequest, queryset: "QuerySet[Query]") -> HttpResponse | None:
    """Go to Review with the query on it."""
    return _to_page(request, queryset, "review_query")


def _to_page(request: HttpRequest, queryset: "QuerySet[Query]", name: str) -> HttpResponse | None:
    chosen = list(queryset.select_related("dataset__pool")[:2])
    if len(chosen) != 1:
        messages.error(request, _t("Choose one query: the page shows one at a time, and brings the next by itself."))
        return None
    return redirect(name, chosen[0].dataset.pool.slug, chosen[0].pk)


BULK = tuple(map(_bulk, bulk_actions.ACTIONS.values()))
ACTIONS = (label_this, review_this, prelabel_chosen, *BULK)
