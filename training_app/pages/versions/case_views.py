"""Pages of must-pass cases: the list beside one model's answers, the form that makes one, and removing it."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.models import Pool
from datasets_app.models import Gold, Query
from datasets_app.pages import chat
from routerweb.http import page
from routerweb.pages import parameters
from routerweb.pages.shown_errors import show_errors
from training_app.decision_archive import reading
from training_app.models import MustPassCase, RouterModel
from training_app.versions import cases, registry

#: Models that the list can be checked against, the newest first.
MOST_MODELS = 20


@dataclass(frozen=True, slots=True)
class Origin:
    """What a case is made from: the text, the agents that are proposed, and the page that it was seen on."""

    text: str = ""
    agents: frozenset[int] = frozenset()
    source: str = MustPassCase.Source.WRITTEN
    page: str = ""


@require_GET
@require_role(Role.REVIEWER, Role.OPS)
def case_list(request: HttpRequest, slug: str) -> HttpResponse:
    """The pool's cases, each beside the answer of the model that `?model=` names, else of the active one; broken ones first."""
    pool = get_pool(request, slug)
    models = list(registry.models(pool).filter(kind="set_router", pruned_at=None)[:MOST_MODELS])
    active = registry.active(pool)
    version = parameters.number(request.GET.get("model"))
    model = active if version is None else get_object_or_404(RouterModel, pool=pool, version=version)
    own_cases, problem = cases.of(pool), ""
    checked: list[cases.Checked] = []
    try:
        checked = cases.check(model, own_cases) if model else []
    except registry.RegistryError as error:
        problem = str(error)
    context = {
        "pool": pool,
        "rows": sorted(checked, key=lambda checked_case: checked_case.holds),
        "unchecked": [] if checked else [(case, _agents(pool, case.required)) for case in own_cases],
        "broken": len(cases.broken(checked)),
        "model": model,
        "models": models if model is None or model in models else [model, *models],
        "problem": problem,
    }
    crumbs = [(pool.name, reverse("home")), (_("Models"), reverse("models", args=[slug]))]
    return page(request, "training_app/cases.html", context, title=_("Must-pass cases"), crumbs=crumbs)


@require_http_methods(["GET", "POST"])
@require_role(Role.REVIEWER, Role.OPS)
def case_new(request: HttpRequest, slug: str) -> HttpResponse:
    """The form of a case: of a `query`, a `decision`, or a text of one's own. It checks the active model at once."""
    pool = get_pool(request, slug)
    params = request.POST if request.method == "POST" else request.GET
    if params.get("decision") and Role.OPS not in roles_of(request.user, slug):
        raise PermissionDenied(_("Your role may not open this page. Ask an admin for access."))
    origin = _origin(pool, params)
    chosen, reason, problem, field = set(origin.agents), params.get("reason", ""), "", ""
    if request.method == "POST":
        chosen = set(parameters.keys(request.POST.getlist("agent")))
        try:
            if bool(chosen) == ("none" in request.POST):
                raise cases.CaseError(_("Choose agents or “None of these agents”."), "required")
            case = cases.add(pool, origin.text, chosen, owner=person(request), reason=reason, source=origin.source)
        except cases.CaseError as error:
            problem, field = str(error), error.field
        else:
            _say_what_holds(request, pool, case)
            return redirect(origin.page or reverse("cases", args=[slug]))
    agents = list(pool.agents.active().order_by("number"))
    context = {
        "pool": pool,
        "origin": origin,
        "asked": {name: params[name] for name in ("query", "decision", "from") if params.get(name)},
        "chat": chat.earlier(origin.text, list(pool.agents.all())) if origin.text else [],
        "rows": [(agent, agent.number in chosen) for agent in agents],
        "none": request.method == "POST" and not chosen and "none" in request.POST,
        "reason": reason,
        "problem": problem,
        "field": field,
    }
    crumbs = [(pool.name, reverse("home")), (_("Must-pass cases"), reverse("cases", args=[slug]))]
    status = 422 if problem else 200
    return page(request, "training_app/case_new.html", context, title=_("New case"), crumbs=crumbs, status=status)


@require_POST
@require_role(Role.REVIEWER, Role.OPS)
def case_remove(request: HttpRequest, slug: str, case_id: int) -> HttpResponse:
    """Hold models to it no longer."""
    pool = get_pool(request, slug)
    case = get_object_or_404(MustPassCase.objects.select_related("pool"), pool=pool, pk=case_id)
    cases.remove(case, actor=person(request))
    messages.success(request, _("The case is removed: models may route it as they see fit."))
    return redirect("cases", slug)


def _say_what_holds(request: HttpRequest, pool: Pool, case: MustPassCase) -> None:
    """Say that the case is kept, and at once what the active model makes of it."""
    undo = "undo:" + reverse("case_remove", args=[pool.slug, case.pk])
    messages.success(request, _("Saved. A model that routes it differently is not promoted."), extra_tags=undo)
    with show_errors(request, registry.RegistryError):
        active = registry.active(pool)
        for broken in cases.broken(cases.check(active, [case]) if active else ()):
            messages.warning(request, _("The model in use breaks it now.") + " " + broken.sentence())


def _origin(pool: Pool, params: Any) -> Origin:
    """What the case is made from. Raises Http404 for a query or decision that this pool does not have or whose text is gone."""
    if params.get("query"):
        query = get_object_or_404(Query.objects.of(pool).exclude(text=""), pk=parameters.key(params["query"]))
        gold = Gold.objects.filter(query=query).first()
        dispute = params.get("from") == "dispute"
        return Origin(
            query.routed_text,
            frozenset(gold.required) if gold else frozenset(),
            MustPassCase.Source.DISPUTE if dispute else MustPassCase.Source.QUERY,
            reverse("query", args=[pool.slug, query.pk]),
        )
    if params.get("decision"):
        with_outcome = reading.wherever(_decision_id(params["decision"]), [pool])
        if with_outcome is None or not with_outcome.decision.text:
            raise Http404
        decision = with_outcome.decision
        return Origin(
            decision.routed_text,
            frozenset(decision.agents),
            MustPassCase.Source.OUTCOME if with_outcome.outcome else MustPassCase.Source.DECISION,
            reverse("decision", args=[pool.slug, decision.pk]),
        )
    return Origin(params.get("text", ""))


def _decision_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Http404 from None


def _agents(pool: Pool, numbers: list[int]) -> list[Any]:
    return list(pool.agents.filter(number__in=numbers))
