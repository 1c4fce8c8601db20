"""Check 30 answers: a person says what live queries need without seeing what was answered; then what was delivered is known."""

from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.guidelines import rendered
from agents_app.models import Agent, Pool
from datasets_app.labeling import one_query
from datasets_app.pages.labeling_page import key_of
from routerweb.http import page
from routerweb.pages import parameters
from routerweb.pages.shown_errors import show_errors
from training_app.models import CheckedAnswer
from training_app.rollout import checks, promises
from training_app.versions import registry
from training_app.watching import promise_alarms


@require_http_methods(["GET", "POST"])
@require_role(Role.LABELER)
def check(request: HttpRequest, slug: str) -> HttpResponse:
    """The next answer to check. A POST's `do` draws a round (`draw`), keeps what a query needs (`answer`: the `check`'s key, each
    `agent`, or `none`), leaves one out (`skip`), or takes the last answer back (`undo`)."""
    pool = get_pool(request, slug)
    if request.method == "POST":
        with show_errors(request, checks.CheckError, one_query.ChoiceError):
            _act(request, pool)
        return redirect(reverse("check_answers", args=[slug]))
    open_ = checks.waiting(pool)
    context: dict[str, Any] = {
        "pool": pool, "round": checks.ROUND, "minutes": max(1, round(checks.ROUND / 6)),
        "last": checks.last_of(pool, person(request)),
    }  # fmt: skip
    if open_:
        drawn = CheckedAnswer.objects.filter(pool=pool, round=open_[0].round)
        now = next((answer for answer in open_ if checks.decision_of(answer)), open_[0])
        decision, active = checks.decision_of(now), registry.active(pool)
        context |= {
            "replaced": active.name if active is not None and active.pk != now.model_id else "",
            "now": now,
            "query_text": decision.routed_text if decision else "",
            "before": decision.messages if decision else None,
            "rows": [(agent, key_of(at)) for at, agent in enumerate(pool.agents.active().order_by("number"))],
            "done": drawn.done().count(),
            "of": drawn.count(),
            "guidelines": rendered(pool.guidelines) if pool.guidelines else "",
        }
    else:
        context |= _result(pool)
        context["may_open"] = Role.OPS in roles_of(request.user, pool.pk)
    return page(request, "training_app/check.html", context, title=_("Check %(n)d answers") % {"n": checks.ROUND})


def _act(request: HttpRequest, pool: Pool) -> None:
    do = request.POST.get("do")
    if do == "draw" and checks.waiting(pool):
        return  # a round that somebody has begun
    if do == "draw":
        drawn = checks.draw(pool, actor=person(request))
        words = ngettext("%(n)d answer was drawn at random.", "%(n)d answers were drawn at random.", drawn)
        messages.success(request, words % {"n": drawn})
        return
    key = parameters.number(request.POST.get("check", ""))
    answer = get_object_or_404(CheckedAnswer, pool=pool, pk=key)
    if do == "undo":
        checks.take_back(answer, person(request))
        return
    if do == "skip":
        checks.leave_out(answer)
    else:
        numbers = [parameters.number(value) for value in request.POST.getlist("agent")]
        chosen = {number for number in numbers if number is not None}
        if bool(chosen) == bool(request.POST.get("none")):
            raise one_query.ChoiceError(_("Choose the agents that it needs, or none of these."))
        checks.answer(answer, chosen, person(request))
    if not checks.waiting(pool):
        promise_alarms.tell(answer.model)


def _result(pool: Pool) -> dict[str, Any]:
    """What the model in use promises, and what all of its checked answers said; those of an earlier model where nobody has checked any
    since and it was the last to be checked."""
    active = registry.active(pool)
    if active is None:
        return {}
    model, figures = active, promises.checked(active)
    last = None if figures.count else checks.last_model(pool)
    if last is not None:
        model, figures = last, promises.checked(last)
    agents = {agent.number: agent for agent in pool.agents.all()}
    return {
        "model": model,
        "replaced": active.name if last is not None else "",
        "delivered": figures if figures.count else None,
        "promise": promises.promise(model),
        "broken": promises.broken(model) if figures.count else None,
        "mistakes": [_shown(mistake, agents) for mistake in checks.mistakes(model)],
    }


def _shown(mistake: checks.Mistake, agents: Mapping[int, Agent]) -> dict[str, Any]:
    """A wrong answer with its agents, as the page lists it."""
    answered, required = (
        [agents[number] for number in numbers if number in agents] for numbers in (mistake.answered, mistake.required)
    )
    return {"decision": mistake.decision, "text": mistake.text, "answered": answered, "required": required}
