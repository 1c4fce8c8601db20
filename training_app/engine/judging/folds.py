"""How a small pool's router does by cross-validation: every labeled query is a test query once. numpy only.

Twenty test queries tell little, while the pool has a hundred labels. So the groups of all of them are dealt to folds, and for each
fold the whole recipe learns again from the others: scorer, its choice, decision rule and baselines, validation rows apart. What all
folds answered is judged together.

The folds' models share most of their rows, so what they get hangs together, and an interval that takes the queries to be
independent is too narrow (Bengio and Grandvalet 2004). What the recipe does with so many labels varies by INFLATION as much; what is
shown of a difference, in which much of what folds share falls out, by INFLATION_PAIRED. Pages speak of the one model that is served,
which learnt from as many rows as each fold's: how well it does varies also with which rows these are, and the more so the fewer they
are (`of_one`): at 60 labels by the whole factor of Nadeau and Bengio (2003) for five folds, 2.25. See `benchmarks/coverage` and
`benchmarks/promises`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from training_app.engine.config import Config
from training_app.engine.data import intervals
from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.examples import Agent, Example
from training_app.engine.data.prepared import Prepared, TrainError, prepared
from training_app.engine.judging.standard import Judged, is_share, priced
from training_app.engine.measures import COMPARED, NEEDED_RECALL, VALUE
from training_app.engine.progress import Progress

STEPS = 100  # of a fold's progress
FEW_TEST = 100  # with so many test queries the test split is enough
LEAST, MOST = 40, 500  # labeled queries; more take long, and their test split is larger
INFLATION = 1.4  # of the variance
INFLATION_PAIRED = 1.2  # of what is shown; the gate goes by the other
#: Figures that are measured: what is compared, and what goals add.
NAMED = (*COMPARED, NEEDED_RECALL, VALUE)
T = TypeVar("T")

#: Learns from a fold's train and validation rows; the sets of its test rows by router, bool[N, A] over its agents, ours as "".
Fold = Callable[[Prepared], Generator[Progress, None, Mapping[str, BoolArray]]]


def few(examples: Sequence[Example]) -> bool:
    """Whether the test split is so small, and the pool large enough, that cross-validation says more."""
    judging = sum(e.judges for e in examples)
    return sum(e.split == "test" for e in examples) < FEW_TEST and judging >= LEAST and len(examples) <= MOST


def dealt(examples: Sequence[Example], folds: int, seed: int) -> list[list[Example]]:
    """The examples once for each fold, its own with the split test, of the others as large a part val as before; rows of one group
    stand together."""
    groups = sorted({e.fold_key for e in examples})
    order = np.random.Generator(np.random.PCG64(seed)).permutation(len(groups)).tolist()
    place = {groups[g]: at for at, g in enumerate(order)}
    learnt = [e for e in examples if e.split != "test"]
    share = sum(e.split == "val" for e in learnt) / max(len(learnt), 1)

    def split(at: int, fold: int) -> str:
        if at % folds == fold:
            return "test"
        turn = at // folds * (folds - 1) + (at - fold - 1) % folds  # the groups outside the fold, counted
        return "val" if int((turn + 1) * share) > int(turn * share) else "train"

    return [[replace(e, split=split(place[e.fold_key], fold)) for e in examples] for fold in range(folds)]


def of_one(rows: int) -> float:
    """How many times the variance of independent queries the figure of one model has, by so many cross-validated queries."""
    return 1.5 + 45 / max(rows, 1)


def widened(values: FloatArray) -> dict[str, float]:
    """The mean of what cross-validated queries got, float64[N], with the interval of one model: {"mean", "low", "high"}."""
    return intervals.bounded(values, square=of_one(len(values)) * intervals.SQUARE).plain()


def lead(ours: FloatArray, theirs: FloatArray) -> dict[str, float]:
    """The difference of what cross-validated queries got, float64[N] each: {"mean", "low", "high", "bound"} as of `metrics.paired`."""
    apart = np.round(ours - theirs, 12)
    sample = intervals.Sample(apart, -1.0, 1.0)
    threshold = INFLATION * max(intervals.likely(sample.size), intervals.rare(sample.differing()))
    sure = intervals.Interval(sample.mean, sample.end(-1, threshold), sample.end(1, threshold))
    shown = intervals.difference(apart, sure, square=INFLATION_PAIRED * intervals.SQUARE)
    return {**shown.plain(), "bound": sure.low}


def spread(values: FloatArray, inflation: float) -> dict[str, float]:
    """The mean of what cross-validated queries got, or of a difference, where it is no share: {"mean", "low", "high"}."""
    result = intervals.spread(values)
    half = (result.high - result.mean) * inflation**0.5
    return intervals.Interval(result.mean, result.mean - half, result.mean + half).plain()


def _quietly(work: Generator[Progress, None, T], fold: int, folds: int) -> Generator[Progress, None, T]:
    """The same work; of its progress only the words and how far its scorer is, which takes nearly all of a fold's time."""
    fitted = 0.0
    while True:
        try:
            progress = next(work)
        except StopIteration as done:
            result: T = done.value
            return result
        if progress.phase == "scorer" and progress.total:
            fitted = min(progress.step / progress.total, 1.0)
        message = f"fold {fold + 1} of {folds}: {progress.message or progress.phase}"
        yield Progress("folds", round(STEPS * (fold + fitted)), STEPS * folds, message)


def cross_validated(
    agents: Sequence[Agent], examples: Sequence[Example], config: Config, learn: Fold
) -> Generator[Progress, None, dict[str, Any] | None]:
    """{"folds", "queries", "metrics": {measure: interval}, "baselines": {name: {"metrics", "difference"}}, "answers"} of queries that
    judge and of which every agent was asked; None where a fold's rows are too few to learn from. The figures are those of
    `judging.standard`. "answers" are {`key_of` a query: [required, chosen]}, by which two recipes are compared on the queries that
    both were judged on."""
    folds, goal = config.judging_folds, priced(config.to_mapping(), agents)
    place = {agent.id: a for a, agent in enumerate(agents)}
    chosen_sets: dict[str, list[BoolArray]] = {}
    needed: list[BoolArray] = []
    keys: list[str] = []
    for number, rows in enumerate(dealt(examples, folds, config.seed)):
        yield Progress("folds", STEPS * number, STEPS * folds, f"fold {number + 1} of {folds}")
        try:
            data = prepared(agents, rows)
        except TrainError:
            return None
        columns = [place[agent.id] for agent in data.agents]
        whole = np.array(
            [e.judges and (e.asked is None or set(place) <= e.asked) for e in data.splits["test"].examples]
        )
        judged = [e for e, counts in zip(data.splits["test"].examples, whole.tolist(), strict=True) if counts]
        if not judged:
            continue
        needed.append(np.array([[agent.id in e.required for agent in agents] for e in judged]))
        keys += map(key_of, judged)
        answered = yield from _quietly(learn(data), number, folds)
        for name, sets in answered.items():
            chosen = np.zeros((len(judged), len(agents)), np.bool_)
            chosen[:, columns] = sets[whole]
            chosen_sets.setdefault(name, []).append(chosen)
    if not needed:
        return None
    required = np.concatenate(needed)
    values = {name: Judged.of(np.concatenate(sets), required, goal) for name, sets in chosen_sets.items()}
    ours = values.pop("")
    beside = {name: {"metrics": figures(theirs), "difference": leads(ours, theirs)} for name, theirs in values.items()}
    ids = np.array([agent.id for agent in agents])
    pairs = zip(required, np.concatenate(chosen_sets[""]), strict=True)
    answers = {key: [ids[needs].tolist(), ids[sets].tolist()] for key, (needs, sets) in zip(keys, pairs, strict=True)}
    return {
        "folds": folds, "queries": len(required), "metrics": figures(ours), "baselines": beside, "answers": answers,
    }  # fmt: skip


def key_of(example: Example) -> str:
    """The same for the same query in every snapshot, 16 characters."""
    return hashlib.sha256(f"{example.id}\0{example.text}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def figures(judged: Judged) -> dict[str, dict[str, float]]:
    """What cross-validated queries got, by measure, with the intervals of `widened` and `spread`."""
    names = [name for name in NAMED if name in judged.values and judged.values[name].size]
    return {
        name: widened(judged.values[name])
        if is_share(name)
        else spread(judged.values[name], of_one(len(judged.values[name])))
        for name in names
    }


def leads(ours: Judged, theirs: Judged) -> dict[str, dict[str, float]]:
    """The differences on the same cross-validated queries, by measure, with the intervals of `lead` and `spread`."""
    apart = {}
    for name in NAMED:
        if name in ours.values and ours.values[name].size:
            mine, other = ours.values[name], theirs.values[name]
            apart[name] = lead(mine, other) if is_share(name) else spread(mine - other, INFLATION_PAIRED)
    return apart
