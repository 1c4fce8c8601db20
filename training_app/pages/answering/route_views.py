"""Pages of routes: the playground, the list of decisions, one decision replayed."""

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Exists, OuterRef
from django.db.models.functions import Lower
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_http_methods

from agents_app import public_demo
from agents_app.access import Role, get_pool, require_role, roles_of
from agents_app.models import Agent, Pool
from datasets_app.pages import chat
from datasets_app.pages.correction_form import CorrectionForm
from routerweb.database.trigrams import are_indexed
from routerweb.http import page
from routerweb.pages import paging, parameters
from routerweb.pages.downloads import download
from training_app.answering import answer, described, explanations, marks, nearest, replays, routable, serving
from training_app.answering.answered import answer_as_json
from training_app.decision_archive import reading
from training_app.engine.data.conversations import BadConversation, as_json, before
from training_app.engine.routing.router import ArtifactError, Router
from training_app.models import Decision, Outcome
from training_app.models.decisions import DecisionQuerySet
from training_app.pages.answering import playground_chat, playground_models
from training_app.rollout import decision_exports, outcomes
from training_app.versions import registry

ROWS = 50
#: A decision's id as the API gives it.
ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
REASONS = {
    "stop": gettext_lazy("Stopped when no further agent was worth it"),
    "none": gettext_lazy("None of the agents is needed"),
    "max_agents": gettext_lazy("Reached the most agents that a route may have"),
    "abstained": gettext_lazy("Does not know: the set is a best guess"),
}
#: Options of a request that a decision keeps, as its page names them.
LIMITS = {
    "budget": gettext_lazy("budget"),
    "min_agents": gettext_lazy("fewest agents"),
    "max_agents": gettext_lazy("most agents"),
    "threshold": gettext_lazy("threshold"),
    "operating_point": gettext_lazy("operating point"),
}
REASON_WORDS = {
    "stop": gettext_lazy("Stopped"),
    "none": gettext_lazy("None needed"),
    "max_agents": gettext_lazy("Most agents"),
    "abstained": gettext_lazy("Abstained"),
}


MADE: dict[str, tuple[Any, dict[str, Any]]] = {
    "canary": (gettext_lazy("By a canary"), {"detail__canary": True}),
    "explored": (gettext_lazy("Explored"), {"detail__explored__isnull": False}),
    "cold": (gettext_lazy("With a cold agent"), {"detail__cold__taken": True}),
}
FORMATS = {
    "jsonl": gettext_lazy("JSON lines"),
    "parquet": gettext_lazy("Parquet"),
    "huggingface": gettext_lazy("Hugging Face dataset (zip)"),
}
OUTCOMES = {"success": gettext_lazy("Success"), "failure": gettext_lazy("Failure")}


@require_http_methods(["GET", "POST"])
@require_role(Role.OPS)
def playground(request: HttpRequest, slug: str) -> HttpResponse:
    """Type a query, see its route and why. `?query=` does so at once, for links. Nothing is kept, or left to chance.

    `model` is a version to try instead of what answers now, `beside` one whose answer stands next to it.

    It is a chat: `messages` carries what was said before, and `go_on` puts the query and its answer behind that.
    """
    pool = get_pool(request, slug)
    loaded = serving.current(slug)
    context: dict[str, Any] = {"pool": pool, "loaded": loaded, "limit": settings.MAX_QUERY_CHARACTERS}
    context["may_label"] = Role.LABELER in roles_of(request.user, slug)
    params = request.POST if request.method == "POST" else request.GET
    versions = playground_models.versions(pool)
    tried, beside = (playground_models.chosen(versions, params.get(name, "")) for name in ("model", "beside"))
    answering = loaded is not None and loaded.model is not None
    if not answering and tried is None:
        tried = versions[0] if versions else None  # nothing answers yet: the newest is tried
    context |= {"answering": answering, "versions": versions, "tried": tried, "beside": beside}
    if tried is not None:
        try:
            loaded = serving.pool_of(tried)
        except (registry.RegistryError, ArtifactError) as problem:
            context["error"], loaded = str(problem), None
        context["loaded"] = loaded or context["loaded"]
    if loaded is not None and loaded.model is None and (by_descriptions := described.described(loaded)) is not None:
        loaded = by_descriptions
        context["by_descriptions"] = True
    if "query" in params and loaded and loaded.model:
        query = params["query"].replace("\r\n", "\n")
        messages = playground_chat.so_far(params)
        context["query"] = query
        try:
            turn = playground_chat.query_in(messages, query)
            answered = answer.answer(loaded, turn, explain=True, explore=False)
            if "go_on" in params:
                messages = playground_chat.gone_on(messages, query, answered.route, params.get("reply", "").strip())
                context["query"] = ""
            context |= {"chat": playground_chat.drawn(loaded, messages), "said_before": json.dumps(messages)}
        except (routable.Unroutable, BadConversation) as problem:
            context["error"] = _("The query %(problem)s.") % {"problem": problem}
        else:
            if "go_on" not in params:
                context |= {**_answered(answered), "marks": _marks(answered.model.router, turn)}
                if context["may_label"] and not messages:
                    chosen = [agent.id for agent in context["cold_taken"]]
                    context["correction"] = CorrectionForm.of(
                        pool, query, [*answered.route.agents, *chosen], "playground"
                    )
                context |= {"nearest": nearest.to(pool, query), "curl": curl(slug, turn)}
                if beside is not None:
                    context["other"] = playground_models.beside(beside, turn, answered.route)
    if getattr(request, "htmx", False):
        return render(request, "training_app/_playground_result.html", context)
    return page(request, "training_app/playground.html", context, title=_("Playground"), crumbs=_crumbs(pool))


def _answered(answered: answer.Answer) -> dict[str, Any]:
    """An answer as the playground shows it."""
    by_number = {agent.id: agent for agent in answered.pool.roster}
    cold = answered.cold.cold if answered.cold is not None else {}
    explained = answered.explanation
    assert explained is not None, "the playground asks for an explanation"
    return {
        "route": answered.route,
        "model": answered.model,
        "is_canary": answered.pool.live is not None and answered.pool.live.is_canary,
        "reason": REASONS[answered.route.stop_reason],
        "picture": explanations.picture(
            explained, explanations.columns_of(answered.model.router.agents, answered.pool)
        ),
        "not_covered": [by_number[number] for number in answered.pool.not_covered if number not in cold],
        "cold": [(by_number[number], score, number in answered.cold_taken) for number, score in cold.items()],
        "cold_taken": [by_number[number] for number in answered.cold_taken],
        "answer": json.dumps(answer_as_json(answered, kept=False), ensure_ascii=False, indent=2),
    }


def _marks(router: Router, query: str) -> dict[str, Any]:
    """For the page's script: the words that call for each agent, and the agents' names; {} where no words can be named."""
    words = marks.of_router(router, query)
    names = {agent.id: agent.name for agent in router.agents}
    return {"words": words, "names": names} if words else {}


@require_GET
@require_role(Role.OPS)
def decision_list(request: HttpRequest, slug: str) -> HttpResponseBase:
    """The pool's decisions, newest first; `?q=` (words, or a decision's id), `?agent=`, `?model=`, `?reason=`, `?made=` and
    `?outcome=` filter, `?format=` exports what is left, with `?without_text=1` without words."""
    pool = get_pool(request, slug)
    chosen = {name: request.GET.get(name, "").strip() for name in ("q", "agent", "model", "reason", "made", "outcome")}
    decisions = Decision.objects.filter(pool=pool)

    def fits(rows: Any) -> DecisionQuerySet:
        # Lowered, so that PostgreSQL reads the rows of a stretch, and not its index of words for the whole table.
        return _fitting(rows.alias(words=Lower("text")), chosen, "words")

    if (kind := request.GET.get("format", "")) in decision_exports.FORMATS:
        if not decision_exports.can_write(kind):
            raise Http404(_("Parquet needs pyarrow, which this server does not have."))
        words = request.GET.get("without_text") != "1"
        pieces = decision_exports.download(pool, kind, _fitting(decisions, chosen), words)
        return download(pieces, decision_exports.FORMATS[kind], decision_exports.file_name(pool, kind))
    filtered = any(chosen.values())
    shown = paging.part(decisions, ["-at", "-pk"], request.GET, ROWS, fits if filtered else None)
    if shown.reached and chosen["q"] and are_indexed(Decision):
        shown = paging.part(_fitting(decisions, chosen), ["-at", "-pk"], request.GET, ROWS)
    total = None
    if shown.is_whole or not filtered:
        total = paging.total(decisions, shown=shown, exact=request.GET.get("count") == "exact")
    agents = {agent.number: agent for agent in pool.agents.all()}
    context = {
        "pool": pool,
        "rows": [
            (row, REASON_WORDS.get(row.stop_reason), [agents[number] for number in row.agents if number in agents])
            for row in shown.of(decisions.select_related("model__pool"))
        ],
        "part": shown,
        "total": total,
        "chosen": chosen,
        "filtered": filtered,
        "agents": list(agents.values()),
        "versions": pool.models.order_by("-version").values_list("version", flat=True),
        "reasons": REASON_WORDS.items(),
        "made": [(name, word) for name, (word, _filter) in MADE.items()],
        "reports": OUTCOMES.items(),
        "formats": [(name, word) for name, word in FORMATS.items() if decision_exports.can_write(name)],
        "outcomes": outcomes.by_model(pool),
        "archived": None if shown.next else reading.extent(pool),
    }
    return page(request, "training_app/decisions.html", context, title=_("Decisions"), crumbs=_crumbs(pool))


def _fitting(rows: DecisionQuerySet, chosen: Mapping[str, str], words: str = "text") -> DecisionQuerySet:
    """Those of the decisions that fit what the list's form asks for; its words are looked for in the column `words`."""
    agent, version = parameters.number(chosen["agent"]), parameters.number(chosen["model"])
    if ID.fullmatch(chosen["q"]):
        rows = rows.filter(pk=UUID(chosen["q"]))
    elif chosen["q"]:
        rows = rows.filter(**{f"{words}__icontains": chosen["q"]})
    if agent is not None:
        rows = rows.choosing(agent)
    if version is not None:
        rows = rows.filter(model__version=version)
    if chosen["reason"] in REASON_WORDS:
        rows = rows.filter(stop_reason=chosen["reason"])
    if chosen["made"] in MADE:
        rows = rows.filter(**MADE[chosen["made"]][1])
    if chosen["outcome"] in OUTCOMES:
        reported = Outcome.objects.filter(decision_id=OuterRef("pk"), success=chosen["outcome"] == "success")
        rows = rows.filter(Exists(reported))
    return rows


@require_GET
@require_role(Role.OPS)
def decision_detail(request: HttpRequest, slug: str, decision_id: UUID) -> HttpResponse:
    """One decision, and the same picture by replaying it on the model version that made it."""
    kept = reading.wherever(decision_id, Pool.objects.filter(slug=slug))
    if kept is None:
        raise Http404
    decision, outcome = kept.decision, kept.outcome
    detail = decision.detail or {}
    agents = {agent.number: agent for agent in decision.pool.agents.all()}
    context: dict[str, Any] = {
        "pool": decision.pool,
        "decision": decision,
        "chosen": [agents[number] for number in decision.agents if number in agents],
        "reason": REASONS.get(decision.stop_reason, decision.stop_reason),
        "outcome": outcome,
        "used": [agents[number] for number in (outcome.agents_used or () if outcome else ()) if number in agents],
        "limits": [(LIMITS[name], value) for name, value in detail.get("options", {}).items() if name in LIMITS],
        "asked": [agents[number] for number in detail.get("ask", ()) if number in agents],
        "explored": agents.get(detail.get("explored", -1)),
        "left_out": detail.get("explored") not in decision.agents,
        "cold": [
            (agents[number], score, number in decision.agents)
            for number, score in replays.cold_scores(detail).items()
            if number in agents
        ],
        "nearest": nearest.to(decision.pool, decision.text),
        "chat": chat.earlier(decision.routed_text, list(agents.values())),
    }
    if Role.LABELER in roles_of(request.user, slug) and decision.text and not context["chat"]:
        seen_at = "decision" if outcome is None else "outcome"
        active = [agent for agent in agents.values() if agent.state == Agent.State.ACTIVE]
        context["correction"] = CorrectionForm.of(decision.pool, decision.text, decision.agents, seen_at, active)
    loaded = serving.current(slug)
    try:
        router = replays.router_of(decision)
    except (registry.RegistryError, ArtifactError) as error:
        context["error"] = str(error)
    else:
        if not decision.text:
            context["error"] = _("Its text was erased.")
        elif loaded is not None:
            cold = loaded.live.cold if loaded.live is not None else None
            replayed = replays.replay(decision, router, cold)
            columns = explanations.columns_of(router.agents, loaded)
            context["picture"] = explanations.picture(replayed.explanation, columns)
            context["marks"] = _marks(router, decision.routed_text)
            context["replayed"] = replayed
            context["barred"] = [column for column in columns if str(column.id) not in decision.scores]
    crumbs = [*_crumbs(decision.pool), (_("Decisions"), reverse("decisions", args=[slug]))]
    return page(request, "training_app/decision.html", context, title=_("Decision"), crumbs=crumbs)


def curl(slug: str, query: str) -> str:
    """The command that routes the query as an application would; ROUTERWEB_KEY stands for the key, but in a public demo."""
    body_of_query = {"messages": as_json(query)} if before(query) else {"query": query}
    body = json.dumps({**body_of_query, "pool": slug}, ensure_ascii=False)
    key = public_demo.key() or "$ROUTERWEB_KEY"
    return (
        f"curl -X POST {shlex.quote(settings.SITE_URL + '/api/route/')} \\\n"
        f'  -H "Authorization: Bearer {key}" \\\n'
        "  -H 'Content-Type: application/json' \\\n"
        f"  -d {shlex.quote(body)}"
    )


def _crumbs(pool: Pool) -> list[tuple[str, str]]:
    return [(pool.name, reverse("home"))]
