"""What choosing a backend for each query saves beside the best single backend, and the weights that keep a share of its quality.

A policy takes argmax p(success) − λ · cost / C. For each share of the best single backend's quality, λ is chosen on the judged calls;
what that brings is measured by choosing it on one half of them and looking at the other, and the other way round. Success and cost of
a policy π are doubly robust estimates over calls with a propensity,

    V(π) = mean( m(x, π(x)) + 1[π(x) = b] / p(b) · (r − m(x, b)) )

with m what the promoted chooser says of the query, or else what was measured on the other half (Dudík, Langford and Li 2011). A point
counts as keeping its share where the estimate less one standard error does: what is promised on average is kept with some room. At the
share 1 a difference of SAME is none.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db.models import Count, Q
from django.utils import timezone
from django.utils.translation import gettext as _
from numpy.typing import NDArray

from agents_app import audit
from agents_app.models import Pool
from orchestration_app import providers
from orchestration_app.backends import judging, served_calls
from orchestration_app.backends.measured import Call
from orchestration_app.backends.served_calls import ENOUGH
from orchestration_app.engine.backends.chooser import BackendChooser, drawn_split, success_probabilities
from orchestration_app.models import Backend, BackendCall, BackendSettings
from orchestration_app.models.kinds import BACKEND_CHOOSER
from training_app.engine.data.artifact import ArtifactError
from training_app.engine.data.examples import group_key
from training_app.models import RouterModel, Run
from training_app.training import runs
from training_app.versions import registry

log = logging.getLogger(__name__)
Floats = NDArray[np.float64]

#: Shares of the best single backend's quality that a pool may choose.
POINTS = (1.0, 0.98, 0.95, 0.9)
#: Judged calls with a propensity below which nothing is said, and those that a policy, and the best single backend, must have gone
#: along with (their effective number).
LEAST, LEAST_EFFECTIVE = 100, 30.0
#: What "the same quality" may differ by: where one backend is the best for every query, nothing could be shown to be as good.
SAME = 0.01
#: λ that are tried, cheapest last.
PRICES = (0.0, *np.geomspace(0.01, 10.0, 25).tolist())
PRIOR = 10.0  # calls that half a success counts as in what was measured


@dataclass(frozen=True, slots=True)
class Log:
    """Judged calls of agents that have a choice. All arrays [N] or [N, B]: `can` says which backends each call could take, `served` is
    the place of the one that did; `success` and `cost` are m."""

    can: NDArray[np.bool_]
    served: NDArray[np.int64]
    agent: NDArray[np.int64]
    half: NDArray[np.int64]
    propensity: Floats
    reward: Floats
    paid: Floats
    success: Floats
    cost: Floats
    dearest: Floats  # C of each call's agent

    def values(self, chosen: NDArray[np.int64]) -> tuple[Floats, Floats, Floats]:
        """(success, cost, weight) of each call had `chosen` [N] served it; doubly robust."""
        rows = np.arange(len(chosen))
        weight = (chosen == self.served) / self.propensity
        success = self.success[rows, chosen] + weight * (self.reward - self.success[rows, self.served])
        cost = self.cost[rows, chosen] + weight * (self.paid - self.cost[rows, self.served])
        return success, cost, weight

    def policy(self, price: float) -> NDArray[np.int64]:
        """Whom λ = `price` takes."""
        worth = np.where(self.can, self.success - price * self.cost / self.dearest[:, None], -np.inf)
        return worth.argmax(axis=1)

    def best_single(self, rows: NDArray[np.bool_]) -> NDArray[np.int64]:
        """For each call the backend of its agent that alone would have had the most success on `rows`; of equals the cheaper."""
        chosen = np.zeros(len(self.served), np.int64)
        for agent in np.unique(self.agent):
            of_agent = self.agent == agent
            places = np.flatnonzero(self.can[of_agent][0])
            judged = []
            for place in places:
                success, cost, _weight = self.values(np.full(len(self.served), place))
                judged.append((round(float(success[of_agent & rows].mean()), 6), -float(cost[of_agent & rows].mean())))
            chosen[of_agent] = places[max(range(len(places)), key=judged.__getitem__)]
        return chosen


def study(pool: Pool) -> dict[str, Any]:
    """What every point would save, as `BackendSettings.study` keeps it: {"calls", "points": […]}, or {"calls", "least"} where too few
    calls were judged.

    A point has the share, `price` λ and the effective sample size; and, where that is enough, the relative `change` of cost beside the
    best single backend, and the `difference` in success with half of its 95 % interval, `within`. Where it is not, `more` is about how
    many judged calls are missing if as many are explored as until now; None where nothing that was explored went this way.
    """
    log = _log(pool, judging.judgeable_calls(pool))
    count = 0 if log is None else len(log.served)
    if log is None or count < LEAST:
        return {"calls": count, "least": LEAST}
    return {"calls": count, "points": [_point(log, share) for share in POINTS]}


def _point(log: Log, share: float) -> dict[str, Any]:
    gained, ours, theirs, weights, weights_of_best = (np.zeros(len(log.served)) for _ in range(5))
    for half in (0, 1):
        there, here = log.half != half, log.half == half
        success, cost, weight = log.values(log.policy(chosen(log, share, there)))
        best, dear, weight_of_best = log.values(log.best_single(there))
        gained[here], ours[here], theirs[here] = (success - best)[here], cost[here], dear[here]
        weights[here], weights_of_best[here] = weight[here], weight_of_best[here]
    # What is compared is only as well known as the less observed of the two: a backend that served twice is the best by chance.
    effective = min(_effective(weights), _effective(weights_of_best))
    point: dict[str, Any] = {
        "share": share,
        "price": chosen(log, share, np.ones(len(gained), np.bool_)),
        "effective": effective,
    }
    if effective < LEAST_EFFECTIVE or theirs.mean() <= 0:
        missing = len(gained) * (LEAST_EFFECTIVE / effective - 1) if effective > 0 else 0.0
        return point | {"more": float(f"{missing:.1g}") if missing > 0 else None}
    error = 1.96 * float(gained.std(ddof=1)) / len(gained) ** 0.5
    change = float(ours.mean() / theirs.mean()) - 1
    return point | {"change": change, "difference": float(gained.mean()), "within": error}


def _effective(weights: Floats) -> float:
    """The effective sample size of calls weighted like this (Kish)."""
    return float(weights.sum() ** 2 / max((weights**2).sum(), 1e-12))


def chosen(log: Log, share: float, rows: NDArray[np.bool_]) -> float:
    """The λ that costs least on `rows` among those that keep the share there, less a standard error; 0 where none does."""
    best = log.values(log.best_single(rows))[0][rows]
    least, cheapest = 0.0, np.inf
    for price in PRICES:
        success, cost, _weight = log.values(log.policy(price))
        difference = success[rows] - share * best
        room = difference.std(ddof=1) / len(difference) ** 0.5 - (SAME if share == 1 else 0.0)
        if difference.mean() >= room and cost[rows].mean() < cheapest:
            least, cheapest = price, float(cost[rows].mean())
    return least


def refresh(pool: Pool) -> dict[str, Any]:
    """Study the pool's log again, and bring the weights of its operating point up to date, where the log still says what it brings.
    Returns the study."""
    results = study(pool) | {"at": timezone.now().isoformat()}
    row, _new = BackendSettings.objects.get_or_create(pool=pool)
    BackendSettings.objects.filter(pk=row.pk).update(study=results)
    if row.point in _estimated(results):
        use(pool, row.point, actor=None, results=results)
    return results


def _estimated(results: dict[str, Any]) -> dict[float, dict[str, Any]]:
    """The points of a study whose saving is known, by their share."""
    return {point["share"]: point for point in results.get("points", ()) if "change" in point}


def use(pool: Pool, share: float, *, actor: audit.Who, results: dict[str, Any] | None = None) -> None:
    """Choose by that operating point from now on. Raises BackendError where the log does not say how."""
    row = BackendSettings.objects.filter(pool=pool).first() or BackendSettings(pool=pool)
    points = _estimated(results or row.study)
    if share not in points:
        raise providers.BackendError(_("Too few judged calls to say what keeps this share."), "point")
    price = points[share]["price"]
    weights = {"point": share, "quality": 1 / (1 + price), "cost": price / (1 + price), "latency": 0.0}
    if row.pk is None or any(getattr(row, name) != value for name, value in weights.items()):
        providers.save_settings(pool, weights, actor=actor)


def _log(pool: Pool, calls: Sequence[Call]) -> Log | None:
    """The calls as arrays; None where no agent has a choice, or none of its calls was judged."""
    rows = list(Backend.objects.in_use().filter(agent__pool=pool).order_by("pk"))
    of_agent: dict[int, list[Backend]] = {}
    for row in rows:
        of_agent.setdefault(row.agent.number, []).append(row)
    place = {row.pk: at for at, row in enumerate(rows) if len(of_agent[row.agent.number]) > 1}
    some = [call for call in calls if call.backend in place and call.agent == rows[place[call.backend]].agent.number]
    texts: list[str] = []
    version = None
    if (loaded := _chooser(pool)) is not None:
        promoted, version = loaded
        texts_of_decision, _tools = served_calls.texts_of(pool, [call.decision for call in some])
        # Of what it learnt from, it says too much.
        some = [
            call for call in some
            if call.at > promoted.created_at or drawn_split(group_key(texts_of_decision.get(call.decision, ""))) != "train"
        ]  # fmt: skip
        texts = [texts_of_decision.get(call.decision, "") for call in some]
    if not some:
        return None
    agents = np.array([call.agent for call in some])
    can = agents[:, None] == np.array([row.agent.number for row in rows])[None, :]
    served = np.array([place[call.backend] for call in some])
    half = np.array([call.decision.int % 2 for call in some])
    reward, paid = np.array([float(bool(call.success)) for call in some]), np.array([call.cost for call in some])
    success, cost = _means(served, half, reward, paid, len(rows))
    if version is not None:
        estimates = _said(version, some, texts, rows)
        success = np.where(np.isnan(estimates), success, estimates)
    dearest = np.where(can, cost, 0.0).max(axis=1)
    return Log(
        can, served, agents, half, np.array([call.propensity for call in some], float), reward, paid, success, cost,
        np.where(dearest > 0, dearest, 1.0),
    )  # fmt: skip


def _means(
    served: NDArray[np.int64], half: NDArray[np.int64], reward: Floats, paid: Floats, backends: int
) -> tuple[Floats, Floats]:
    """Mean success and cost of each backend on the half of the calls that a row is not of, float64[N, B] each."""
    success, cost = np.zeros((len(served), backends)), np.zeros((len(served), backends))
    for part in (0, 1):
        for at in range(backends):
            measured_on = (half != part) & (served == at)
            success[half == part, at] = (reward[measured_on].sum() + PRIOR / 2) / (measured_on.sum() + PRIOR)
            cost[half == part, at] = paid[measured_on].mean() if measured_on.any() else paid.mean()
    return success, cost


def _chooser(pool: Pool) -> tuple[RouterModel, BackendChooser] | None:
    row = RouterModel.objects.active(BACKEND_CHOOSER).filter(pool=pool).select_related("pool").first()
    try:
        return None if row is None else (row, registry.load_model(row))
    except (registry.RegistryError, ArtifactError) as error:
        log.error("Pool %s: the backend chooser was refused: %s", pool.slug, error)
        return None


def _said(chooser: BackendChooser, calls: Sequence[Call], texts: Sequence[str], rows: Sequence[Backend]) -> Floats:
    """What the chooser says of each call's text, float64[N, B], NaN where it says nothing."""
    if chooser.means is not None:
        return np.array([[chooser.means.get(call.agent, {}).get(row.pk, np.nan) for row in rows] for call in calls])
    estimates = np.full((len(calls), len(rows)), np.nan)
    readable = [at for at, call in enumerate(calls) if texts[at] and str(call.agent) in chooser.direct.categories]
    if readable:
        agents = [str(calls[at].agent) for at in readable]
        success = success_probabilities([texts[at] for at in readable], agents, chooser.direct, chooser.heads)
        column = {key: at for at, key in enumerate(chooser.direct.backends)}
        for at, row in enumerate(rows):
            if (key := f"{row.agent.number}/{row.pk}") in column:
                estimates[readable, at] = success[:, column[key]]
    return estimates


# --- By the clock -------------------------------------------------------------------------------------------------------


def turn() -> int:
    """For every pool with a choice of backends: train a chooser where enough was observed, and study the log. How many pools."""
    choosable = Count("agents__backends", filter=Q(agents__backends__active=True))
    agents = Pool.objects.values("pk", "agents").annotate(count=choosable).filter(count__gte=2)
    pools = [pool for pool in Pool.objects.filter(pk__in={row["pk"] for row in agents}) if pool.state == "active"]
    for pool in pools:
        train(pool)
        refresh(pool)
    return len(pools)


def train(pool: Pool) -> Run | None:
    """A run of a chooser, which is promoted if the gate lets it pass; None where there is too little to learn, or nothing new: before
    a pool has twice as many judged calls as its last one learnt from."""
    judged = BackendCall.objects.filter(pool=pool, success__isnull=False)
    last = Run.objects.filter(pool=pool, kind=BACKEND_CHOOSER).order_by("-created_at").first()
    count = judged.count()
    if count < (ENOUGH if last is None else max(2 * judged.filter(at__lt=last.created_at).count(), ENOUGH)):
        return None
    try:
        return runs.launch(pool, kind=BACKEND_CHOOSER, promote=True, author=audit.Actor("backend chooser"))
    except runs.RunError as error:
        log.warning("No backend chooser of %s is trained: %s", pool.slug, error)
        return None
