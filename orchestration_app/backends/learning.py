"""A pool's learner, within its guard rails.

    opt-in      a pool has none until somebody chooses one
    share       it decides at most half of the assignments; the others go by the direct estimate, drawn at random, beside it
    filters     limits, health, cool-down and budget hold for it as for everybody; once the budget is nearly spent it decides nothing
    within      it takes no backend whose expected success is further below that of the direct estimate's choice
    stop        where its calls are worth less than the others', beyond chance, it is stopped in every process, and says so

What it learns follows from the calls that were reported (`engine.backends.online`), read again every few seconds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from django.utils import timezone

from orchestration_app.backends.measured import DAYS, Call
from orchestration_app.engine.backends import online
from orchestration_app.engine.backends.choosing import Candidate, Preference
from orchestration_app.engine.backends.online import Arm, Hopes, Past
from orchestration_app.models import BackendSettings

#: Judged calls of learner and direct estimate each, before they are compared; and the standard errors that count as beyond chance:
#: three, because this is looked at every few seconds.
LEAST, CERTAIN = 50, 3.0


@dataclass(frozen=True, slots=True)
class Compared:
    """Learner and direct estimate over the same time: judged calls, success, and the difference in mean
    worth for the pool's preference.

    `low` and `high` are CERTAIN standard errors around it; NaN where either has fewer than two calls.
    """

    ours: int
    theirs: int
    success: float
    their_success: float
    difference: float
    low: float
    high: float

    @property
    def worse(self) -> bool:
        """Whether the learner is to be stopped."""
        return min(self.ours, self.theirs) >= LEAST and self.high < 0


@dataclass(slots=True)
class Learning:
    """One pool's learner in this process."""

    name: str
    share: float
    within: float
    since: datetime | None
    hopes: dict[int, Hopes] = field(default_factory=dict)
    price: float = 0.0  # success that one unit of money is worth

    @classmethod
    def of(cls, chosen: BackendSettings) -> "Learning | None":
        """None where nobody learns, or the learner was stopped."""
        if not chosen.learner or chosen.learning_stopped is not None or not chosen.learning_share:
            return None
        return cls(chosen.learner, chosen.learning_share, chosen.learning_within, chosen.learning_since)

    def refresh(
        self, arms: Sequence[Arm], log: Sequence[Call], hot: Mapping[int, int | None], budget: float | None
    ) -> None:
        """Learn the log, newest first."""
        self.hopes = online.learnt(self.name, arms, past(log), np.random.default_rng(), hot)
        self.price = 0.0 if budget is None else price(budget, log)

    def chances(
        self, agent: int, candidates: Sequence[Candidate], direct: Candidate, wanted: Preference, dearest: float, slowest: float
    ) -> list[float] | None:  # fmt: skip
        """How likely it takes each of the candidates, in their order; None where it leaves the choice to the direct estimate."""
        hopes = self.hopes.get(agent)
        if hopes is None or not wanted.quality:
            return None
        floor, place, quality = direct.success - self.within, hopes.place, wanted.quality
        of_cost, of_latency = wanted.cost / dearest / quality + self.price, wanted.latency / slowest / quality
        at: list[int] = []
        free: list[int] = []
        less: list[float] = []
        for index, candidate in enumerate(candidates):
            if candidate.success >= floor and candidate.key in place:
                at.append(index)
                free.append(candidate.key)
                less.append(of_cost * candidate.cost + of_latency * candidate.latency + candidate.less / quality)
        if len(free) < 2:
            return None
        each = hopes.chances(free, less)
        if len(free) == len(candidates):
            return each
        shares = [0.0] * len(candidates)
        for index, likely in zip(at, each, strict=True):
            shares[index] = likely
        return shares


def past(log: Sequence[Call]) -> list[Past]:
    """The judged calls, oldest first."""
    return [
        Past(call.agent, call.backend, call.success, call.cost, (call.latency or 0.0) / 1000)
        for call in reversed(log)
        if call.success is not None
    ]


def price(budget: float, log: Sequence[Call]) -> float:
    """What money is worth today, by the pace of its spending: a day has as many calls as days of the log had."""
    day = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    today = [call.cost for call in reversed(log) if call.at >= day]
    days = {call.at.date() for call in log if call.at < day}
    before = len(log) - len(today)
    return online.price_of_money(budget, today, round(before / min(len(days), DAYS)) if days else 0)


def compared(
    log: Sequence[Call], preference: Preference, scales: Mapping[int, tuple[float, float]], since: datetime | None
) -> Compared:
    """The learner's judged calls beside those of the direct estimate since then.

    The worth of a call is w_q · success − w_c · cost / C − w_l · latency / L.
    """
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    for call in log:
        if call.success is None or call.agent not in scales or (since is not None and call.at < since):
            continue
        dearest, slowest = scales[call.agent]
        worth = preference.quality * call.success - preference.cost * call.cost / dearest
        worth -= preference.latency * (call.latency or 0.0) / slowest
        if call.decided_by == "learner":
            ours.append((worth, float(call.success)))
        elif call.decided_by == "direct":
            theirs.append((worth, float(call.success)))
    means = [np.mean(some, axis=0).tolist() if some else [math.nan, math.nan] for some in (ours, theirs)]
    (worth, success), (their_worth, their_success) = means
    difference = worth - their_worth
    error = math.nan
    if min(len(ours), len(theirs)) > 1:
        error = math.sqrt(sum(float(np.var([w for w, _ in some], ddof=1)) / len(some) for some in (ours, theirs)))
    return Compared(
        len(ours), len(theirs), success, their_success, difference, difference - CERTAIN * error, difference + CERTAIN * error
    )  # fmt: skip
