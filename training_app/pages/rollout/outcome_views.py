"""Sending what went wrong to the labeling queue: a decision, or an error that a scorecard lists."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from agents_app.access import Role, get_pool, person, require_role, roles_of
from agents_app.models import Pool
from datasets_app.labeling import corrections, one_query
from routerweb.http import wants_fragment
from routerweb.pages import parameters
from training_app.decision_archive import reading
from training_app.engine.data.conversations import from_json
from training_app.models import RouterModel
from training_app.rollout import outcomes


@require_POST
@require_role(Role.OPS)
def label_decision(request: HttpRequest, slug: str, decision_id: UUID) -> HttpResponse:
    """Ask people about the query of a decision."""
    kept = reading.wherever(decision_id, [get_pool(request, slug)])
    if kept is None:
        raise Http404
    _send(request, kept.decision.pool, kept.decision.routed_text, "decision")
    return redirect("decision", slug, decision_id)


@require_POST
@require_role(Role.OPS)
def label_error(request: HttpRequest, slug: str, version: int) -> HttpResponse:
    """Ask people once more about queries that the model got wrong; each `error` is a place in the scorecard's list, from 0. With
    `do=accept` the person says instead that the model was right: their label is what it chose."""
    model = get_object_or_404(RouterModel.objects.select_related("pool"), pool=get_pool(request, slug), version=version)
    listed, places = model.card.errors, [parameters.number(place) for place in request.POST.getlist("error")]
    errors = [listed[place] for place in places if place is not None and place < len(listed) and listed[place]["text"]]
    if not errors or len(errors) < len(places):
        raise Http404
    if request.POST.get("do") == "accept":
        _accept(request, model, errors)
    elif len(errors) == 1:
        _send(request, model.pool, _said(errors[0]), f"error of {model.name}")
    else:
        sent = sum(outcomes.send_to_labeling(model.pool, _said(error), f"error of {model.name}") for error in errors)
        words = ngettext("%(n)d query was sent to labeling.", "%(n)d queries were sent to labeling.", sent)
        messages.success(request, words % {"n": sent})
    if wants_fragment(request):
        return render(request, "training_app/_errors_said.html")
    return redirect("model", slug, version)


def _said(error: Mapping[str, Any]) -> str:
    return from_json(error["text"], error.get("messages"))


def _accept(request: HttpRequest, model: RouterModel, errors: Sequence[Mapping[str, Any]]) -> None:
    """Label each query as the model answered it, in the person's name."""
    if Role.LABELER not in roles_of(request.user, model.pool):
        raise PermissionDenied(_("Your role does not label."))
    done, problems = 0, []
    for error in errors:
        try:
            corrections.correct(model.pool, error["text"], error["selected"], person(request), seen_at="run")
            done += 1
        except one_query.ChoiceError as refused:
            problems.append(str(refused))
    words = ngettext(
        "%(n)d label is yours now: what the router chose.", "%(n)d labels are yours now: what the router chose.", done
    )
    if done:
        messages.success(request, words % {"n": done})
    for problem in dict.fromkeys(problems):
        messages.error(request, problem)


def _send(request: HttpRequest, pool: Pool, text: str, origin: str) -> None:
    if outcomes.send_to_labeling(pool, text, origin):
        messages.success(request, _("The query was sent to labeling."))
    else:
        messages.info(request, _("The query waits to be labeled already."))
