"""What a candidate would have achieved on decisions that were explored, from their outcomes; or why that cannot be told.

Only a set that had a chance of being answered can be judged: the model's own, and those in which one agent changed sides. Queries in
which the candidate's set is further away are left out, and counted.
"""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.utils.translation import gettext as _

from training_app import serving
from training_app.engine import off_policy
from training_app.engine.exploring import chances, turned
from training_app.engine.router import Router
from training_app.models import Decision, Outcome, RouterModel

#: Newest decisions with an outcome that are read.
MOST = 5_000
#: Fewer answers than this with the candidate's set, where it differs, estimate nothing; nor does a smaller effective sample.
FEWEST_DIFFERING = 10
FEWEST_EFFECTIVE = 30.0


@dataclass(frozen=True, slots=True)
class OffPolicy:
    """What was found. `outcomes` decisions had one, of these `known` a propensity and `explored` an agent that changed sides.

    Of the known ones the candidate's set is the model's own in `same`, one agent away in `near` and further in `far`; of the near ones
    `answered` got the candidate's very set. `why` says in words why there are no `estimates`, or what to keep in mind.
    """

    candidate: RouterModel
    outcomes: int
    known: int
    explored: int
    same: int
    near: int
    far: int
    answered: int
    estimates: off_policy.Estimates | None
    why: str


@dataclass(frozen=True, slots=True)
class _Row:
    """One decision with its outcome; sets hold every agent that was answered, cold ones too."""

    text: str
    answered: frozenset[int]
    own: frozenset[int]
    scores: dict[int, float]
    cold: frozenset[int]
    available: frozenset[int]
    share: float
    propensity: float
    model: int
    success: bool


def evaluate(candidate: RouterModel) -> OffPolicy:
    """Judge a model by the pool's decisions that have outcomes. Raises RegistryError or ArtifactError where it cannot be used."""
    reported = Outcome.objects.filter(pool_id=candidate.pool_id)
    made = Decision.objects.filter(pool_id=candidate.pool_id, pk__in=reported.values("decision_id"))
    outcomes = made.count()
    kept = list(made.filter(propensity__isnull=False).order_by("-at")[:MOST])
    success = dict(reported.filter(decision_id__in=made.values("pk")).values_list("decision_id", "success"))
    rows = [_row(decision, success[decision.pk]) for decision in kept if decision.pk in success]
    explored = sum(row.answered != row.own for row in rows)
    if not rows:
        why = _("Not estimable: no application has reported an outcome of a decision that is kept.")
        if outcomes:
            why = _differing_without(candidate, made.order_by("-at")[:500], outcomes)
        return OffPolicy(candidate, outcomes, 0, 0, 0, 0, 0, 0, None, why)
    router = serving.router_of(candidate)
    sets, confidences = _candidates(router, rows)
    limits = {model.pk: serving.router_of(model).limits for model in _models(rows)}
    known = [_propensity(row, chosen, limits[row.model]) for row, chosen in zip(rows, sets, strict=True)]
    inside = [i for i, chance in enumerate(known) if chance > 0]
    same = sum(row.own == chosen for row, chosen in zip(rows, sets, strict=True))
    answered = sum(rows[i].answered == sets[i] != rows[i].own for i in inside)
    found = OffPolicy(
        candidate, outcomes, len(rows), explored, same, len(inside) - same, len(rows) - len(inside), answered, None, ""
    )
    return _estimated(found, rows, sets, confidences, inside)


def _estimated(
    found: OffPolicy, rows: list[_Row], sets: list[frozenset[int]], confidences: Any, inside: list[int]
) -> OffPolicy:
    def said(why: str, estimates: off_policy.Estimates | None = None) -> OffPolicy:
        return OffPolicy(
            found.candidate, found.outcomes, found.known, found.explored, found.same, found.near, found.far,
            found.answered, estimates, why,
        )  # fmt: skip

    shown = {"model": found.candidate.name, "known": found.known, "near": found.near, "answered": found.answered}
    shown |= {"far": found.far, "least": FEWEST_DIFFERING}
    if not found.near and not found.far:
        return said(_("%(model)s answers all %(known)d of them as they were answered: there is no difference.") % shown)
    if found.answered < FEWEST_DIFFERING:
        return said(
            _(
                "Not estimable: in %(near)d of %(known)d decisions %(model)s would have answered a set that is one agent away, and "
                "in %(answered)d of these exploration happened to answer that very set; at least %(least)d are needed. %(far)d more "
                "are further away, which exploration never answers."
            )
            % shown
        )
    ours, answered = confidences
    estimates = off_policy.estimate(
        np.array([rows[i].success for i in inside]),
        np.array([rows[i].propensity for i in inside]),
        np.array([rows[i].answered == sets[i] for i in inside]),
        np.array([rows[i].answered == rows[i].own for i in inside]),
        np.array([1 - rows[i].share for i in inside]),
        ours[inside],
        answered[inside],
    )
    if estimates.effective < FEWEST_EFFECTIVE:
        return said(
            _("Not estimable: the effective sample size is %(size).0f, and at least %(least).0f is needed.")
            % {"size": estimates.effective, "least": FEWEST_EFFECTIVE}
        )
    why = ""
    if found.far:
        why = _(
            "It holds for %(inside)d of %(known)d decisions: in the other %(far)d %(model)s would have answered a set that is more "
            "than one agent away, and nothing is known of those."
        ) % {**shown, "inside": len(inside)}
    return said(why, estimates)


def _row(decision: Decision, success: bool) -> _Row:
    detail = decision.detail or {}
    scores = {int(agent): score for agent, score in decision.scores.items()}
    cold = frozenset(agent for agent in decision.agents if agent not in scores)
    answered, flipped = frozenset(decision.agents), detail.get("explored")
    own = answered if flipped is None else frozenset(turned(tuple(answered), flipped))
    described = (int(agent) for agent in detail.get("cold", {}).get("scores", {}))
    return _Row(
        decision.text, answered, own, scores, cold, frozenset(scores).union(described), detail.get("share", 0.0),
        decision.propensity or 1.0, decision.model_id, success,
    )  # fmt: skip


def _candidates(router: Router, rows: list[_Row]) -> tuple[list[frozenset[int]], Any]:
    """The candidate's set for each row, of the agents that were available then; its confidence in it and in the answered one."""
    learnt = frozenset(agent.id for agent in router.agents)
    groups: dict[frozenset[int], list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        groups[row.available].append(i)
    sets: list[frozenset[int]] = [frozenset()] * len(rows)
    ours, answered = np.empty(len(rows)), np.empty(len(rows))
    for available, places in groups.items():
        texts = [rows[i].text for i in places]
        for i, route in zip(places, router.route_batch(texts, available), strict=True):
            # What was routed cold would be so beside the candidate too, unless it has learnt the agent.
            sets[i] = frozenset(route.agents) | (rows[i].cold - learnt)
        ours[places] = router.confidences(texts, [sets[i] for i in places], available)
        answered[places] = router.confidences(texts, [rows[i].answered for i in places], available)
    return sets, (ours, answered)


def _propensity(row: _Row, chosen: frozenset[int], limits: tuple[int, int]) -> float:
    """How likely the set was to be answered; 0 where it had no chance."""
    if chosen == row.own:
        return 1 - row.share
    apart = chosen ^ row.own
    if len(apart) > 1 or not row.share:
        return 0.0
    return row.share * chances(row.own - row.cold, row.scores, *limits).get(next(iter(apart)), 0.0)


def _models(rows: list[_Row]) -> list[RouterModel]:
    return list(RouterModel.objects.filter(pk__in={row.model for row in rows}).select_related("pool"))


def _differing_without(candidate: RouterModel, newest: Any, outcomes: int) -> str:
    """Why nothing can be told where nothing was explored, with how often it would matter."""
    router = serving.router_of(candidate)
    differing = looked = 0
    groups: dict[frozenset[int], list[tuple[str, frozenset[int]]]] = defaultdict(list)
    for decision in newest:
        available = frozenset(int(agent) for agent in decision.scores)
        groups[available].append((decision.text, frozenset(decision.agents) & available))
    for available, found in groups.items():
        routes = router.route_batch([text for text, _set in found], available)
        looked += len(found)
        differing += sum(
            frozenset(route.agents) != answered for route, (_text, answered) in zip(routes, found, strict=True)
        )
    return _(
        "Not estimable: this pool has not explored, so every answer was certain. Of the newest %(looked)d of %(outcomes)d decisions "
        "with an outcome %(model)s would have answered %(differing)d otherwise, and no outcome speaks of those answers."
    ) % {"looked": looked, "outcomes": outcomes, "model": candidate.name, "differing": differing}
