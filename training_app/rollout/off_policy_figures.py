"""What a candidate would have achieved on decisions that were explored, from their outcomes; or why that cannot be told.

Only a set that had a chance of being answered can be judged: the model's own, and those in which one agent changed sides. Queries in
which the candidate's set is further away are left out, and counted.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from django.utils.translation import gettext as _

from training_app.answering import replays, serving
from training_app.answering.answer import turn_then
from training_app.engine.judging import off_policy
from training_app.engine.reading.cold import ColdScores
from training_app.engine.reading.conversing.continuing import DEFAULT
from training_app.engine.routing import holding, joint
from training_app.engine.routing.exploring import chances, turned
from training_app.engine.routing.joint import Joining, Turn
from training_app.engine.routing.router import Router
from training_app.engine.routing.routes import STICKY
from training_app.models import Decision, Outcome, RouterModel

#: Newest decisions with an outcome that are read.
MOST = 5_000
#: Where fewer answers than this are to be expected with the candidate's set, where it differs, nothing is estimated; nor where the
#: effective sample that is to be expected is smaller. Both follow from the propensities alone: what exploration happened to answer
#: would let lucky draws through.
FEWEST_DIFFERING = 10.0
FEWEST_EFFECTIVE = 30.0


@dataclass(frozen=True, slots=True)
class OffPolicy:
    """`outcomes` decisions had one, of these `with_propensity` a propensity and `explored` an agent that changed sides.

    Of those with a propensity the candidate's set is the model's own in `same`, one agent away in `near` and further in `far`; of
    the near ones `answered` got the candidate's very set, and `expected` were to. `why` says in words why there are no
    `estimates`, or what to keep in mind.
    """

    candidate: RouterModel
    outcomes: int
    with_propensity: int
    explored: int
    same: int
    near: int
    far: int
    answered: int
    expected: float
    estimates: off_policy.Estimates | None
    why: str


@dataclass(frozen=True, slots=True)
class _Row:
    """One decision with its outcome; sets hold every agent that was answered, cold ones too.

    `reach` holds each set that could have been answered with how likely it was; `own` is that without an agent that changed sides.
    `cold` is what descriptions said where agents were routed by them; those of `threshold` and more could join. `turn` is one of a
    conversation that a cold agent might have gone on to answer.
    """

    text: str
    answered: frozenset[int]
    own: frozenset[int]
    reach: Mapping[frozenset[int], float]
    cold: ColdScores
    threshold: float
    available: frozenset[int]
    success: bool
    turn: Turn | None = None


def evaluate(candidate: RouterModel) -> OffPolicy:
    """Judge a model by the pool's decisions that have outcomes. Raises RegistryError or ArtifactError where it cannot be used."""
    reported = Outcome.objects.filter(pool_id=candidate.pool_id)
    made = Decision.objects.filter(pool_id=candidate.pool_id, pk__in=reported.values("decision_id"))
    outcomes = made.count()
    kept = list(made.filter(propensity__isnull=False, model__isnull=False).order_by("-at")[:MOST])
    success = dict(reported.filter(decision_id__in=made.values("pk")).values_list("decision_id", "success"))
    models = RouterModel.objects.filter(pk__in={decision.model_id for decision in kept}).select_related("pool")
    limits = {model.pk: serving.router_of(model).limits for model in models}
    rows = [
        _row(decision, success[decision.pk], limits[decision.model_id or 0])
        for decision in kept
        if decision.pk in success
    ]
    explored = sum(row.answered != row.own for row in rows)
    if not rows:
        why = _("Not estimable: no application has reported an outcome of a decision that is kept.")
        if outcomes:
            why = _differing_without(candidate, made.order_by("-at")[:500], outcomes)
        return OffPolicy(candidate, outcomes, 0, 0, 0, 0, 0, 0, 0.0, None, why)
    router = serving.router_of(candidate)
    sets, confidences = _candidates(router, rows)
    propensities = [row.reach.get(chosen, 0.0) for row, chosen in zip(rows, sets, strict=True)]
    inside = [i for i, chance in enumerate(propensities) if chance > 0]
    same = sum(row.own == chosen for row, chosen in zip(rows, sets, strict=True))
    answered = sum(rows[i].answered == sets[i] != rows[i].own for i in inside)
    expected = sum(propensities[i] for i in inside if sets[i] != rows[i].own)
    evaluated = OffPolicy(
        candidate, outcomes, len(rows), explored, same, len(inside) - same, len(rows) - len(inside), answered, expected,
        None, "",
    )  # fmt: skip
    return _estimated(evaluated, rows, sets, confidences, inside)


def _estimated(
    figures: OffPolicy, rows: list[_Row], sets: list[frozenset[int]], confidences: Any, inside: list[int]
) -> OffPolicy:
    shown: dict[str, Any] = {"model": figures.candidate.name, "known": figures.with_propensity, "near": figures.near}
    shown |= {"far": figures.far, "expected": figures.expected, "least": FEWEST_DIFFERING, "inside": len(inside)}
    if not figures.near and not figures.far:
        why = _("%(model)s answers all %(known)d of them as they were answered: there is no difference.") % shown
        return replace(figures, why=why)
    chances_of_candidate = np.array([rows[i].reach[sets[i]] for i in inside])
    if figures.expected < FEWEST_DIFFERING or not figures.answered:
        why = _(
            "Not estimable: in %(near)d of %(known)d decisions %(model)s would have answered a set that is one agent away, and "
            "exploration is to be expected to answer that very set in %(expected).1f of these; at least %(least)d are needed. "
            "%(far)d more are further away, which exploration never answers."
        )
        return replace(figures, why=why % shown)
    effective = len(inside) ** 2 / float((1 / chances_of_candidate).sum())
    if effective < FEWEST_EFFECTIVE:
        why = _("Not estimable: the expected effective sample size is %(size).0f, and at least %(least).0f is needed.")
        return replace(figures, why=why % {"size": effective, "least": FEWEST_EFFECTIVE})
    ours, answered = confidences
    logged = off_policy.Logged(
        success=np.array([rows[i].success for i in inside]),
        propensity=np.array([rows[i].reach[rows[i].answered] for i in inside]),
        candidate=np.array([rows[i].answered == sets[i] for i in inside]),
        own=np.array([rows[i].answered == rows[i].own for i in inside]),
        own_propensity=np.array([rows[i].reach[rows[i].own] for i in inside]),
        confidence_candidate=ours[inside],
        confidence_answered=answered[inside],
    )
    estimates = off_policy.estimate(logged)
    why = ""
    if figures.far:
        why = _(
            "It holds for %(inside)d of %(known)d decisions: in the other %(far)d %(model)s would have answered a set that is more "
            "than one agent away, and nothing is known of those."
        ) % shown  # fmt: skip
    return replace(figures, estimates=estimates, why=why)


def _row(decision: Decision, success: bool, limits: tuple[int, int]) -> _Row:
    detail = decision.detail or {}
    scores = {int(agent): score for agent, score in decision.scores.items()}
    described = detail.get("cold", {})
    cold = replays.cold_then(detail)
    threshold = described.get("threshold", 1.0)
    answered, flipped = frozenset(decision.agents), detail.get("explored")
    model_set = tuple(agent for agent in decision.agents if agent in scores)
    walked = model_set if flipped is None else turned(model_set, flipped)
    if "walked" in described:  # cold agents may have taken the place of some
        walked = tuple(described["walked"])
    turn = turn_then(detail, decision.routed_text, DEFAULT)
    joining = Joining(threshold, limits, single=described.get("single", False))

    def whole(agents: tuple[int, ...], keep: int | None = None) -> frozenset[int]:
        # Where the largest set binds, an agent that changes sides makes or takes room for the cold ones.
        return frozenset(joint.together(agents, scores, cold, joining, keep, turn).agents)

    share = detail.get("share", 0.0)
    may = chances(walked, scores, *limits) if share else {}
    own = whole(walked)
    reach: dict[frozenset[int], float] = {own: 1 - share if may else 1.0}
    for agent, chance in may.items():
        other = whole(turned(walked, agent), agent)
        reach[other] = reach.get(other, 0.0) + share * chance
    reach.setdefault(answered, decision.propensity or 1.0)
    return _Row(
        decision.routed_text, answered, own, reach, cold, threshold, frozenset(scores).union(cold.cold), success, turn
    )


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
        for i, route in zip(places, holding.routes(router, texts, available), strict=True):
            # What was routed cold would be so beside the candidate too, unless it has learnt the agent.
            then = rows[i].cold
            cold = ColdScores(
                {agent: p for agent, p in then.cold.items() if agent not in learnt}, then.trained | then.cold
            )
            joining = Joining(rows[i].threshold, router.limits, single=router.single)
            turn = rows[i].turn
            turn = turn and replace(turn, continuing=router.continuing, sticky=STICKY)
            sets[i] = frozenset(joint.together(route.agents, route.scores, cold, joining, turn=turn).agents)
        ours[places] = router.confidences(texts, [sets[i] for i in places], available)
        answered[places] = router.confidences(texts, [rows[i].answered for i in places], available)
    return sets, (ours, answered)


def _differing_without(candidate: RouterModel, newest: Any, outcomes: int) -> str:
    """Why nothing can be told where nothing was explored, with how often it would matter."""
    router = serving.router_of(candidate)
    differing = looked = 0
    groups: dict[frozenset[int], list[tuple[str, frozenset[int]]]] = defaultdict(list)
    for decision in newest:
        available = frozenset(int(agent) for agent in decision.scores)
        groups[available].append((decision.routed_text, frozenset(decision.agents) & available))
    for available, rows_of in groups.items():
        routes = holding.routes(router, [text for text, _set in rows_of], available)
        looked += len(rows_of)
        differing += sum(
            frozenset(route.agents) != answered for route, (_text, answered) in zip(routes, rows_of, strict=True)
        )
    return _(
        "Not estimable: this pool has not explored, so every answer was certain. Of the newest %(looked)d of %(outcomes)d decisions "
        "with an outcome %(model)s would have answered %(differing)d otherwise, and no outcome speaks of those answers."
    ) % {"looked": looked, "outcomes": outcomes, "model": candidate.name, "differing": differing}
