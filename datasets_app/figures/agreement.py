"""How far people, and people and the LLM, agree: Krippendorff's α per agent and per set, with intervals, or why there is none."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from itertools import combinations
from math import isfinite, sqrt
from typing import Any

import numpy as np
from django.contrib.auth.models import User
from django.db.models import Q, QuerySet, TextField
from django.db.models.functions import Cast
from django.utils.translation import gettext as _
from numpy.typing import NDArray

from agents_app.models import Agent, Pool
from datasets_app.labeling import queue
from datasets_app.labels import voices
from datasets_app.labels.disagreement import jaccard, masi, masi_distances
from datasets_app.labels.voices import Merges, VoiceSets, answer
from datasets_app.models import Label, QueueItem
from datasets_app.models.labeling import LOTS
from training_app.engine.data.intervals import likely, statistic

Floats = NDArray[np.float64]
#: An end of the interval is looked for up to so many times the disagreement that was found.
FURTHEST = 10.0
LEAST = 2
#: Common labels below which a page shows no agreement: of 12, α spans from −3.45 to 1.00.
LEAST_SHOWN = 30
#: Newest labels of people that are looked at, and of their queries how many that several people labeled, and how many others, are
#: compared: so many are compared within half a second, and make an interval of α of a few hundredths.
LOOKED_AT, SEVERAL, ALONE = 5_000, 800, 400


@dataclass(frozen=True, slots=True)
class Figure:
    """α of `n` queries with its 95 % interval; `why` says why there is no value."""

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
class OneKey:
    """Of the `shown` labels that stand and were made beside a suggestion, how many accepted it with the one key that also submits."""

    accepted: int
    shown: int

    @property
    def share(self) -> float | None:
        """None of fewer than LEAST_SHOWN labels."""
        return self.accepted / self.shown if self.shown >= LEAST_SHOWN else None


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that the agreement page shows. `newest` is how many queries are compared where these are not all that people labeled;
    `coverage` how many of those looked at have one, two, three … people's labels."""

    people: Sequence[Any]
    whole: Figure
    jaccard: float | None
    exact: float | None
    at_random: bool
    pairs: Mapping[tuple[int, int], Pair]
    agents: Sequence[tuple[Agent, Figure, Figure]]  # between people, and between people and the LLM
    llm: Sequence[Pair]
    llm_blind: Pair
    llm_shown: Pair
    newest: int | None
    coverage: Mapping[int, int]
    one_key: OneKey

    @property
    def has_llm(self) -> bool:
        """Whether the LLM labeled any query that people did."""
        return any(figure.n for _agent, _between, figure in self.agents) or any(pair.n for pair in self.llm)


def alpha(counts: Floats, distance: Floats, queries: Sequence[int] | None = None) -> Figure:
    """Krippendorff's α = 1 − Dₒ/Dₑ (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability").

    `counts` (U, V): how many people gave unit u the value v. `distance` (V, V): symmetric, 0 on the diagonal. Units with fewer
    than two answers carry nothing. `queries` (U,) says which units are of one query; without it each is of its own.

    The interval is that of ρ = Dₒ/Dₑ: every ρ at which w = dₒ − ρ (2 dₑ − Dₑ), summed by query, may have mean 0 (Fieller 1954), with
    dₒ and dₑ a unit's share of either; see `intervals.statistic`. So two queries that agree do not make certainty.
    """
    several = counts.sum(axis=1) >= 2
    units = np.arange(len(counts)) if queries is None else np.asarray(queries)
    counts, (_names, query) = counts[several], np.unique(units[several], return_inverse=True)
    size = int(query.max()) + 1 if len(query) else 0
    if size < LEAST:
        return Figure(size, why=_("fewer than %(n)s queries were answered by two") % {"n": LEAST})
    if (counts.sum(axis=0) > 0).sum() < 2:
        return Figure(
            size, why=_("everybody always gave the same answer, so agreement cannot be distinguished from chance")
        )

    answers, frequency = counts.sum(axis=1), counts.sum(axis=0)  # (U,) and (V,)
    # Few of all values are given to one unit, however many there are: only those are looked at.
    unit, given = counts.nonzero()  # (K,)
    others = np.vecdot(distance[given], counts[unit])  # (K,) how far an answer is from all others to its unit
    observed = np.bincount(unit, counts[unit, given] * others) / (answers - 1)  # (U,) a unit's share of n·Dₒ
    by_chance = counts @ (distance @ frequency) / (answers.sum() - 1)  # (U,) a unit's share of n·Dₑ
    value = float(1 - observed.sum() / by_chance.sum())
    weight = np.bincount(query, answers)  # (Q,) from here on by query
    observed, by_chance = np.bincount(query, observed), np.bincount(query, by_chance)
    expected, once = by_chance.sum() / weight.sum(), np.ones(size)  # Dₑ, and how often each query is there

    def stat(ratio: float) -> float:
        agreeing = -ratio * (2 * by_chance - weight * expected)  # w where all say the same
        apart = agreeing + observed
        highest = float(max((agreeing + weight * distance.max()).max(), apart.max()))
        return statistic(apart, once, 0.0, float(min(agreeing.min(), apart.min())), highest)

    def beyond(ratio: float) -> float:
        return sqrt(max(stat(ratio), 0.0)) - sqrt(likely(size))  # nearly straight, as stat is nearly a parabola

    def end(far: float) -> float:
        return 1 - crossing(beyond, 1 - value, far)

    return Figure(size, value, end(FURTHEST * (2 - value)), end(0.0))


def crossing(beyond: Callable[[float], float], near: float, far: float) -> float:
    """Where `beyond`, which is below 0 at `near` and may be infinite, reaches 0, to within 1e-4; `far` if it does not before. By the
    secant, whose end that stays is halved (the Illinois method of Dowell and Jarratt 1971): some seven calls."""
    at_near, at_far = beyond(near), beyond(far)
    if at_far <= 0:
        return far
    place, moved = near, 0
    while abs(far - near) > 1e-4:
        share = at_near / (at_near - at_far) if isfinite(at_far) else 0.5
        before, place = place, near + (far - near) * share
        at = beyond(place)
        if abs(place - before) < 1e-5:
            break
        if at < 0:
            near, at_near, at_far = place, at, at_far / (2 if moved < 0 else 1)
        else:
            far, at_far, at_near = place, at, at_near / (2 if moved > 0 else 1)
        moved = -1 if at < 0 else 1
    return place


def alpha_of_sets(units: Sequence[Sequence[frozenset[int]]], queries: Sequence[int] | None = None) -> Figure:
    """α of whole sets with MASI distance; `units` are the sets that each query was given, `queries` as in `alpha`."""
    domain = sorted({answer for unit in units for answer in unit}, key=sorted)
    place = {answer: position for position, answer in enumerate(domain)}
    counts = np.zeros((len(units), len(domain)))
    for row, unit in enumerate(units):
        for chosen in unit:
            counts[row, place[chosen]] += 1
    return alpha(counts, masi_distances(domain), queries)


def alpha_of_agent(units: Sequence[Sequence[VoiceSets]], agent: int, queries: Sequence[int] | None = None) -> Figure:
    """α of one yes-or-no question: is this agent needed? Answers that were not asked about it stay out."""
    return alpha_of_agents(units, [agent], queries)[0]


def alpha_of_agents(
    units: Sequence[Sequence[VoiceSets]], agents: Sequence[int], queries: Sequence[int] | None = None
) -> list[Figure]:
    """`alpha_of_agent` of each agent, with one look at the answers."""
    place = {agent: column for column, agent in enumerate(agents)}
    counts = np.zeros((len(units), len(agents), 2))  # (U, A, 2)
    columns: dict[VoiceSets, tuple[list[int], list[int]]] = {}  # what is said is often the same
    for row, unit in enumerate(units):
        for said in unit:
            if said not in columns:
                required, asked = said
                counted = [agent for agent in asked if agent in place]
                columns[said] = [place[agent] for agent in counted], [int(agent in required) for agent in counted]
            counts[row, *columns[said]] += 1
    distance = np.array([[0.0, 1.0], [1.0, 0.0]])
    return [alpha(counts[:, column], distance, queries) for column in range(len(agents))]


@dataclass(slots=True)
class _Said:
    """What is read of a label: a `voices.Statement`."""

    pk: int
    source: str
    author_id: int | None
    unsure: bool
    created_at: datetime
    required: list[int]
    asked: list[int]
    provenance: dict[str, Any]


#: Columns of JSON, which are read as texts: few texts differ, and each is parsed once.
AS_TEXT = ("required", "asked", "provenance")
PLAIN = [column.name for column in fields(_Said) if column.name not in AS_TEXT]


@dataclass(frozen=True, slots=True)
class _Spoken:
    """People's labels by query and person, and the LLM's answers by query."""

    human: Mapping[int, Mapping[int, Sequence[_Said]]]
    machine: Mapping[int, VoiceSets]
    merged: Merges

    def answers(self, query: int, made: str = "") -> dict[int, VoiceSets]:
        """What each person says of a query, by those of their labels that were made so."""
        labels_by_person = {
            person: [label for label in of if _was(label, made)] for person, of in self.human[query].items()
        }
        return {person: answer(of, self.merged) for person, of in labels_by_person.items() if of}


def report(pool: Pool, made: str = "") -> Report:
    """Agreement in a pool, over all queries with two people's labels or a person's and the LLM's. `made` restricts people's labels:
    "unshown" to those made without suggestions, "shown" to those made beside them. What was said after seeing what others had said
    is left out: it is not independent.

    `whole`, `jaccard` and `exact` are of the overlap that was drawn at random: what was sent to more people because it is hard would
    speak for the rest. Where no such query has two answers yet they are of all, and `at_random` says that they are not.
    """
    recent = _recent(pool)
    spoken = _spoken(pool, made, recent.keys)
    machine = spoken.machine
    authors = User.objects.in_bulk({person for of in spoken.human.values() for person in of})
    people = sorted(authors.values(), key=lambda person: person.get_username())
    by_query = {key: spoken.answers(key) for key in spoken.human}
    several = {key: list(of.values()) for key, of in by_query.items() if len(of) >= 2}
    drawn = _at_random(pool, several)
    fair = {key: unit for key, unit in several.items() if key in drawn}
    counted = fair or several
    whole = _pair(None, None, [(key, a, b) for key, unit in counted.items() for a, b in combinations(unit, 2)])
    comparable = {key: sets for key, unit in counted.items() if (sets := _comparable(unit))}
    pairs = {}
    for a, b in combinations(people, 2):
        both = [(key, of[a.pk], of[b.pk]) for key, of in by_query.items() if a.pk in of and b.pk in of]
        pairs[a.pk, b.pk] = _pair(a, b, both)
    with_llm = [(key, (machine[key], label)) for key, of in by_query.items() if key in machine for label in of.values()]
    llm_units, llm_queries = [unit for _key, unit in with_llm], [key for key, _unit in with_llm]
    roster = list(pool.agents.active())
    numbers = [agent.number for agent in roster]
    between_people = alpha_of_agents(list(several.values()), numbers)
    agents = list(zip(roster, between_people, alpha_of_agents(llm_units, numbers, llm_queries), strict=True))

    def beside_llm(made: str = "", person: int | None = None) -> list[tuple[int, VoiceSets, VoiceSets]]:
        return [
            (key, machine[key], label)
            for key in by_query
            if key in machine
            for who, label in spoken.answers(key, made).items()
            if person in (None, who)
        ]

    return Report(
        people=people,
        whole=alpha_of_sets(list(comparable.values())),
        jaccard=whole.jaccard,
        exact=whole.exact,
        at_random=bool(fair) or not several,
        pairs=pairs,
        agents=agents,
        llm=[_pair(person, None, beside_llm(person=person.pk)) for person in people],
        llm_blind=_pair(None, None, beside_llm("blind")),
        llm_shown=_pair(None, None, beside_llm("shown")),
        newest=len(recent.keys) if recent.are_some else None,
        coverage=recent.coverage,
        one_key=recent.one_key,
    )


@dataclass(frozen=True, slots=True)
class _Recent:
    """The queries that are compared, whether people labeled others too, the coverage, and how often one key accepted: with how often
    blind labels agree, that tells whether suggestions are read."""

    keys: Sequence[int]
    are_some: bool
    coverage: Mapping[int, int]
    one_key: OneKey


def _by_people(pool: Pool) -> "QuerySet[Label]":
    """People's labels that stand, of the pool's queries that nobody has deleted."""
    return Label.objects.current().filter(query__dataset__pool=pool, query__deleted_at=None, source=Label.Source.HUMAN)


def _recent(pool: Pool) -> _Recent:
    """The queries that people labeled last, above all those that several did: as many are read in a pool of a million as in one of ten
    thousand."""
    labels = _by_people(pool).annotate(beside=Q(provenance__has_key="shown"), accepted=Q(provenance__one_key=True))
    rows = list(labels.order_by("-pk").values_list("query_id", "author_id", "beside", "accepted")[:LOOKED_AT])
    people: dict[int, set[int]] = defaultdict(set)
    for query, author, _beside, _accepted in rows:
        people[query].add(author)
    several = [query for query, authors in people.items() if len(authors) >= 2]
    alone = [query for query, authors in people.items() if len(authors) < 2]
    keys = [*several[:SEVERAL], *alone[:ALONE]]
    counts = Counter(len(authors) for authors in people.values())
    are_some = len(keys) < len(people) or len(rows) == LOOKED_AT
    beside = [accepted for _query, _author, beside, accepted in rows if beside]
    return _Recent(keys, are_some, dict(sorted(counts.items())), OneKey(beside.count(True), len(beside)))


def shown(report: Report) -> Report:
    """The report as a page may show it: what fewer than LEAST_SHOWN common labels say is left out, and says so."""

    def figure(figure_: Figure) -> Figure:
        if not figure_.n or figure_.n >= LEAST_SHOWN:
            return figure_
        return Figure(
            figure_.n,
            why=_("too few: %(n)d of at least %(least)d common labels") % {"n": figure_.n, "least": LEAST_SHOWN},
        )

    def pair(pair_: Pair) -> Pair:
        if pair_.n >= LEAST_SHOWN:
            return replace(pair_, alpha=figure(pair_.alpha))
        return replace(pair_, jaccard=None, exact=None, alpha=figure(pair_.alpha))

    enough = report.whole.n >= LEAST_SHOWN
    return replace(
        report,
        whole=figure(report.whole),
        jaccard=report.jaccard if enough else None,
        exact=report.exact if enough else None,
        pairs={people: pair(pair_) for people, pair_ in report.pairs.items()},
        agents=[(agent, figure(ours), figure(llm)) for agent, ours, llm in report.agents],
        llm=[pair(pair_) for pair_ in report.llm],
        llm_blind=pair(report.llm_blind),
        llm_shown=pair(report.llm_shown),
    )


def _at_random(pool: Pool, queries: Collection[int]) -> set[int]:
    """Those of the queries that several people were to label because their lot said so."""
    line = round(queue.settings_of(pool).overlap_share * LOTS)
    items = QueueItem.objects.filter(query__in=queries, agent__isnull=True, overlap_lot__lt=line)
    return set(items.values_list("query_id", flat=True))


def _comparable(unit: Sequence[VoiceSets]) -> list[frozenset[int]]:
    """The sets of one query on the agents that everybody was asked about; none where there is no such agent."""
    common = frozenset.intersection(*(asked for _required, asked in unit))
    return [required & common for required, _asked in unit] if common else []


def _pair(a: Any, b: Any, both: Sequence[tuple[int, VoiceSets, VoiceSets]]) -> Pair:
    """Two voices on the agents that both were asked about, each time with the query's key. A query that several people answered counts
    once: as the mean of what they said."""
    queries, sets = [], []
    for key, (first, asked_first), (second, asked_second) in both:
        common = asked_first & asked_second
        if common:
            queries.append(key)
            sets.append((first & common, second & common))
    if not sets:
        return Pair(a, b, 0, None, None, Figure(0, why=_("no query was labeled by both")))
    _names, query = np.unique(queries, return_inverse=True)
    each = np.bincount(query)

    def mean(values: Sequence[float]) -> float:
        return float((np.bincount(query, values) / each).mean())

    return Pair(
        a,
        b,
        len(each),
        mean([jaccard(ours, other) for ours, other in sets]),
        mean([float(ours == other) for ours, other in sets]),
        alpha_of_sets(sets, queries),
    )


def _was(label: _Said, made: str) -> bool:
    """Whether a person's label was made so: "blind" on an item that hides suggestions, "shown" beside them, "unshown" not."""
    blind, shown = bool(label.provenance.get("blind")), bool(label.provenance.get("shown"))
    return {"blind": blind, "shown": shown and not blind, "unshown": blind or not shown}.get(made, True)


def _spoken(pool: Pool, made: str, queries: Collection[int]) -> _Spoken:
    """People's independent labels, those that were made so, and the LLM's answers."""
    spoken = Label.objects.current().filter(query__in=queries, source__in=(Label.Source.HUMAN, Label.Source.LLM))
    merged = voices.merges([pool.pk])[pool.pk]
    human: dict[int, dict[int, list[_Said]]] = defaultdict(lambda: defaultdict(list))
    machine = {}
    # Not by an iterator: of a cursor PostgreSQL plans for the first rows, and would look for these among all labels in their order.
    texts = [Cast(name, TextField()) for name in AS_TEXT]
    made_of: dict[str, Any] = {}
    for query, *values in spoken.order_by("pk").values_list("query_id", *PLAIN, *texts):
        for text in values[len(PLAIN) :]:
            if text not in made_of:
                made_of[text] = json.loads(text)
        label = _Said(*values[: len(PLAIN)], *(made_of[text] for text in values[len(PLAIN) :]))
        if label.source == Label.Source.LLM:
            if not label.provenance.get("fallback"):
                machine[query] = answer([label], merged)
        elif label.author_id is not None and _was(label, made) and not label.provenance.get("peers_seen"):
            human[query][label.author_id].append(label)
    return _Spoken(human, machine, merged)


def differing(
    pool: Pool, a: int | None, b: int | None, agent: int | None, llm: bool = False, made: str = ""
) -> list[int]:
    """Keys of the queries behind a cell: labeled by both people (or by one, or anybody, and the LLM), those that differ first; with
    `agent`, those on which two of them differ about it. `made` as in `report`, and "blind" for the items that hide suggestions."""
    spoken = _spoken(pool, made, _recent(pool).keys)
    distances: list[tuple[float, int]] = []
    for key in spoken.human:
        people = [label for who, label in spoken.answers(key).items() if a is None or who in (a, b)]
        beside = spoken.machine.get(key)
        pairs = [(beside, person) for person in people if beside] if llm else list(combinations(people, 2))
        if agent is not None:
            if any(agent in x_asked & y_asked and (agent in x) != (agent in y) for (x, x_asked), (y, y_asked) in pairs):
                distances.append((0.0, key))
        else:
            apart = [masi(*sets) for pair in pairs if (sets := _comparable(pair))]
            if apart:
                distances.append((-max(apart), key))
    return [key for _distance, key in sorted(distances)]
