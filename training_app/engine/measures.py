"""What is measured of a set of agents, and what a policy can learn to maximise: each measure and each goal is defined once, here.

With S the selected and R the required set of a query, a measure is a function of three numbers,

    hits = |S ∩ R|,    chosen = |S|,    needed = |R|

A goal is a measure that also knows its *expected* value for every prefix of an order of agents, were agents needed independently of
each other; the rule `bayes.py` takes the best prefix. Scorecards, folds, benchmarks, commands, pages, the glossary and docs iterate
over these tables; CONTRIBUTING.md says how to add one. numpy only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]
Floats = NDArray[np.float64]

#: hits, chosen and needed of each query, integers of one shape -> what each query gets, of that shape.
Formula = Callable[[Numbers, Numbers, Numbers], Numbers]
#: p float64[B, A], probabilities in the order in which agents would be chosen -> the expected value of each prefix, float64[B, A + 1].
Expected = Callable[[Floats], Floats]

NODES = 64  # of the integral at most: enough for 600 agents by Jaccard and 300 by F1, whatever their probabilities are
SMALL = 1e-2  # a probability up to which an agent may stand in the tail of `expected_jaccard`
TERMS = 5
SLIGHT = 1e-12  # stands for a probability of 0 that is divided by
ERROR = 1e-7  # of an expected utility at most, up to so many agents


def gettext_noop(text: str) -> str:
    """The text itself: marks what pages translate, for the program that collects such texts."""
    return text


@dataclass(frozen=True, slots=True)
class Measure:
    """`bounded`: values lie between 0 and 1; else they count agents. `compared`: differences between two routers are measured.
    `headline`: lists of models and learning curves show it; it needs a column of the model `Scorecard`. `meaning` stands in the
    glossary and the docs. `expected` makes it a goal."""

    name: str
    label: str
    formula: Formula
    bounded: bool = True
    compared: bool = False
    headline: bool = False
    meaning: str = ""
    expected: Expected | None = None


# --- Formulas -----------------------------------------------------------------------------------------------------


def _share(part: Numbers, whole: Numbers, both_empty: Numbers) -> Numbers:
    return np.where(both_empty, 1.0, part / np.maximum(whole, 1))


def jaccard(hits: Numbers, chosen: Numbers, needed: Numbers) -> Numbers:
    """|S ∩ R| / |S ∪ R|; 1 where both sets are empty."""
    either = chosen + needed - hits
    return _share(hits, either, either == 0)


def precision(hits: Numbers, chosen: Numbers, needed: Numbers) -> Numbers:
    """|S ∩ R| / |S|; 1 where both sets are empty, 0 where only S is."""
    return _share(hits, chosen, chosen + needed == 0)


def recall(hits: Numbers, chosen: Numbers, needed: Numbers) -> Numbers:
    """|S ∩ R| / |R|; 1 where both sets are empty, 0 where only R is."""
    return _share(hits, needed, chosen + needed == 0)


def f1(hits: Numbers, chosen: Numbers, needed: Numbers) -> Numbers:
    """2 |S ∩ R| / (|S| + |R|); 1 where both sets are empty."""
    return _share(2 * hits, chosen + needed, chosen + needed == 0)


def exact(hits: Numbers, chosen: Numbers, needed: Numbers) -> Numbers:
    """1 where S = R, else 0."""
    return (hits == chosen + needed - hits).astype(np.float64)


def success(hits: Numbers, chosen: Numbers, needed: Numbers) -> Numbers:
    """1 where R ⊆ S, else 0."""
    return (hits == needed).astype(np.float64)


# --- Expected values ----------------------------------------------------------------------------------------------
#
# With p_a the probability that agent a is needed, S_k the first k agents, g_b(t) = 1 - p_b + p_b t and Y the needs beyond S_k,
#
#     jaccard   E[H / (k + Y)]       = Σ_{a in S_k} p_a  ∫ t^(k-1) Π_{b not in S_k} g_b(t) dt
#     f1        E[2 H / (k + |R|)]   = 2 ∫ t^k Π_b g_b(t) Σ_{a in S_k} p_a / g_a(t) dt
#     exact     P(R = S_k)           = Π_{a in S_k} p_a Π_{b not in S_k} (1 - p_b)
#     success   P(R ⊆ S_k)           = Π_{b not in S_k} (1 - p_b)
#
# by 1 / n = ∫ t^(n-1) dt over t from 0 to 1: the mean of t^Y is a product, since needs are independent. (Ye, Chai, Lee and Chieu
# 2012, arXiv 1206.4625, maximise F1 likewise, by dynamic programming.) The integrands are polynomials of degree below A, for F1 below
# 2 A, so Gauss and Legendre's rule is exact with half as many nodes. They are means of powers t^m, which polynomials of degree d in t
# approach to 2 exp(-d^2 / m) (Sachdeva and Vishnoi 2014, theorem 3.3, with t = y^2): where m is large, about sqrt(m) nodes do.
# With both sets empty Jaccard and F1 are 1: k = 0 has Π (1 - p_b).


@lru_cache(maxsize=64)
def _nodes(agents: int, degree: int) -> tuple[Floats, Floats, Floats]:
    """Gauss and Legendre's nodes on 0 to 1, exact to ERROR up to `degree`:
    (t float64[M], weights float64[M], t^k float64[A + 1, M])."""
    enough = int((sqrt(degree * log(8 * (agents + 1) / ERROR)) + 1) / 2) + 1
    t, weights = np.polynomial.legendre.leggauss(min(NODES, degree // 2 + 1, enough))
    t, weights = (t + 1) / 2, weights / 2
    return t, weights, t ** np.arange(agents + 1)[:, None]


def integral_nodes(agents: int, degree: int) -> tuple[Floats, Floats]:
    """Gauss and Legendre's nodes t on 0 to 1 and their weights, float64[M] each: exact to ERROR for the expected worth of so many
    agents."""
    t, weights, _ = _nodes(agents, degree)
    return t, weights


def expected_success(p: Floats) -> Floats:
    """P(R ⊆ S_k)."""
    without = np.ones((len(p), p.shape[1] + 1))  # Π of 1 - p beyond each prefix
    np.cumprod((1 - p)[:, ::-1], axis=1, out=without[:, 1:])
    return without[:, ::-1]


def expected_exact(p: Floats) -> Floats:
    """P(R = S_k)."""
    out = expected_success(p).copy()
    out[:, 1:] = np.cumprod(p, axis=1) * out[:, 1:]
    return out


def expected_jaccard(p: Floats, tail: Floats | None = None) -> Floats:
    """E[H / (k + Y)]. `tail` float64[T], for one query, are more probabilities, each at most SMALL, of agents in no prefix: their
    Π g_b is exp(-Σ_n (1 - t)^n Σ_b p_b^n / n), of which TERMS leave less than T SMALL^(TERMS + 1)."""
    count, agents = p.shape
    out = np.empty((count, agents + 1))
    out[:, 0] = expected_success(p)[:, 0]
    degree = agents - 1 + (0 if tail is None else len(tail))
    t, weights, powers = _nodes(agents, degree)
    g = p[:, :, None] * (t - 1) + 1  # (B, A, M)
    beyond = np.empty((count, agents, len(t)))
    beyond[:, -1] = 1
    if tail is not None:
        sums = [float(np.sum(tail**n)) / n for n in range(1, TERMS + 1)]
        beyond[:, -1] = np.exp(-sum(share * (1 - t) ** n for n, share in enumerate(sums, start=1)))
        out[:, 0] *= np.exp(-sum(sums))
    np.cumprod(g[:, :0:-1], axis=1, out=beyond[:, -2::-1])
    if tail is not None:
        beyond[:, :-1] *= beyond[:, -1:]
    np.multiply(np.cumsum(p, axis=1), (beyond * powers[:-1]) @ weights, out=out[:, 1:])
    return out


def expected_f1(p: Floats) -> Floats:
    """E[2 H / (k + |R|)]."""
    count, agents = p.shape
    out = np.empty((count, agents + 1))
    out[:, 0] = expected_success(p)[:, 0]
    t, weights, powers = _nodes(agents, 2 * agents - 1)
    g = p[:, :, None] * (t - 1) + 1  # (B, A, M)
    whole = g.prod(axis=1, keepdims=True) * powers[1:]  # (B, A, M)
    out[:, 1:] = 2 * ((whole * np.cumsum(p[:, :, None] / g, axis=1)) @ weights)
    return out


# --- The table ----------------------------------------------------------------------------------------------------

_TABLE = (
    Measure(
        "jaccard", gettext_noop("Jaccard"), jaccard, compared=True, headline=True, expected=expected_jaccard,
        meaning=gettext_noop(
            "How far the chosen set and the needed set overlap, query by query: the agents in both, divided by the agents in either. "
            "1 is exactly right, 0 has nothing in common; the figure is the mean."
        ),
    ),
    Measure(
        "precision", gettext_noop("Precision"), precision,
        meaning=gettext_noop("Of the agents that were chosen, the share that was needed."),
    ),
    Measure(
        "recall", gettext_noop("Recall"), recall,
        meaning=gettext_noop("Of the agents that were needed, the share that was chosen."),
    ),
    Measure(
        "f1", gettext_noop("F1"), f1, compared=True, headline=True, expected=expected_f1,
        meaning=gettext_noop(
            "One figure of precision and recall, their harmonic mean: it is high only where both are. 1 is best."
        ),
    ),
    Measure(
        "exact", gettext_noop("Exact"), exact, compared=True, headline=True, expected=expected_exact,
        meaning=gettext_noop("The share of queries whose chosen set is exactly the needed one."),
    ),
    Measure(
        "success", gettext_noop("All covered"), success, compared=True,
        meaning=gettext_noop(
            "The share of queries for which every needed agent was chosen, whatever else was chosen too."
        ),
    ),
    Measure(
        "set_size", gettext_noop("Agents a query"), lambda hits, chosen, needed: chosen, bounded=False, compared=True,
        meaning=gettext_noop("The mean number of agents that are chosen for a query."),
    ),
    Measure(
        "over", gettext_noop("Agents too many"), lambda hits, chosen, needed: chosen - hits, bounded=False,
        meaning=gettext_noop("The mean number of agents that are chosen for a query and not needed."),
    ),
    Measure(
        "under", gettext_noop("Agents too few"), lambda hits, chosen, needed: needed - hits, bounded=False,
        meaning=gettext_noop("The mean number of agents that a query needs and that are not chosen."),
    ),
)  # fmt: skip

#: Every measure, by name, in the order in which it is shown.
MEASURES: dict[str, Measure] = {measure.name: measure for measure in _TABLE}
#: The one that models are compared by where one figure has to do.
PRIMARY = "jaccard"
#: Names of measures of which differences between two routers are shown; those that lie between 0 and 1; those of lists and curves.
COMPARED = tuple(measure.name for measure in _TABLE if measure.compared)
COMPARED_SHARES = tuple(measure.name for measure in _TABLE if measure.compared and measure.bounded)
SHARES = tuple(measure.name for measure in _TABLE if measure.bounded)
HEADLINE = tuple(measure.name for measure in _TABLE if measure.headline)


# --- Goals --------------------------------------------------------------------------------------------------------

#: The goal that has a price: 1 where R ⊆ S, else 0, less the cost of S in units of what a covered query is worth.
VALUE = "value"
#: What the goal recall keeps above its floor: the mean recall of the queries that need any agent.
NEEDED_RECALL = "needed_recall"
#: Figures that goals add to the measures: their names on pages, as `Measure.label`.
GOAL_LABELS = {VALUE: gettext_noop("Value"), NEEDED_RECALL: gettext_noop("Recall where agents are needed")}
#: Measures that a policy can be trained to maximise.
GOAL_MEASURES = tuple(measure.name for measure in _TABLE if measure.expected)
#: All goals that a policy can learn.
GOALS = (*GOAL_MEASURES, VALUE)


def expected_worth(goal: str, p: Floats, costs: Floats | None = None, needed: Floats | None = None) -> Floats:
    """The expected worth of every prefix for a goal: p float64[B, A] in the order in which agents would be chosen, and, for VALUE,
    their costs of the same shape -> float64[B, A + 1]. `needed` float64[B]: see `as_needed`."""
    spent: Floats | float = 0.0
    if goal == VALUE:
        assert costs is not None
        spent = np.zeros((len(p), p.shape[1] + 1))
        np.cumsum(costs, axis=1, out=spent[:, 1:])
        worth_of = expected_success(p) - spent
    else:
        expected = MEASURES[goal].expected
        assert expected is not None, f"{goal} is no goal"
        worth_of = expected(p)
    return worth_of if needed is None else as_needed(goal, worth_of, needed, spent)


def as_needed(goal: str, expected: Floats, needed: Floats, spent: Floats | float = 0.0) -> Floats:
    """The expected worth of sets where a witness of its own says how likely anybody is needed, q = sigmoid(`needed`):

        E'[worth(S)] = (1 - q) worth(S, {}) + q E[worth(S) | R is not empty]

    What is known of the agents, given that one of them is needed, stays. `expected` float64[B, K], the empty set first, is what is
    expected without the witness, `needed` float64[B] are log-odds, and `spent` float64[B, K] is, for VALUE, what the sets cost."""
    nobody = expected[:, :1]  # for every goal the empty set is worth 1 where nobody is needed, else 0
    q = 1 / (1 + np.exp(-needed[:, None]))
    gained = expected + spent - nobody if goal == VALUE else expected.copy()  # by queries that need somebody
    gained[:, 0] = 0
    gained *= q / np.maximum(1 - nobody, SLIGHT)
    return (gained + (1 - q) - spent) if goal == VALUE else gained + np.where(np.arange(gained.shape[1]) == 0, 1 - q, 0)


def worth(goal: str, hits: Numbers, chosen: Numbers, needed: Numbers, cost: Numbers) -> Numbers:
    """What sets are worth for a goal; `cost` counts for VALUE only."""
    if goal == VALUE:
        return (hits == needed) - cost
    return MEASURES[goal].formula(hits, chosen, needed)


def reference() -> str:
    """The table of measures and goals, in Markdown, for docs/run-settings.md."""
    rows = [
        f"| `{m.name}` | {m.label} | {m.meaning} | {'0 to 1' if m.bounded else 'agents'} | {'yes' if m.expected else ''} |"
        for m in _TABLE
    ]
    return "\n".join(["| name | label | meaning | values | goal |", "| --- | --- | --- | --- | --- |", *rows])
