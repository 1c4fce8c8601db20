"""What routers with a goal are judged by, wherever two of them are compared: the goal's own measure, after its limit. numpy only.

| goal | limit | then |
| --- | --- | --- |
| jaccard, f1, exact, success | | more of the measure |
| value | | more of it: 1 where all needed agents are there, less the cost of the set, in units of what a query is worth |
| recall | recall of queries that need any agent, at least recall_floor | fewer agents |
| size | agents a query, at most average_agents | more Jaccard |

Who keeps the limit is ahead of who does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data import intervals, metrics
from training_app.engine.data.arrays import BoolArray
from training_app.engine.data.examples import Agent
from training_app.engine.measures import COMPARED, MEASURES, NEEDED_RECALL, PRIMARY, VALUE
from training_app.engine.routing.goals import Goal, goal_of

Values = NDArray[Any]
SIZE = "set_size"


@dataclass(frozen=True, slots=True)
class Standard:
    """`measure` is what is compared, of which more is better, or less where `fewer`. `limited` is the figure that comes first, "" for
    a goal without a limit: at least `limit` of NEEDED_RECALL, at most `limit` of SIZE."""

    goal: str = PRIMARY
    measure: str = PRIMARY
    fewer: bool = False
    limited: str = ""
    limit: float = 0.0

    def plain(self) -> dict[str, Any]:
        """As scorecards keep it."""
        return asdict(self)

    def keeps(self, mean: float) -> bool:
        """Whether a router with that mean of the limited figure keeps the limit; True without one."""
        if not self.limited:
            return True
        return mean <= self.limit if self.limited == SIZE else mean >= self.limit

    def misses(self, low: float, high: float) -> bool:
        """Whether a router misses the limit for sure, by the interval of the limited figure."""
        return bool(self.limited) and not self.keeps(low if self.limited == SIZE else high)

    def best(self, figures: Mapping[str, Mapping[str, float]]) -> str:
        """The best router by the means of their figures {name: {figure: mean}}; "" of none that keeps the limit."""
        within_limits = {
            name: means
            for name, means in figures.items()
            if self.measure in means
            and (not self.limited or (self.limited in means and self.keeps(means[self.limited])))
        }
        sign = -1 if self.fewer else 1
        return max(within_limits, key=lambda name: sign * within_limits[name][self.measure], default="")


def standard_of(training: Mapping[str, Any]) -> Standard:
    """What routers are judged by that were trained with those settings (`Config`)."""
    goal = str(training.get("goal", PRIMARY))
    if goal == "recall":
        return Standard(goal, SIZE, True, NEEDED_RECALL, float(training.get("recall_floor", 0.95)))
    if goal == "size":
        return Standard(goal, PRIMARY, False, SIZE, float(training.get("average_agents", 2.0)))
    return Standard(goal, goal if goal in MEASURES or goal == VALUE else PRIMARY)


def priced(training: Mapping[str, Any], agents: Sequence[Agent]) -> Goal | None:
    """The goal that counts what agents cost, where those settings have it."""
    goal = goal_of(str(training.get("goal", PRIMARY)), agents, float(training.get("query_value", 1.0)))
    return goal if goal.costs is not None else None


@dataclass(frozen=True, slots=True)
class Judged:
    """What each query got, by figure: of NEEDED_RECALL only those that need any agent."""

    values: Mapping[str, Values]

    @classmethod
    def of(cls, chosen: BoolArray, required: BoolArray, goal: Goal | None) -> Judged:
        """Of sets bool[N, A]; with a `priced` goal their value too."""
        values = metrics.per_query(chosen, required)
        values[NEEDED_RECALL] = values["recall"][required.any(axis=1)]
        if goal is not None:
            values[VALUE] = goal.utility(chosen, required).astype(np.float64)
        return cls(values)

    def intervals(self) -> dict[str, dict[str, float]]:
        """{figure: {"mean", "low", "high"}} of those that have a query."""
        return {name: interval(values, name) for name, values in self.values.items() if values.size}

    def lead(self, other: Judged) -> dict[str, dict[str, float]]:
        """The paired differences to another router on the same queries, of COMPARED and of what goals add."""
        names = [name for name in (*COMPARED, NEEDED_RECALL, VALUE) if name in self.values and self.values[name].size]
        return {name: paired(self.values[name], other.values[name], name) for name in names if name in other.values}


def is_share(name: str) -> bool:
    """Whether a figure lies between 0 and 1."""
    return name == NEEDED_RECALL or (name in MEASURES and MEASURES[name].bounded)


def interval(values: Values, name: str) -> dict[str, float]:
    """The mean of a figure with its 95 % interval. Of agents that are counted it holds no fewer than none, and what no query has shown
    is taken to be no more than one has."""
    if is_share(name):
        return intervals.bounded(values).plain()
    if name in MEASURES:
        return intervals.bounded(values, high=max(1.0, float(values.max(initial=0.0)))).plain()
    return intervals.spread(values).plain()


def paired(ours: Values, theirs: Values, name: str) -> dict[str, float]:
    """The difference of two routers on the same queries, as of `metrics.paired`."""
    return metrics.paired(ours, theirs, PRIMARY if is_share(name) else SIZE)
