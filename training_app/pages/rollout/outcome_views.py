"""Sending what went wrong to the labeling queue: a decision, or an error that a scorecard lists."""

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from agents_app.access import Role, get_pool, require_role
from agents_app.models import Pool
from routerweb import parameters
from training_app.engine.data.conversations import from_json
from training_app.models import Decision, RouterModel, packed
from training_app.rollout import outcomes


@require_POST
@require_role(Role.OPS)
def label_decision(request: HttpRequest, slug: str, decision_id: UUID) -> HttpResponse:
    """Ask people about the query of a decision."""
    packed.bring(decision_id)
    found = get_object_or_404(Decision.objects.select_related("pool"), pool=get_pool(request, slug), pk=decision_id)
    _send(request, found.pool, found.said, "decision")
    return redirect("decision", slug, decision_id)


@require_POST
@require_role(Role.OPS)
def label_error(request: HttpRequest, slug: str, version: int) -> HttpResponse:
    """Ask people once more about a query that the model got wrong; `error` is its place in the scorecard's list, from 0."""
    model = get_object_or_404(RouterModel.objects.select_related("pool"), pool=get_pool(request, slug), version=version)
    place, listed = parameters.number(request.POST.get("error")), model.card.errors
    if place is None or place >= len(listed) or not listed[place]["text"]:
        raise Http404
    said = from_json(listed[place]["text"], listed[place].get("messages"))
    _send(request, model.pool, said, f"error of {model.name}")
    return redirect("model", slug, version)


def _send(request: HttpRequest, pool: Pool, text: str, origin: str) -> None:
    if outcomes.send_to_labeling(pool, text, origin):
        messages.success(request, _("The query was sent to labeling."))
    else:
        messages.info(request, _("The query waits to be labeled already."))
