"""Pages of models: the list, one model with its scorecard, promotion and roll-back."""

from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_POST

from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.models import Pool
from routerweb.http import page
from routerweb.pages.shown_errors import show_errors
from training_app.engine.measures import COMPARED_SHARES, HEADLINE
from training_app.models import Canary, Card, Promotion, PromotionRequest, RouterModel
from training_app.models.kinds import SET_ROUTER
from training_app.pages import sorting
from training_app.pages.versions import scorecard_rows, scorecard_tables
from training_app.rollout import trials
from training_app.versions import (
    approvals,
    gate,
    headlines,
    keeping,
    kinds,
    more_labels,
    registry,
    scorecards,
    standings,
    verdict,
)

ROWS = 25
#: Models that a model's page offers to compare it with.
MOST_COMPARED = 20
#: What the list sorts by, `?sort=` to the database's column.
SORTS = {"model": "version", "state": "state", "size": "artifact_bytes", "made": "created_at"} | {
    name: name for name in HEADLINE
}


@require_GET
@require_role(Role.OPS)
def model_list(request: HttpRequest, slug: str) -> HttpResponse:
    """All models of the pool, newest first; `?state=` filters, `?sort=` sorts."""
    pool = get_pool(request, slug)
    state = request.GET.get("state", "")
    models = registry.models(pool).select_related("learnt", "run__snapshot__pool")
    together = standings.of(pool)
    columns = {
        name: column for name, column in SORTS.items() if name not in HEADLINE or not (together and together.few)
    }
    sort, order = sorting.order(request.GET.get("sort", ""), columns, "-model")
    figure = sort.lstrip("-")
    by_figure = figure in HEADLINE
    models = headlines.in_order(models, figure, order) if by_figure else models.order_by(*order)
    if state in RouterModel.State.values:
        models = models.filter(state=state)
    rows = Paginator(models, ROWS).get_page(request.GET.get("page"))
    shown = verdict.for_list(headlines.with_headlines(list(rows)))
    for model in shown:  # the group of a list by a figure
        apart = model.run and model.run.snapshot_id
        model.of_queries = "all" if model.measured_with_all else apart  # type: ignore[attr-defined]
    back = registry.rollback_target(pool)
    context = {
        "pool": pool,
        "rows": shown,
        "page_of_rows": rows,
        "state": state,
        "sort": sort,
        "by_figure": by_figure,
        "together": together,
        "how_compared": verdict.how_compared(shown, together),
        "states": RouterModel.State.choices,
        "active": registry.active(pool),
        "others": _others(pool),
        "answering": trials.answering(pool),
        "back": back,
        "back_broken": gate.cases_broken_by(back) if back else "",
        "announced": keeping.announced(pool),
        "requests": PromotionRequest.objects.waiting().filter(pool=pool).select_related("model__pool", "against__pool"),
        "promotions": Promotion.objects.filter(pool=pool).select_related(
            "model__pool", "previous__pool", "author", "judgement", "request"
        )[:10],
    }
    return page(request, "training_app/models.html", context, title=_("Models"), crumbs=[(pool.name, reverse("home"))])


@require_GET
@require_role(Role.OPS)
def model_detail(request: HttpRequest, slug: str, version: int) -> HttpResponse:
    """One model: its state, its scorecard, the agents that it knows, and how it came to be."""
    model = _model(request, slug, version)
    may_label = Role.LABELER in roles_of(request.user, slug)
    context = {
        "pool": model.pool,
        "model": model,
        "active": registry.active(model.pool, model.kind),
        "promotions": model.promotions.select_related(
            "previous__pool", "model__pool", "author", "judgement", "request"
        ),
        "roster": scorecards.agents(model).values(),
        "verdict": verdict.of(model),
        "may_label": may_label,
        **scorecard_rows.context(model),
        **more_labels.context(model),
        **gate_context(model),
        **scorecard_tables.context(model, request.GET, may_label=may_label),
    }
    crumbs = [(model.pool.name, reverse("home")), (_("Models"), reverse("models", args=[slug]))]
    return page(request, "training_app/model.html", context, title=model.name, crumbs=crumbs)


@require_POST
@require_role(Role.OPS)
def model_promote(request: HttpRequest, slug: str, version: int) -> HttpResponse:
    """Make the model the active one, through the gate; `override` says why where it does not pass."""
    model = _model(request, slug, version)
    with show_errors(request, registry.RegistryError):
        promoted = gate.promote(
            model,
            actor=person(request),
            reason=request.POST.get("reason", "").strip(),
            override=request.POST.get("override", ""),
        )
        sentence = _now_in_use(model)
        if isinstance(promoted, PromotionRequest):
            sentence = _("The promotion of %(model)s waits for another person's approval.")
        messages.success(request, sentence % {"model": model.name, "pool": model.pool})
    return redirect("model", slug, version)


def _now_in_use(model: RouterModel) -> str:
    if kinds.of(model.kind).answers:
        return _("%(model)s answers the requests of %(pool)s now.")
    return _("%(model)s is in use in %(pool)s now.")


@require_POST
@require_role(Role.OPS)
def model_approval(request: HttpRequest, slug: str, version: int) -> HttpResponse:
    """Approve, decline or withdraw the promotion or canary that waits, as `do` says; `note` says why."""
    model = _model(request, slug, version)
    promotion_request, note, do = approvals.waiting_for(model), request.POST.get("note", ""), request.POST.get("do")
    with show_errors(request, registry.RegistryError):
        if promotion_request is None:
            raise registry.RegistryError(_("This request has been decided already."))
        if do == "approve":
            approved = trials.approve(promotion_request, actor=person(request), note=note)
            sentence = _now_in_use(model)
            if isinstance(approved, Canary):
                sentence = _("%(model)s answers its share of the requests of %(pool)s now.")
        elif do == "decline":
            approvals.decline(promotion_request, actor=person(request), note=note)
            sentence = _("The request for %(model)s is declined.")
        elif do == "withdraw":
            approvals.withdraw(promotion_request, actor=person(request), note=note)
            sentence = _("The request for %(model)s is withdrawn.")
        else:
            return HttpResponseBadRequest()
        messages.success(request, sentence % {"model": model.name, "pool": model.pool})
    return redirect("model", slug, version)


@require_POST
@require_role(Role.OPS)
def model_rollback(request: HttpRequest, slug: str) -> HttpResponse:
    """Go back to the model that was active before, or to none where the only one of its kind is stopped."""
    pool = get_pool(request, slug)
    try:
        kind = kinds.of(request.POST.get("kind") or SET_ROUTER).name
        promotion = gate.rollback(
            pool,
            kind,
            actor=person(request),
            reason=request.POST.get("reason", "").strip(),
            override=request.POST.get("override", ""),
        )
        stopped = promotion.kind == Promotion.Kind.STOPPED
        sentence = _("%(model)s decides no more.") if stopped else _("Rolled back to %(model)s.")
        messages.success(request, sentence % {"model": promotion.model.name})
    except kinds.UnknownKind:
        return HttpResponseBadRequest()
    except registry.RegistryError as error:
        messages.error(request, str(error))
    return redirect("models", slug)


def _others(pool: Pool) -> list[dict[str, Any]]:
    """The active version of each kind that answers no queries, what is tried beside it, and what a roll-back would go back to."""
    result = []
    for name, kind in kinds.every().items():
        active = None if kind.answers else registry.active(pool, name)
        if active is not None:
            tried = trials.answering(pool, name) if kind.tried else None
            back = registry.rollback_target(pool, name)
            result.append({"kind": kind, "active": active, "back": back, "tried": tried})
    return result


@require_POST
@require_role(Role.OPS)
def model_pin(request: HttpRequest, slug: str, version: int) -> HttpResponse:
    """Keep the model's artifact for good with `on=1`, or let it grow old like others."""
    model, on = _model(request, slug, version), request.POST.get("on") == "1"
    with show_errors(request, registry.RegistryError):
        keeping.pin(model, on, actor=person(request))
        text = _("%(model)s is pinned: its artifact stays.") if on else _("%(model)s is no longer pinned.")
        messages.success(request, text % {"model": model.name})
    return redirect("models", slug) if request.POST.get("from") == "list" else redirect("model", slug, version)


def gate_context(model: RouterModel) -> dict[str, Any]:
    """What a promotion does or did, and for a model that is not active what the gate says; `gate_error` where it cannot tell."""
    kind, active = kinds.of(model.kind), registry.active(model.pool, model.kind)
    effect = {
        "effect": kind.effect.on(model, active),
        "may_try": kind.tried,
        "tried_beside": kind.tried and active is not None,
        "answers_queries": kind.answers,
        "compare_with": _others_with_runs(model),
    }
    if model.state == RouterModel.State.ACTIVE:
        return effect
    four_eyes = {"four_eyes": approvals.needed(model.pool), **effect, **waiting_context(model)}
    try:
        return four_eyes | {"gate": gate.judge(model, max_queries=gate.PAGE_QUERIES)}
    except registry.RegistryError as error:
        return four_eyes | {"gate_error": str(error)}


def _others_with_runs(model: RouterModel) -> list[RouterModel]:
    """What the model can be compared with: the newest models of its kind that runs made, the active one first; none for an import."""
    if not model.run_id:
        return []
    models = registry.models(model.pool).filter(kind=model.kind, run__isnull=False).exclude(pk=model.pk)
    others = list(models[:MOST_COMPARED])
    return sorted(others, key=lambda other: other.state != RouterModel.State.ACTIVE)


def waiting_context(model: RouterModel) -> dict[str, Any]:
    """What whoever approves the model's promotion or canary looks at: who asked, the figures of both, and which agents come and go.

    Nothing where no request waits.
    """
    promotion_request = approvals.waiting_for(model)
    if promotion_request is None:
        return {}
    cards = [model.card, promotion_request.against.card if promotion_request.against else Card()]
    ours, theirs = (card.figures if scorecards.enough(card) else {} for card in cards)
    labels = kinds.of(model.kind).listed or {name: scorecards.LABELS[name] for name in COMPARED_SHARES}
    figures = [
        (label, ours.get(name), theirs.get(name)) for name, label in labels.items() if name in ours or name in theirs
    ]
    after = {agent["id"]: agent["name"] for agent in model.roster}
    before = (
        {agent["id"]: agent["name"] for agent in promotion_request.against.roster} if promotion_request.against else {}
    )
    return {
        "asked": promotion_request,
        "beside": figures,
        "joins": [name for number, name in after.items() if number not in before],
        "leaves": [name for number, name in before.items() if number not in after],
    }


def _model(request: HttpRequest, slug: str, version: int) -> RouterModel:
    return get_object_or_404(
        RouterModel.objects.select_related("pool", "run__snapshot"), pool=get_pool(request, slug), version=version
    )
