"""What a way to choose backends would have brought, from calls that others chose: IPS, SNIPS and DR by their propensities.

A candidate is asked whom it takes for the pool's own preference, everybody free; what served must be what was assigned. Learners are
judged on the half of the calls that they did not learn from, and each half by the other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from django.utils.translation import gettext as _

from agents_app.models import Pool
from orchestration_app.backends import figures, learning, measured
from orchestration_app.backends.measured import Call
from orchestration_app.engine.backends import online
from orchestration_app.engine.backends.chooser import BackendChooser
from orchestration_app.engine.backends.choosing import PRESETS, Candidate, Preference, choose, scales
from orchestration_app.engine.backends.online import Arm
from orchestration_app.models import Backend, BackendSettings
from orchestration_app.models.kinds import BACKEND_CHOOSER
from training_app.engine.judging import off_policy
from training_app.models import Decision, RouterModel
from training_app.versions import registry

#: Below so many calls that went its way where it differs from the direct estimate, or so small an effective sample, nothing is told.
FEWEST_DIFFERING, FEWEST_EFFECTIVE = 10, 30.0
#: The newest versions are judged; rounds of the bootstrap.
MOST_VERSIONS, ROUNDS = 5, 300

Way = Callable[
    [Call, str], tuple[int, float, float]
]  # -> whom it takes, p(success) of that one and of the one that served


@dataclass(frozen=True, slots=True)
class Judged:
    """One candidate: on how many of the calls it agrees with who served, its mean cost a call (SNIPS), and why nothing is told."""

    name: str
    matched: int
    differing: int
    effective: float
    estimates: off_policy.Estimates | None = None
    cost: float | None = None
    why: str = ""


def judgeable_calls(pool: Pool) -> list[Call]:
    """The calls that can be judged by: with a propensity and an outcome, served as assigned; newest first."""
    return [
        call for call in measured.log(pool.pk)
        if call.propensity and call.success is not None and call.assigned == call.backend and call.decided_by
    ]  # fmt: skip


def judged(pool: Pool) -> list[Judged]:
    """Every candidate on the pool's log; [] where no call can be judged by."""
    calls = judgeable_calls(pool)
    rows = [row for row in figures.rows(pool) if row.backend.active]
    of_agent: dict[int, list[Candidate]] = {}
    for row in rows:
        of_agent.setdefault(row.backend.agent.number, []).append(row.expected)
    choosable = {agent for agent, some in of_agent.items() if len(some) > 1}
    served = {row.backend.pk for row in rows}
    calls = [call for call in calls if call.agent in choosable and call.backend in served]
    if not calls:
        return []
    settings_row = BackendSettings.objects.filter(pool=pool).first() or BackendSettings(pool=pool)
    preference = Preference.of(settings_row.quality, settings_row.cost, settings_row.latency)
    ways: list[tuple[str, Way]] = [
        (_("what was measured"), _by(of_agent, preference, _halves(calls, rows, _measured))),
        (_("LinUCB, no longer learning"), _by(of_agent, preference, _halves(calls, rows, online.means))),
        (_("Q-table as published"), _tables(calls, rows)),
        (_("always the cheapest"), _by(of_agent, PRESETS["cheapest"], lambda _call, _text: {})),
        (_("always the best"), _by(of_agent, PRESETS["best"], lambda _call, _text: {})),
    ]
    texts: dict[object, str] = {}
    versions = RouterModel.objects.filter(pool=pool, kind=BACKEND_CHOOSER).select_related("pool").order_by("-version")
    for version in versions[:MOST_VERSIONS]:
        try:
            chooser: BackendChooser = registry.load_model(version)
        except registry.RegistryError:
            continue
        if chooser.means is None and not texts:
            texts = dict(Decision.objects.filter(pk__in={call.decision for call in calls}).values_list("pk", "text"))
        ways.append((version.name, _by(of_agent, preference, _chooser(chooser))))
    return [_one(name, way, calls, [texts.get(call.decision, "") for call in calls]) for name, way in ways]


def _one(name: str, way: Way, calls: Sequence[Call], texts: Sequence[str]) -> Judged:
    picks = [way(call, text) for call, text in zip(calls, texts, strict=True)]
    same = np.array([backend == call.backend for call, (backend, _own, _served) in zip(calls, picks, strict=True)])
    propensity = np.array([call.propensity for call in calls], float)
    weight = same / propensity
    effective = float(weight.sum() ** 2 / max((weight**2).sum(), 1e-12))
    differing = sum(bool(hit) and not call.as_direct for hit, call in zip(same, calls, strict=True))
    judged_policy = Judged(name, int(same.sum()), differing, effective)
    if effective < FEWEST_EFFECTIVE:
        words = _("Not estimable: the effective sample is %(size).0f calls, and at least %(least).0f are needed.")
        return _told(judged_policy, words % {"size": effective, "least": FEWEST_EFFECTIVE})
    apart = any(not hit and call.as_direct for hit, call in zip(same, calls, strict=True))
    if apart and differing < FEWEST_DIFFERING:
        words = _(
            "Not estimable: %(count)d calls went its way where it differs from the direct estimate; %(least)d are needed."
        )
        return _told(judged_policy, words % {"count": differing, "least": FEWEST_DIFFERING})
    direct = np.array([bool(call.as_direct) for call in calls])
    logged = off_policy.Logged(
        success=np.array([bool(call.success) for call in calls]), propensity=propensity, candidate=same, own=direct,
        own_propensity=propensity, confidence_candidate=np.array([confidence for _taken, confidence, _served in picks]),
        confidence_answered=np.array([served for _taken, _own, served in picks]),
    )  # fmt: skip
    estimates = off_policy.estimate(logged, rounds=ROUNDS)
    cost = float((weight * [call.cost for call in calls]).sum() / weight.sum())
    return Judged(name, judged_policy.matched, differing, effective, estimates, cost)


def _told(judged: Judged, why: str) -> Judged:
    return Judged(judged.name, judged.matched, judged.differing, judged.effective, why=why)


def _by(
    of_agent: dict[int, list[Candidate]], preference: Preference, estimate: Callable[[Call, str], dict[int, float]]
) -> Way:
    """Whom a preference takes where `estimate` says what success to expect; a backend that it does not know keeps its measured one."""

    def way(call: Call, text: str) -> tuple[int, float, float]:
        estimates = estimate(call, text)
        some = [
            Candidate(
                candidate.key,
                estimates.get(candidate.key, candidate.success),
                candidate.cost,
                candidate.service,
                rank=candidate.rank,
            )
            for candidate in of_agent[call.agent]
        ]
        chosen = choose(some, preference, *scales(some)).candidate
        return (
            chosen.key,
            chosen.success,
            next(candidate.success for candidate in some if candidate.key == call.backend),
        )

    return way


def _chooser(version: BackendChooser) -> Callable[[Call, str], dict[int, float]]:
    return lambda call, text: version.estimate(text, call.agent)


def _measured(arms: Sequence[Arm], past: Sequence[online.Past]) -> dict[int, float]:
    good = {arm.backend: [10 * arm.prior, 10.0] for arm in arms}
    for call in past:
        if call.backend in good:
            good[call.backend][0] += call.success
            good[call.backend][1] += 1
    return {backend: some / count for backend, (some, count) in good.items()}


def _arms(rows: Sequence[figures.AgentBackend]) -> list[Arm]:
    return [Arm(row.backend.pk, row.backend.agent.number, str(row.backend), row.backend.quality) for row in rows]


def _side(call: Call) -> int:
    """Which half a call is of: by its decision, so that all agents of one stand together."""
    return call.decision.int % 2


def _halves(
    calls: Sequence[Call], rows: Sequence[figures.AgentBackend],
    learn: Callable[[Sequence[Arm], Sequence[online.Past]], dict[int, float]],
) -> Callable[[Call, str], dict[int, float]]:  # fmt: skip
    arms = _arms(rows)
    learnt = [learn(arms, learning.past([call for call in calls if _side(call) != half])) for half in (0, 1)]
    return lambda call, _text: learnt[_side(call)]


def _tables(calls: Sequence[Call], rows: Sequence[figures.AgentBackend]) -> Way:
    """The published table's greedy choice while nobody is hot."""
    tables = []
    for half in (0, 1):
        tables.append(table := online.Table(_arms(rows)))
        table.learn(learning.past([call for call in calls if _side(call) != half]))

    def way(call: Call, _text: str) -> tuple[int, float, float]:
        _hot, cells, chosen = tables[_side(call)].states(call.agent)[0]
        value = {backend: min(max(worth, 0.01), 0.99) for backend, worth, _visits in cells}
        return chosen, value[chosen], value[call.backend]

    return way


def table_of(pool: Pool) -> online.Table | None:
    """The published Q-table over the pool's log; None where the pool has no active backends."""
    rows = list(Backend.objects.in_use().filter(agent__pool=pool).order_by("agent__number", "order", "pk"))
    if not rows:
        return None
    table = online.Table([Arm(row.pk, row.agent.number, str(row), row.quality) for row in rows])
    table.learn(learning.past(measured.log(pool.pk)))
    return table
