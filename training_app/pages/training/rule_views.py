"""Pages of launch rules: what launches runs of this pool without anybody asking, when it did last and why, and when it will again."""

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents_app.access import Role, get_pool, person, require_role
from routerweb.http import page
from training_app.models import SET_ROUTER, LaunchRule, Run
from training_app.pages.training.launch_form import RuleForm, title_of
from training_app.training import previews, rules
from training_app.versions import kinds


@require_GET
@require_role(Role.OPS)
def rule_list(request: HttpRequest, slug: str) -> HttpResponse:
    """The pool's rules with what each waits for and its last run."""
    pool = get_pool(request, slug)
    own_rules = list(LaunchRule.objects.filter(pool=pool).select_related("pool", "author"))
    newest = (
        Run.objects.filter(rule__in=own_rules).order_by().values("rule").annotate(newest=Max("pk")).values("newest")
    )
    last = {run.rule_id: run for run in Run.objects.filter(pk__in=newest)}
    rows = [(rule, rules.outlook(rule), last.get(rule.pk)) for rule in own_rules]
    crumbs = [(pool.name, reverse("home")), (_("Runs"), reverse("runs", args=[slug]))]
    return page(
        request, "training_app/rules.html", {"pool": pool, "rows": rows}, title=_("Training rules"), crumbs=crumbs
    )


@require_http_methods(["GET", "POST"])
@require_role(Role.OPS)
def rule_edit(request: HttpRequest, slug: str, rule_id: int | None = None) -> HttpResponse:
    """The form of a rule, a new one without an id: when it launches, and the settings of its runs. An HTMX request gets the preview of
    what it would train on alone, and what is wrong with the form."""
    pool = get_pool(request, slug)
    rule = _rule(request, slug, rule_id) if rule_id else LaunchRule(pool=pool, model_kind=_kind(request))
    if request.method == "GET" and request.headers.get("HX-Request"):
        fields = request.GET.copy()
        if not fields.get("name", "").strip():
            fields["name"] = "…"  # to be given yet, and no reason not to check the rest
        wrong = RuleForm(rule, fields).errors if "seed" in fields else {}
        errors = [(title_of(name), problems[0]) for name, problems in wrong.items()]
        return render(request, "training_app/_preview.html", _preview(rule, request.GET) | {"errors": errors})
    form = RuleForm(rule, request.POST if request.method == "POST" else None)
    if request.method == "POST" and form.is_valid():
        rules.save(form.filled(), actor=person(request))
        messages.success(request, _("The rule %(rule)s is saved.") % {"rule": rule})
        return redirect("run_rules", slug)
    shown = (
        form.data if form.is_bound else {name: form[name].value() for name in previews.MATTERS if name in form.fields}
    )
    context: dict[str, Any] = {"pool": pool, "form": form, "rule": rule, **_preview(rule, shown)}
    context["kinds"] = [] if rule_id else [(name, kind.label) for name, kind in kinds.every().items()]
    title = _("Rule %(name)s") % {"name": rule.name} if rule_id else _("New training rule")
    crumbs = [
        (pool.name, reverse("home")),
        (_("Runs"), reverse("runs", args=[slug])),
        (_("Training rules"), reverse("run_rules", args=[slug])),
    ]
    status = 422 if form.errors else 200
    return page(request, "training_app/rule.html", context, title=title, crumbs=crumbs, status=status)


@require_POST
@require_role(Role.OPS)
def rule_switch(request: HttpRequest, slug: str, rule_id: int) -> HttpResponse:
    """Pause the rule, or with `on=1` let it go on."""
    rule, on = _rule(request, slug, rule_id), request.POST.get("on") == "1"
    rules.switch(rule, on, actor=person(request))
    text = _("The rule %(rule)s is on again.") if on else _("The rule %(rule)s is paused.")
    messages.success(request, text % {"rule": rule})
    return redirect("run_rules", slug)


@require_POST
@require_role(Role.OPS)
def rule_delete(request: HttpRequest, slug: str, rule_id: int) -> HttpResponse:
    """Delete the rule; its runs and models stay."""
    rule = _rule(request, slug, rule_id)
    rules.delete(rule, actor=person(request))
    messages.success(request, _("The rule %(rule)s is deleted; its runs stay.") % {"rule": rule})
    return redirect("run_rules", slug)


def _preview(rule: LaunchRule, fields: Mapping[str, Any]) -> dict[str, Any]:
    """What a run of the rule would train on if it launched now: the pool's gold."""
    pool, matters = rule.pool, {name: bool(fields.get(name)) for name in previews.MATTERS}
    near_at = reverse("run_near", args=[pool.slug])
    preview = {"preview": previews.preview(pool, None, **matters), "near_at": near_at}
    return preview | kinds.of(rule.model_kind).material_of(pool)


def _kind(request: HttpRequest) -> str:
    """The kind of model that the address asks for."""
    kind = request.GET.get("kind", "")
    return kind if kind in kinds.every() else SET_ROUTER


def _rule(request: HttpRequest, slug: str, rule_id: int) -> LaunchRule:
    return get_object_or_404(
        LaunchRule.objects.select_related("pool", "author"), pool=get_pool(request, slug), pk=rule_id
    )
