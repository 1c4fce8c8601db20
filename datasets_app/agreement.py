"""How far people, and people and the LLM, agree: Krippendorff's α per agent and per set, with intervals, or why there is none."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import krippendorff
import numpy as np
from django.db.models import Count
from django.utils.translation import gettext as _
from numpy.typing import NDArray

from agents_app.models import Agent, Pool
from datasets_app.disagreement import jaccard, masi
from datasets_app.models import Label

Floats = NDArray[np.float64]
Answer = tuple[frozenset[int], frozenset[int]]  # required, asked
SAMPLES = 1_000
LEAST = 2


@dataclass(frozen=True, slots=True)
class Figure:
    """α of `n` queries with a 95 % bootstrap interval over queries; `why` says why there is no value."""

    n: int
    value: float | None = None
    low: float | None = None
    high: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two people, or a person and the LLM, on the `n` queries that both labeled. Means over queries; `alpha` with MASI."""

    a: Any
    b: Any
    n: int
    jaccard: float | None
    exact: float | None
    alpha: Figure


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that the agreement page shows."""

    people: Sequence[Any]
    whole: Figure
    jaccard: float | None
    exact: float | None
    pairs: Mapping[tuple[int, int], Pair]
    agents: Sequence[tuple[Agent, Figure, Figure]]  # between people, and between people and the LLM
    llm: Sequence[Pair]
    llm_blind: Pair
    llm_shown: Pair


def alpha(counts: Floats, distance: Floats, seed: int = 0) -> Figure:
    """Krippendorff's α = 1 − Dₒ/Dₑ (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability").

    `counts` (U, V): how many people gave unit u the value v. `distance` (V, V): symmetric, 0 on the diagonal. Units with fewer
    than two answers carry nothing. The interval is the percentile bootstrap of units.
    """
    counts = counts[counts.sum(axis=1) >= 2]
    units = len(counts)
    if units < LEAST:
        return Figure(units, why=_("fewer than %(n)s queries were answered by two") % {"n": LEAST})
    if (counts.sum(axis=0) > 0).sum() < 2:
        return Figure(units, why=_("everybody always gave the same answer, so chance cannot be told from agreement"))

    def metric(v1: Floats, v2: Floats, i1: Any, i2: Any, n_v: Floats, dtype: Any) -> Floats:
        return distance[i1, i2].astype(dtype)

    measured: Any = metric
    value = float(
        krippendorff.alpha(
            value_counts=counts.astype(int), value_domain=list(range(len(distance))), level_of_measurement=measured
        )
    )
    answers = counts.sum(axis=1)  # (U,)
    within = np.einsum("uv,vw,uw->u", counts, distance, counts) / (answers - 1)  # (U,) a unit's share of n·Dₒ
    draws = np.random.default_rng(seed).multinomial(units, np.full(units, 1 / units), size=SAMPLES)  # (B, U)
    total = draws @ answers  # (B,)
    values = draws @ counts  # (B, V)
    between = np.einsum("bv,vw,bw->b", values, distance, values) / (total - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        sampled = 1 - (draws @ within) / between
    sampled = sampled[np.isfinite(sampled)]
    low, high = np.percentile(sampled, (2.5, 97.5)) if len(sampled) else (value, value)
    return Figure(units, value, float(low), float(high))


def alpha_of_sets(units: Sequence[Sequence[frozenset[int]]]) -> Figure:
    """α of whole sets with MASI distance; `units` are the sets that each query was given."""
    domain = sorted({one for unit in units for one in unit}, key=sorted)
    place = {one: position for position, one in enumerate(domain)}
    counts = np.zeros((len(units), len(domain)))
    for row, unit in enumerate(units):
        for one in unit:
            counts[row, place[one]] += 1
    distance = np.array([[masi(a, b) for b in domain] for a in domain]).reshape(len(domain), len(domain))
    return alpha(counts, distance)


def alpha_of_agent(units: Sequence[Sequence[Answer]], agent: int) -> Figure:
    """α of one yes-or-no question: is this agent needed? Answers that were not asked about it stay out."""
    counts = np.zeros((len(units), 2))
    for row, unit in enumerate(units):
        for required, asked in unit:
            if agent in asked:
                counts[row, int(agent in required)] += 1
    return alpha(counts, np.array([[0.0, 1.0], [1.0, 0.0]]))


def report(pool: Pool, made: str = "") -> Report:
    """Agreement in a pool, over all queries with two people's labels or a person's and the LLM's. `made` restricts people's labels:
    "unshown" to those made without suggestions, "shown" to those made beside them."""
    human, machine = _answers(pool, made)
    known = {label.author for labels in human.values() for label in labels if label.author is not None}
    people = sorted(known, key=lambda one: one.get_username())
    by_query = {key: [_answer(label) for label in labels] for key, labels in human.items()}
    several = [unit for unit in by_query.values() if len(unit) >= 2]
    all_pairs = [(a, b) for unit in several for a, b in combinations(unit, 2)]
    whole = _pair(None, None, all_pairs)
    pairs = {}
    for a, b in combinations(people, 2):
        both = []
        for labels in human.values():
            of = {label.author_id: _answer(label) for label in labels}
            if a.pk in of and b.pk in of:
                both.append((of[a.pk], of[b.pk]))
        pairs[a.pk, b.pk] = _pair(a, b, both)
    with_llm = [(machine[key], answer) for key, unit in by_query.items() if key in machine for answer in unit]
    agents = [
        (agent, alpha_of_agent(several, agent.number), alpha_of_agent(with_llm, agent.number))
        for agent in pool.agents.active()
    ]

    def beside_llm(wanted: Any) -> list[tuple[Answer, Answer]]:
        return [
            (machine[key], _answer(label))
            for key, labels in human.items()
            if key in machine
            for label in labels
            if wanted(label)
        ]

    return Report(
        people=people,
        whole=alpha_of_sets([unit for unit in map(_comparable, several) if unit]),
        jaccard=whole.jaccard,
        exact=whole.exact,
        pairs=pairs,
        agents=agents,
        llm=[_pair(one, None, beside_llm(lambda label, one=one: label.author_id == one.pk)) for one in people],
        llm_blind=_pair(None, None, beside_llm(lambda label: _was(label, "blind"))),
        llm_shown=_pair(None, None, beside_llm(lambda label: _was(label, "shown"))),
    )


def _comparable(unit: Sequence[Answer]) -> list[frozenset[int]]:
    """The sets of one query on the agents that everybody was asked about; none where there is no such agent."""
    common = frozenset.intersection(*(asked for _required, asked in unit))
    return [required & common for required, _asked in unit] if common else []


def _answer(label: Label) -> Answer:
    return frozenset(label.required), frozenset(label.asked)


def _pair(a: Any, b: Any, both: Sequence[tuple[Answer, Answer]]) -> Pair:
    """Two voices on the agents that both were asked about."""
    sets = []
    for (first, asked_first), (second, asked_second) in both:
        common = asked_first & asked_second
        if common:
            sets.append((first & common, second & common))
    if not sets:
        return Pair(a, b, 0, None, None, Figure(0, why=_("no query was labeled by both")))
    return Pair(
        a,
        b,
        len(sets),
        sum(jaccard(one, other) for one, other in sets) / len(sets),
        sum(one == other for one, other in sets) / len(sets),
        alpha_of_sets(sets),
    )


def _was(label: Label, made: str) -> bool:
    """Whether a person's label was made so: "blind" on an item that hides suggestions, "shown" beside them, "unshown" not."""
    blind, shown = bool(label.provenance.get("blind")), bool(label.provenance.get("shown"))
    return {"blind": blind, "shown": shown and not blind, "unshown": blind or not shown}.get(made, True)


def _answers(pool: Pool, made: str) -> tuple[dict[int, list[Label]], dict[int, Answer]]:
    """People's labels by query, those that were made so, and the LLM's answers."""
    current = Label.objects.current().filter(query__dataset__pool=pool, query__deleted_at__isnull=True)
    mine = current.filter(source=Label.Source.HUMAN).select_related("author").order_by("pk")
    human: dict[int, list[Label]] = defaultdict(list)
    for label in mine.only("query", "author", "required", "asked", "provenance", "source").iterator(chunk_size=2_000):
        if _was(label, made):
            human[label.query_id].append(label)
    machine = {}
    for label in current.filter(source=Label.Source.LLM, query__in=mine.values("query")).iterator(chunk_size=2_000):
        if not label.provenance.get("fallback"):
            machine[label.query_id] = _answer(label)
    return human, machine


def differing(
    pool: Pool, a: int | None, b: int | None, agent: int | None, llm: bool = False, made: str = ""
) -> list[int]:
    """Keys of the queries behind a cell: labeled by both people (or by one, or anybody, and the LLM), those that differ first; with
    `agent`, those on which two of them differ about it. `made` as in `report`, and "blind" for the items that hide suggestions."""
    human, machine = _answers(pool, made)
    found: list[tuple[float, int]] = []
    for key, labels in human.items():
        people = [_answer(label) for label in labels if a is None or label.author_id in (a, b)]
        pairs = [(machine[key], one) for one in people if key in machine] if llm else list(combinations(people, 2))
        if agent is not None:
            if any(agent in x_asked & y_asked and (agent in x) != (agent in y) for (x, x_asked), (y, y_asked) in pairs):
                found.append((0.0, key))
        else:
            apart = [masi(*sets) for pair in pairs if (sets := _comparable(pair))]
            if apart:
                found.append((-max(apart), key))
    return [key for _distance, key in sorted(found)]


def coverage(pool: Pool) -> dict[int, int]:
    """How many queries have one, two, three … people's labels."""
    current = Label.objects.current().filter(query__dataset__pool=pool, source=Label.Source.HUMAN)
    per_query = current.values("query").annotate(people=Count("pk")).values_list("people", flat=True)
    found: dict[int, int] = defaultdict(int)
    for people in per_query:
        found[people] += 1
    return dict(sorted(found.items()))
