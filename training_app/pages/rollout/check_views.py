"""Check 30 answers: a person says what live queries need without seeing what was answered; then what was delivered is known."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from agents_app.access import Role, get_pool, person, require_role
from agents_app.models import Pool
from datasets_app.labels import labeling
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
    `agent`, or `none`) or leaves one out (`skip`)."""
    pool = get_pool(request, slug)
    if request.method == "POST":
        with show_errors(request, checks.CheckError, labeling.ChoiceError):
            _act(request, pool)
        return redirect(reverse("check_answers", args=[slug]))
    open_ = checks.waiting(pool)
    context: dict[str, Any] = {"pool": pool, "round": checks.ROUND, "minutes": max(1, round(checks.ROUND / 6))}
    if open_:
        drawn = CheckedAnswer.objects.filter(pool=pool, round=open_[0].round)
        now = next((answer for answer in open_ if checks.decision_of(answer)), open_[0])
        decision = checks.decision_of(now)
        context |= {
            "now": now,
            "query_text": decision.routed_text if decision else "",
            "before": decision.messages if decision else None,
            "agents": list(pool.agents.active().order_by("number")),
            "done": drawn.done().count(),
            "of": drawn.count(),
            "guidelines": pool.guidelines,
        }
    else:
        context |= _result(pool)
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
    if do == "skip":
        checks.leave_out(answer)
    else:
        numbers = [parameters.number(value) for value in request.POST.getlist("agent")]
        chosen = {number for number in numbers if number is not None}
        if bool(chosen) == bool(request.POST.get("none")):
            raise labeling.ChoiceError(_("Choose the agents that it needs, or none of these."))
        checks.answer(answer, chosen, person(request))
    if not checks.waiting(pool):
        promise_alarms.tell(answer.model)


def _result(pool: Pool) -> dict[str, Any]:
    """What the model in use promises, and what all of its checked answers said."""
    model = registry.active(pool)
    if model is None:
        return {}
    figures = promises.checked(model)
    return {
        "model": model,
        "delivered": figures if figures.count else None,
        "promise": promises.promise(model),
        "broken": promises.broken(model) if figures.count else None,
    }
