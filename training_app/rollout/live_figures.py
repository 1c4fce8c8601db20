"""What shadows and canaries show beside the active model on live decisions, with intervals, and in words when it is not enough."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from django.utils.translation import gettext as _

from training_app.engine.data import metrics, shares
from training_app.engine.judging import sequential
from training_app.models import Canary, LiveTally, RouterModel, ShadowScore
from training_app.versions import kinds, registry, scorecards
from training_app.versions.traffic import Traffic

#: Newest scores that an agreement reads, and disagreements that it lists.
MOST = 5_000
SHOWN = 20
#: Below so many outcomes on a side nothing is said of success.
FEWEST = 100


@dataclass(frozen=True, slots=True)
class ByAgent:
    """How often an agent was in both sets, only in the active model's, only in the shadow's."""

    agent: Any
    both: int
    only_active: int
    only_shadow: int

    @property
    def agreement(self) -> float:
        """Of the decisions in which one of the two took it, the share in which both did."""
        return self.both / (self.both + self.only_active + self.only_shadow)


@dataclass(frozen=True, slots=True)
class Agreement:
    """A shadow beside the active model on the same `count` texts; figures are means with 95 % intervals, times in µs.

    `size` is of the difference in agents a set, `differing` the newest scores that disagree.
    """

    count: int
    jaccard: dict[str, float]
    exact: dict[str, float]
    sizes: tuple[float, float]
    size: dict[str, float]
    abstained: float
    microseconds: tuple[float, float]
    by_agent: list[ByAgent]
    differing: list[ShadowScore]


def agreement(shadow: RouterModel, active: RouterModel) -> Agreement | None:
    """How a shadow's sets compare with those that the active model answered, over the newest MOST texts; None before the first."""
    rows = list(ShadowScore.objects.filter(model=shadow, against=active).order_by("-at")[:MOST])
    if not rows:
        return None
    listed = {agent.number: agent for agent in shadow.pool.agents.all()}
    ids = sorted({number for row in rows for number in (*row.agents, *row.answered)})
    ours = np.array([[number in row.agents for number in ids] for row in rows], np.bool_).reshape(len(rows), -1)
    theirs = np.array([[number in row.answered for number in ids] for row in rows], np.bool_).reshape(len(rows), -1)
    measured = metrics.per_query(ours, theirs)
    by_agent = [
        ByAgent(
            listed.get(number),
            int((ours[:, i] & theirs[:, i]).sum()),
            int((~ours[:, i] & theirs[:, i]).sum()),
            int((ours[:, i] & ~theirs[:, i]).sum()),
        )
        for i, number in enumerate(ids)
        if number in listed
    ]
    sizes = ours.sum(axis=1), theirs.sum(axis=1)
    return Agreement(
        count=len(rows),
        jaccard=metrics.interval(measured["jaccard"]),
        exact=shares.wilson(int(measured["exact"].sum()), len(rows)),
        sizes=(float(sizes[0].mean()), float(sizes[1].mean())),
        size=metrics.paired(sizes[0], sizes[1], "set_size"),
        abstained=float(np.mean([row.abstained for row in rows])),
        microseconds=(
            float(np.median([row.microseconds for row in rows])),
            float(np.median([row.answered_in for row in rows])),
        ),
        by_agent=sorted(by_agent, key=lambda row: row.agreement),
        differing=[row for row in rows if set(row.agents) != set(row.answered)][:SHOWN],
    )


def tally(model: RouterModel, kind: str) -> LiveTally:
    """What was counted of the model, zeros where nothing was yet."""
    return LiveTally.objects.filter(model=model, kind=kind).first() or LiveTally(model=model, kind=kind)


@dataclass(frozen=True, slots=True)
class Arm:
    """One side of a canary's comparison, over its `count` newest decisions or episodes; outcomes are those of the whole time. Of an
    episode `size` is its steps, and `abstained` that it gave no answer."""

    model: RouterModel
    count: int
    size: float
    size_variance: float
    abstained: dict[str, float]
    microseconds: tuple[float, float]
    outcomes: int
    successes: int
    success: dict[str, float]

    @property
    def seconds(self) -> tuple[float, float]:
        """What the microseconds are in seconds."""
        return self.microseconds[0] / 1e6, self.microseconds[1] / 1e6


@dataclass(frozen=True, slots=True)
class Comparison:
    """A canary beside the active model since it started. Differences are the canary's less the active model's.

    `success` holds however often it is looked at. `enough` tells whether success can be told apart, `verdict` says it in words;
    `mismatch` says what is wrong with the split of the traffic, "" where nothing is.
    """

    canary: Arm
    active: Arm
    size: dict[str, float]
    abstained: dict[str, float]
    success: sequential.Difference
    enough: bool
    verdict: str
    mismatch: str


def compare(canary: Canary) -> Comparison:
    """The canary beside the model that was active when it started, on the decisions that both made meanwhile."""
    ours, theirs = _arm(canary, canary.model), _arm(canary, canary.against)
    success, mismatch = _success(canary), _mismatch(canary)
    enough, verdict = _verdict(ours, theirs, success, mismatch)
    return Comparison(
        ours,
        theirs,
        shares.means((ours.size, ours.size_variance, ours.count), (theirs.size, theirs.size_variance, theirs.count)),
        shares.difference(
            round(ours.abstained["mean"] * ours.count) if ours.count else 0,
            ours.count,
            round(theirs.abstained["mean"] * theirs.count) if theirs.count else 0,
            theirs.count,
        ),
        success,
        enough,
        verdict,
        mismatch,
    )


def _periods(canary: Canary) -> list[float]:
    """When each period of one share began, in seconds since 1970."""
    return [datetime.fromisoformat(since).timestamp() for since, _share in canary.shares]


def _success(canary: Canary) -> sequential.Difference:
    rows = _traffic(canary).judged(canary)
    if not rows:
        return sequential.NOTHING
    _names, units = np.unique([row.unit for row in rows], return_inverse=True)
    return sequential.difference(
        np.array([row.success for row in rows]),
        np.array([row.model == canary.model_id for row in rows]),
        units,
        np.searchsorted(_periods(canary), [row.at.timestamp() for row in rows], side="right"),
    )


def _mismatch(canary: Canary) -> str:
    """What is wrong with how the present period's traffic splits, counted by who asked; "" where it splits as set."""
    since = datetime.fromisoformat(canary.shares[-1][0]) if canary.shares else canary.started_at
    sides = _traffic(canary).sides(canary, since)
    met = sum(model == canary.model_id for model in sides)
    if not sides or sequential.mismatch(met, len(sides), canary.share) < sequential.MISMATCH:
        return ""
    return _(
        "The traffic does not split as set: %(met)d of %(units)d users and texts met %(canary)s, which is %(found).1f %% and not "
        "%(share).1f %%. Until that is explained, nothing can be said of success: look for errors of the canary, and for applications "
        "that send some requests without their sticky_key."
    ) % {
        "met": met, "units": len(sides), "canary": canary.model.name, "found": 100 * met / len(sides), "share": 100 * canary.share,
    }  # fmt: skip


def _arm(canary: Canary, model: RouterModel) -> Arm:
    made = _traffic(canary).answers(canary, model.pk)
    count, sizes = len(made.sizes), np.array(made.sizes, np.float64)
    times = made.microseconds or [float("nan")]
    return Arm(
        model=model,
        count=count,
        size=float(sizes.mean()) if count else float("nan"),
        size_variance=float(sizes.var(ddof=1)) if count > 1 else 0.0,
        abstained=shares.wilson(sum(made.none), count),
        microseconds=(float(np.percentile(times, 50)), float(np.percentile(times, 95))),
        outcomes=made.outcomes,
        successes=made.successes,
        success=shares.wilson(made.successes, made.outcomes),
    )


def _verdict(ours: Arm, theirs: Arm, success: sequential.Difference, mismatch: str) -> tuple[bool, str]:
    if mismatch:
        return False, mismatch
    shown: dict[str, Any] = {"canary": ours.model.name, "active": theirs.model.name}
    shown |= {"ours": ours.outcomes, "theirs": theirs.outcomes, "least": FEWEST, "units": sequential.FEWEST_UNITS}
    shown |= {"low": 100 * success.low, "high": 100 * success.high}
    if not min(ours.outcomes, theirs.outcomes):
        return False, _(
            "Not enough to tell: success is compared once applications report outcomes of both models. "
            "%(canary)s has %(ours)d, %(active)s %(theirs)d."
        ) % shown
    if min(ours.outcomes, theirs.outcomes) < FEWEST:
        return False, _(
            "Not enough to tell: %(canary)s has %(ours)d outcomes, %(active)s %(theirs)d; at least %(least)d each are needed."
        ) % shown
    if success.units < sequential.FEWEST_UNITS:
        return False, _(
            "Not enough to tell: the outcomes come from too few users and texts; at least %(units)d on each side are needed."
        ) % shown
    if success.low > 0:
        return True, _("%(canary)s succeeds more often than %(active)s, by %(low).1f to %(high).1f points.") % shown
    if success.high < 0:
        less = {**shown, "low": -shown["high"], "high": -shown["low"]}
        return True, _("%(canary)s succeeds less often than %(active)s, by %(low).1f to %(high).1f points.") % less
    text = _(
        "No difference in success shows so far: %(canary)s less %(active)s lies between %(low)+.1f and %(high)+.1f points."
    )
    return False, scorecards.as_in_tables(text % shown)


def shadow_json(shadow: RouterModel) -> dict[str, Any]:
    """What the API says of a shadow."""
    active, counted = registry.active(shadow.pool, shadow.kind), tally(shadow, LiveTally.Kind.SHADOW)
    agreed = agreement(shadow, active) if active else None
    figures: dict[str, Any] = {"scored": counted.done, "errors": counted.errors, "skipped": counted.skipped}
    figures |= {"last_error": counted.last_error, "against": active.name if active else None, "queries": 0}
    if agreed is not None:
        figures |= {
            "queries": agreed.count,
            "jaccard": agreed.jaccard,
            "exact": agreed.exact,
            "set_size": {"shadow": agreed.sizes[0], "active": agreed.sizes[1], "difference": agreed.size},
            "microseconds": {"shadow": agreed.microseconds[0], "active": agreed.microseconds[1]},
            "by_agent": [
                {"id": r.agent.number, "both": r.both, "only_active": r.only_active, "only_shadow": r.only_shadow}
                for r in agreed.by_agent
            ],
        }
    return figures


def canary_json(canary: Canary) -> dict[str, Any]:
    """What the API says of a canary; figures that there are none of are null."""
    compared = compare(canary)
    figures: dict[str, Any] = {
        "model": canary.model.name,
        "against": canary.against.name,
        "share": canary.share,
        "passed": canary.passed,
        "override": canary.override,
        "started_at": canary.started_at.isoformat(),
        "enough": compared.enough,
        "verdict": compared.verdict,
        "errors": tally(canary.model, LiveTally.Kind.CANARY).errors,
    }
    for name, arm in (("canary", compared.canary), ("active", compared.active)):
        figures[name] = {
            "decisions": arm.count,
            "set_size": arm.size,
            "abstained": arm.abstained,
            "microseconds": {"p50": arm.microseconds[0], "p95": arm.microseconds[1]},
            "outcomes": arm.outcomes,
            "success": arm.success,
        }
    success = {"mean": compared.success.mean, "low": compared.success.low, "high": compared.success.high}
    figures["difference"] = {"set_size": compared.size, "abstained": compared.abstained, "success": success}
    cleaned: dict[str, Any] = _finite(figures)
    return cleaned


def _finite(value: Any) -> Any:
    # JSON has no nan, which is what a mean of nothing is.
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    return None if isinstance(value, float) and not np.isfinite(value) else value


def _traffic(canary: Canary) -> Traffic:
    """How the answers of the canary's kind are read."""
    traffic = kinds.of(canary.kind).traffic
    assert traffic is not None, "only kinds with traffic have canaries"
    return traffic
