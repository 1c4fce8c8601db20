"""Pages of live traffic: shadows and canaries, off-policy estimates, outcomes, and the pool's live settings."""

from dataclasses import asdict
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from agents_app.access import Role, get_pool, person, require_role
from agents_app.models import Pool
from agents_app.views.settings import draw
from routerweb.http import page
from routerweb.pages import parameters
from training_app.engine.data.artifact import ArtifactError
from training_app.models import SET_ROUTER, Canary, LiveTally, PromotionRequest, RouterModel
from training_app.pages.rollout.live_forms import LiveSettingsForm
from training_app.rollout import live_figures, off_policy_figures, outcome_figures, trials
from training_app.versions import approvals, gate, kinds, registry, verdict

HISTORY = 5
DAYS = (7, 30, 90)


@require_http_methods(["GET", "POST"])
@require_role(Role.OPS)
def live(request: HttpRequest, slug: str) -> HttpResponse:
    """Shadows and the canary beside the active model of one kind, `?kind=`. A POST's `do` starts or stops one: shadow, shadow_stop,
    canary, canary_stop."""
    pool = get_pool(request, slug)
    kinds_here = _kinds(pool)
    kind = next((kind_here for kind_here in kinds_here if kind_here.name == request.GET.get("kind")), kinds_here[0])
    here = reverse("decisions_live", args=[slug]) + (f"?kind={kind.name}" if not kind.answers else "")
    refused: gate.Verdict | None = None
    if request.method == "POST":
        try:
            messages.success(request, _act(request, pool, kind.name))
            return redirect(here)
        except gate.GateRefused as error:
            refused = error.verdict
        except registry.RegistryError as error:
            messages.error(request, str(error))
            return redirect(here)
    active, canary = registry.active(pool, kind.name), trials.canary_of(pool, kind.name)
    models = registry.models(pool).filter(kind=kind.name).exclude(state=RouterModel.State.ACTIVE)
    context: dict[str, Any] = {
        "pool": pool,
        "kind": kind,
        "kinds": kinds_here,
        "episodes": kind.traffic is not None and kind.traffic.stepwise,
        "active": active,
        "canary": canary,
        "shadows": [
            (model, live_figures.agreement(model, active) if active else None, live_figures.tally(model, "shadow"))
            for model in trials.shadows_of(pool, kind.name)
        ],
        "most_shadows": trials.MOST_SHADOWS,
        "models": list(models[:50]),
        "refused": refused,
        "four_eyes": approvals.needed(pool),
        "waiting": PromotionRequest.objects.waiting()
        .filter(pool=pool, model__kind=kind.name, share__isnull=False)
        .select_related("model__pool"),
        "asked": request.POST if refused else request.GET,
        "history": Canary.objects.filter(pool=pool, kind=kind.name)
        .exclude(ended_at=None)
        .select_related("model__pool", "author")[:HISTORY],
    }
    if canary is not None:
        context |= {
            "compared": live_figures.compare(canary),
            "tally": live_figures.tally(canary.model, LiveTally.Kind.CANARY),
            "verdict": verdict.of(canary.model),
            **_gate(canary.model),
        }
    return page(
        request, "training_app/live.html", context, title=_("Shadows and canary"), crumbs=_crumbs(pool),
        status=409 if refused else 200,
    )  # fmt: skip


def _kinds(pool: Pool) -> list[kinds.Kind]:
    """The kinds that may be tried and of which the pool has a model; set routers always."""
    have = set(registry.models(pool).order_by().values_list("kind", flat=True)) | {SET_ROUTER}
    return [kind for kind in kinds.every().values() if kind.tried and kind.name in have]


def _act(request: HttpRequest, pool: Pool, kind: str) -> str:
    """Do what the form says; what to tell then. Raises RegistryError."""
    do, who = request.POST.get("do", ""), person(request)
    if do == "canary_stop":
        ended = trials.stop_canary(pool, kind, actor=who)
        return _("%(active)s answers everything again.") % {"active": ended.against.name}
    model = get_object_or_404(
        RouterModel.objects.select_related("pool", "run__snapshot"),
        pool=pool,
        kind=kind,
        version=parameters.number(request.POST.get("model")) or 0,
    )
    if do == "shadow":
        trials.start_shadow(model, actor=who)
        traffic = kinds.of(kind).traffic
        if traffic is not None and traffic.stepwise:
            return _("%(model)s is a shadow: it is asked about live episodes and calls nobody.") % {"model": model.name}
        return _("%(model)s is a shadow: it scores live queries and answers nothing.") % {"model": model.name}
    if do == "shadow_stop":
        trials.stop_shadow(model, actor=who)
        return _("%(model)s is no longer a shadow.") % {"model": model.name}
    if do == "canary":
        return _start_canary(request, model)
    raise registry.RegistryError(_("Choose an action."))


def _start_canary(request: HttpRequest, model: RouterModel) -> str:
    percent = parameters.decimal(request.POST.get("share"))
    if percent is None:
        raise registry.RegistryError(_("The share must be a percentage."))
    canary = trials.start_canary(
        model,
        percent / 100,
        actor=person(request),
        reason=request.POST.get("reason", "").strip(),
        override=request.POST.get("override", ""),
    )
    sentence = _("%(model)s answers %(share)g %% of the requests now, within two seconds in every process.")
    if isinstance(canary, PromotionRequest):
        sentence = _("%(model)s will answer %(share)g %% of the requests once another person has approved it.")
    return sentence % {
        "model": model.name,
        "share": round(percent, 2),
    }


@require_GET
@require_role(Role.OPS)
def off_policy(request: HttpRequest, slug: str) -> HttpResponse:
    """What a candidate, `?model=` its version, would have achieved on explored decisions; or why that cannot be told."""
    pool = get_pool(request, slug)
    models = list(registry.models(pool).filter(kind=SET_ROUTER).exclude(state=RouterModel.State.ACTIVE)[:50])
    version = request.GET.get("model", "")
    chosen = next((model for model in models if str(model.version) == version), models[0] if models else None)
    context: dict[str, Any] = {"pool": pool, "models": models, "chosen": chosen, "settings": trials.settings_of(pool)}
    if chosen is not None:
        try:
            estimates = off_policy_figures.evaluate(chosen)
        except (registry.RegistryError, ArtifactError) as error:
            context["error"] = str(error)
        else:
            context["found"] = estimates
            if estimates.estimates is not None:
                context["estimates"] = _estimates(estimates)
    return page(request, "training_app/off_policy.html", context, title=_("Off-policy estimate"), crumbs=_crumbs(pool))


def _estimates(off_policy: off_policy_figures.OffPolicy) -> list[tuple[str, str, dict[str, float]]]:
    """(name, what it is, figures) of each estimate, the answering model's own last."""
    estimates = off_policy.estimates
    assert estimates is not None
    return [
        (_("Self-normalised"), _("weights each answer by how likely it was; read this one"), asdict(estimates.snips)),
        (_("Doubly robust"), _("with a model of success fitted to the candidate's confidence"), asdict(estimates.dr)),
        (
            _("Inverse propensity"),
            _("right on average over these decisions, with the widest interval; it can exceed 100 %"),
            asdict(estimates.ips),
        ),
        (_("As it was answered"), _("without exploration, on the same decisions"), asdict(estimates.answering)),
    ]


@require_GET
@require_role(Role.OPS)
def outcomes(request: HttpRequest, slug: str) -> HttpResponse:
    """Success over time by model and agent; `?days=` is 7, 30 or 90."""
    pool = get_pool(request, slug)
    days_wanted = parameters.number(request.GET.get("days"))
    days = days_wanted if days_wanted in DAYS else outcome_figures.DAYS
    context = {
        "pool": pool,
        "found": outcome_figures.read(pool, days),
        "choices": DAYS,
        "settings": trials.settings_of(pool),
    }
    return page(request, "training_app/outcomes.html", context, title=_("Outcomes"), crumbs=_crumbs(pool))


@require_http_methods(["GET", "POST"])
@require_role(Role.OPS)
def settings(request: HttpRequest, slug: str) -> HttpResponse:
    """What the pool does with live traffic: exploration, cold agents, failures."""
    pool = get_pool(request, slug)
    now = trials.settings_of(pool)
    form = LiveSettingsForm(request.POST or None, instance=now)
    if request.method == "POST" and form.is_valid():
        trials.change_settings(pool, form.cleaned_data.items(), actor=person(request))
        messages.success(request, _("The live settings were saved; every process follows within two seconds."))
        return redirect("settings_live", slug)
    context = {"form": form}
    return draw(
        request, "training_app/live_settings.html", "settings_live", context, title=_("Live traffic"), pool=pool
    )


def _gate(model: RouterModel) -> dict[str, Any]:
    effect = kinds.of(model.kind).effect.on(model, registry.active(model.pool, model.kind))
    try:
        return {"effect": effect, "gate": gate.judge(model, max_queries=gate.PAGE_QUERIES)}
    except registry.RegistryError as error:
        return {"effect": effect, "gate_error": str(error)}


def _crumbs(pool: Pool) -> list[tuple[str, str]]:
    return [(pool.name, reverse("home")), (_("Decisions"), reverse("decisions", args=[pool.slug]))]
