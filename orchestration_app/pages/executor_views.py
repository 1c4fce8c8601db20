"""Pages: how each agent is called, and trying it."""

import uuid
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents_app.access import Role, get_pool, person, require_role
from agents_app.models import Agent
from agents_app.views.settings import draw
from orchestration_app import answers, executors
from orchestration_app.episodes import figures, trying
from orchestration_app.episodes.calls import FAILURES
from orchestration_app.models import AnswerRule, Episode, Executor
from orchestration_app.pages.executor_forms import AnswerRuleForm, ExecutorForm

LONGEST_TASK = 20_000


@require_GET
@require_role(Role.OPS)
def executor_list(request: HttpRequest, slug: str) -> HttpResponse:
    """Every active agent, how it is called, and what its calls cost and took in the last days."""
    pool = get_pool(request, slug)
    agents = list(pool.agents.active().select_related("executor"))
    measured = figures.measured(pool)
    rule = AnswerRule.objects.filter(pool=pool).first()
    context = {
        "answers": AnswerRuleForm(pool, instance=rule),
        "pool": pool,
        "rows": [(agent, getattr(agent, "executor", None), measured.get(agent.number)) for agent in agents],
        "days": figures.DAYS,
        "episodes": Episode.objects.filter(pool=pool).exists(),
        "any": any(hasattr(agent, "executor") for agent in agents),
    }
    title = _("Executors")
    return draw(request, "orchestration_app/executors.html", "settings_executors", context, title=title, pool=pool)


@require_role(Role.OPS)
@require_POST
def answer_rule(request: HttpRequest, slug: str) -> HttpResponse:
    """How the pool makes one answer of its agents' outputs."""
    pool = get_pool(request, slug)
    form = AnswerRuleForm(pool, request.POST)
    if form.is_valid():
        try:
            answers.save(pool, form.cleaned_data["rule"], form.cleaned_data["composer"], actor=person(request))
        except answers.AnswerRuleError as error:
            messages.error(request, str(error))
        else:
            messages.success(request, _("Saved. New episodes are answered like this."))
    else:
        messages.error(request, "; ".join(str(error) for errors in form.errors.values() for error in errors))
    return redirect("settings_executors", slug)


@require_role(Role.OPS)
@never_cache
@require_http_methods(["GET", "POST"])
def executor_edit(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """How one agent is called; `?kind=` chooses another kind."""
    agent = _agent(slug, number)
    known = Executor.objects.filter(agent=agent).first()
    kind = request.POST.get("kind") or request.GET.get("kind") or (known.kind if known else Executor.Kind.CHAT)
    if kind not in Executor.Kind.values:
        kind = Executor.Kind.CHAT
    instance = known or Executor(
        agent=agent, kind=kind, repeatable=kind in (Executor.Kind.CHAT, Executor.Kind.SCRIPTED)
    )
    form = ExecutorForm(kind, request.POST or None, instance=instance)
    if request.method == "POST" and form.is_valid():
        try:
            executors.save(agent, {"kind": kind, **form.values()}, secret=form.new_secret(), actor=person(request))
        except executors.ExecutorError as error:
            form.add_error(error.field if error.field in form.fields else None, str(error))
        else:
            messages.success(request, _("%(agent)s is called like this from now on.") % {"agent": agent.name})
            return redirect("settings_executor", slug, number)
    return _draw_one(request, agent, form, kind, known)


@require_role(Role.OPS)
@require_POST
def executor_try(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Call the agent now with a task, and show what went over the wire."""
    agent = _agent(slug, number)
    executor = get_object_or_404(Executor.objects.select_related("agent"), agent=agent)
    task = request.POST.get("task", "").strip()[:LONGEST_TASK]
    more: dict[str, Any] = {"task": task}
    if task:
        trial = trying.run(executor, task, f"try-{uuid.uuid4().hex}")
        more |= {"trial": trial, "failure": FAILURES.get(trial.outcome.kind, "") if trial.failed else ""}  # type: ignore[union-attr]
    else:
        more["task_error"] = _("Write a task first.")
    return _draw_one(request, agent, ExecutorForm(executor.kind, instance=executor), executor.kind, executor, **more)


@require_role(Role.OPS)
@require_POST
def executor_remove(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """The agent is not called any more."""
    agent = _agent(slug, number)
    executor = Executor.objects.select_related("agent__pool").filter(agent=agent).first()
    if executor is not None:
        executors.remove(executor, actor=person(request))
        messages.success(request, _("%(agent)s is not called any more.") % {"agent": agent.name})
    return redirect("settings_executors", slug)


def _agent(slug: str, number: int) -> Agent:
    return get_object_or_404(Agent.objects.select_related("pool"), pool__slug=slug, number=number)


def _draw_one(
    request: HttpRequest, agent: Agent, form: ExecutorForm, kind: str, known: Executor | None, **more: Any
) -> HttpResponse:
    context = {
        "agent": agent, "form": form, "kind": kind, "known": known, "kinds": Executor.Kind.choices,
        "back": reverse("settings_executors", args=(agent.pool.slug,)), **more,
    }  # fmt: skip
    title = _("How %(agent)s is called") % {"agent": agent.name}
    return draw(request, "orchestration_app/executor.html", "settings_executors", context, title=title, pool=agent.pool)
