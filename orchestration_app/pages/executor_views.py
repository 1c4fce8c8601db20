"""Pages: how each agent is called, and trying it."""

import json
import uuid
from typing import Any

from django.contrib import messages
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents_app import llm, sealing
from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.models import Agent
from agents_app.views.settings import draw
from orchestration_app import answers, executors, prefilled, readiness
from orchestration_app.calls import checking, spending
from orchestration_app.calls.parts import FAILURES
from orchestration_app.calls.protocols import mcp_arguments
from orchestration_app.episodes.judging import figures
from orchestration_app.models import AnswerRule, Episode, EpisodeLearning, Executor
from orchestration_app.pages.executor_forms import AnswerRuleForm, ExecutorForm, LearningForm
from routerweb.pages import parameters
from routerweb.pages.shown_errors import show_errors, show_errors_in

LONGEST_TASK = 20_000


@require_GET
@require_role(Role.OPS)
def executor_list(request: HttpRequest, slug: str) -> HttpResponse:
    """Every active agent, how it is called, and what its calls cost and took in the last days."""
    pool = get_pool(request, slug)
    in_use = Count("backends", filter=Q(backends__active=True))
    agents = list(pool.agents.active().select_related("executor").annotate(in_use=in_use))
    measured = figures.measured(pool)
    rule = AnswerRule.objects.filter(pool=pool).first()
    rows = readiness.of_pool(pool)
    context = {
        "answers": AnswerRuleForm(pool, instance=rule),
        "learning": LearningForm(instance=EpisodeLearning.objects.filter(pool=pool).first()),
        "judges": llm.in_use() is not None,
        "pool": pool,
        "rows": [(agent, getattr(agent, "executor", None), measured.get(agent.number)) for agent in agents],
        "readiness": [(row, _unfilled(row)) for row in rows],
        "ready": bool(rows) and all(row.state == "ready" for row in rows),
        "limits": spending.shown(pool),
        "keys": pool.api_keys.live().order_by("name"),
        "days": figures.DAYS,
        "episodes": Episode.objects.filter(pool=pool).exists(),
        "prefilled": prefilled.waiting(pool),
        "any": any(hasattr(agent, "executor") for agent in agents),
    }
    title = _("Executors")
    return draw(request, "orchestration_app/executors.html", "settings_executors", context, title=title, pool=pool)


def _unfilled(row: readiness.Readiness) -> list[str]:
    """The tools of a ready agent whose arguments nobody fills in, so that calls of them fail."""
    return mcp_arguments.unfilled(row.agent.executor) if row.state == "ready" and llm.in_use() is None else []


@require_role(Role.OPS)
@require_POST
def answer_rule(request: HttpRequest, slug: str) -> HttpResponse:
    """How the pool makes one answer of its agents' outputs."""
    pool = get_pool(request, slug)
    form = AnswerRuleForm(pool, request.POST)
    if form.is_valid():
        with show_errors(request, answers.AnswerRuleError):
            rule = answers.save(pool, form.cleaned_data["rule"], form.cleaned_data["composer"], actor=person(request))
            if rule.rule == AnswerRule.Rule.COMPOSER and rule.composer is None and llm.in_use() is None:
                words = _("Saved. Until you choose an agent or connect a language model, outputs stand under headings.")
                messages.warning(request, words)
            else:
                messages.success(request, _("Saved. New episodes are answered like this."))
    else:
        messages.error(request, "; ".join(str(error) for errors in form.errors.values() for error in errors))
    return redirect("settings_executors", slug)


@require_role(Role.OPS)
@require_POST
def episode_learning(request: HttpRequest, slug: str) -> HttpResponse:
    """What the pool's episodes may try out, and how much of them the language model judges."""
    pool = get_pool(request, slug)
    learning = EpisodeLearning.objects.filter(pool=pool).first() or EpisodeLearning(pool=pool)
    form = LearningForm(request.POST, instance=learning)
    if form.is_valid():
        answers.save_learning(form.save(commit=False), actor=person(request))
        messages.success(request, _("Saved."))
    else:
        messages.error(request, "; ".join(str(error) for errors in form.errors.values() for error in errors))
    return redirect("settings_executors", slug)


@require_role(Role.OPS)
@require_POST
def executors_check(request: HttpRequest, slug: str) -> HttpResponse:
    """Call every agent once with a harmless task; the page then shows which answered."""
    pool = get_pool(request, slug)
    ready, bad = checking.check(pool, actor=person(request))
    if bad:
        messages.warning(request, _("%(ready)d agents answered, %(bad)d did not.") % {"ready": ready, "bad": bad})
    else:
        words = ngettext("%(ready)d agent answered.", "%(ready)d agents answered.", ready)
        messages.success(request, words % {"ready": ready})
    return redirect(reverse("settings_executors", args=[slug]) + "#ready-title")


@require_role(Role.OPS)
@require_POST
def spend_limit(request: HttpRequest, slug: str) -> HttpResponse:
    """Limit what calls cost in a month: `most`, blank for no limit, for the key `key` or, blank, the pool."""
    pool, written = get_pool(request, slug), request.POST.get("most", "").strip()
    limit = parameters.decimal(written)
    key = pool.api_keys.filter(pk=parameters.number(request.POST.get("key")) or 0).first()
    if written and (limit is None or limit < 0):
        messages.error(request, _("A limit is a number from 0."))
    else:
        spending.save(pool, key, limit, actor=person(request))
        messages.success(request, _("Saved."))
    return redirect("settings_executors", slug)


@require_role(Role.OPS)
@never_cache
@require_http_methods(["GET", "POST"])
def executor_edit(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """How one agent is called; `?kind=` chooses another kind."""
    agent = _agent(slug, number)
    more: dict[str, Any] = {}
    stored = Executor.objects.filter(agent=agent).first()
    kind = request.POST.get("kind") or request.GET.get("kind") or (stored.kind if stored else Executor.Kind.CHAT)
    if kind not in Executor.Kind.values:
        kind = Executor.Kind.CHAT
    known = None if stored else prefilled.of(agent)
    if known is not None and "kind" not in {**request.GET.dict(), **request.POST.dict()}:
        kind = known.values["kind"]
    instance = stored or Executor(agent=agent, kind=kind, repeatable=kind in executors.REPEATABLE)
    if known is not None and known.values["kind"] == kind:
        for name, value in known.values.items():
            setattr(instance, name, value)
        more["prefilled"] = known.address
    form = ExecutorForm(kind, request.POST or None, instance=instance)
    if request.method == "POST" and form.is_valid():
        with show_errors_in(form, executors.ExecutorError):
            _save(request, agent, {"kind": kind, **form.values()}, form.new_secret(), known)
            messages.success(request, _("%(agent)s is called like this from now on.") % {"agent": agent.name})
            return redirect("settings_executor", slug, number)
    return _draw_one(request, agent, form, kind, stored, **more)


def _save(
    request: HttpRequest, agent: Agent, values: dict[str, Any], secret: str | None, known: prefilled.Prefilled | None
) -> None:
    """Raises ExecutorError."""
    command = values["options"].get("command")
    executor = Executor.objects.filter(agent=agent).first()
    changed = command and (executor is None or executor.options.get("command") != command)
    if changed and Role.ADMIN not in roles_of(request.user):
        raise executors.ExecutorError(_("Only an admin may have a program started on this machine."), "command")
    try:
        # A key goes to the address that it was entered for alone.
        if secret is None and known is not None and known.secret and values.get("address") == known.values["address"]:
            secret = sealing.opened(known.secret)
        opened = sealing.opened(executor.secret) if secret is None and executor is not None else secret or ""
    except sealing.CannotOpen as error:
        raise executors.ExecutorError(str(error), "secret") from None
    executors.save(agent, prefilled.with_tools(values, opened), secret=secret, actor=person(request))


@require_role(Role.OPS)
@require_POST
def executors_set_up(request: HttpRequest, slug: str) -> HttpResponse:
    """Give every agent without an executor one, where its card, its server or a backend says how it is called."""
    pool = get_pool(request, slug)
    agents, problems = prefilled.set_up(pool, actor=person(request))
    for problem in problems:
        messages.error(request, problem)
    if agents:
        names = ", ".join(agent.name for agent in agents)
        messages.success(request, _("Called from now on: %(names)s.") % {"names": names})
    return redirect("settings_executors", slug)


@require_role(Role.OPS)
@require_POST
def executor_try(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Call the agent now with a task, and show what went over the wire."""
    agent = _agent(slug, number)
    executor = get_object_or_404(Executor.objects.select_related("agent"), agent=agent)
    task = request.POST.get("task", "").strip()[:LONGEST_TASK]
    more: dict[str, Any] = {"task": task}
    if task:
        trial = checking.try_once(executor, task, f"try-{uuid.uuid4().hex}")
        more |= {"trial": trial, "failure": FAILURES.get(trial.outcome.kind, "") if trial.failed else ""}  # type: ignore[union-attr]
        if metadata := getattr(trial.outcome, "metadata", None):
            more["metadata"] = json.dumps(metadata, ensure_ascii=False, indent=2, default=str)
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
    request: HttpRequest, agent: Agent, form: ExecutorForm, kind: str, executor: Executor | None, **more: Any
) -> HttpResponse:
    if executor is not None and "trial" not in more:
        rows = readiness.of_pool(agent.pool)
        more["next"] = next((row.agent for row in rows if not hasattr(row.agent, "executor")), None)
        more["unchecked"] = any(row.state == "unchecked" for row in rows)
    context = {
        "agent": agent, "form": form, "kind": kind, "known": executor, "kinds": Executor.Kind.choices,
        "back": reverse("settings_executors", args=(agent.pool.slug,)), **more,
    }  # fmt: skip
    title = _("How %(agent)s is called") % {"agent": agent.name}
    return draw(request, "orchestration_app/executor.html", "settings_executors", context, title=title, pool=agent.pool)
