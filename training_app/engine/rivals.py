"""What a run measures beside its router: baselines, an LLM, and what the next labels should bring."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.config import Config
from training_app.engine.data.arrays import BoolArray
from training_app.engine.data.examples import Agent
from training_app.engine.data.memory import give_back
from training_app.engine.data.prepared import Matrices, Prepared
from training_app.engine.judging import llm_baseline, next_labels
from training_app.engine.judging.baselines import BASELINES, Ngrams, Shared
from training_app.engine.judging.llm_baseline import LanguageModel, LlmResult
from training_app.engine.llm import LLMError
from training_app.engine.progress import Progress, ScorerProgress, streamed
from training_app.engine.reading.encoders import quick
from training_app.engine.reading.linear import ONE_MATRIX
from training_app.engine.reading.stacking import joined
from training_app.engine.routing.allowed import NO_LIMITS, Allowed, Rules, allowed_for, walk
from training_app.engine.routing.checkpoints import Scores


def baselines(data: Prepared, seed: int, rules: Rules, progress: ScorerProgress) -> dict[str, BoolArray]:
    """The sets that each baseline selects for the measured rows: allowed ones, as the router may answer no others."""

    give_back()
    shared, found = Shared(Ngrams(data.train.rows), progress), {}
    with ONE_MATRIX:
        for i, (name, fit) in enumerate(BASELINES.items()):
            progress(i, len(BASELINES), name)
            sets = fit(data.agents, data.train.rows, data.val.rows, seed, shared).select(data.measured.rows.texts)
            if rules:
                sets = within(sets, allowed_for(rules, tuple(data.agents)), data.train.rows.required.mean(axis=0))
            found[name] = sets
    return found


def baseline_phase(data: Prepared, seed: int, rules: Rules) -> Generator[Progress, None, dict[str, BoolArray]]:
    """`baselines`, as a generator of its progress."""
    return (yield from streamed(partial(baselines, data, seed, rules), "baselines"))


def within(selected: BoolArray, allowed: Allowed, often: NDArray[np.floating]) -> BoolArray:
    """Allowed sets in place of those that are not, bool[N, A]: with all that the selected agents require, and of agents that may not
    be together those that are needed more `often`, float[A]."""
    result = selected.copy()
    for row in np.flatnonzero(~allowed.holds(selected)):
        values = np.where(selected[row], often, -2.0)  # who is only required comes along, and never alone
        available = (selected[row] @ allowed.needs.astype(np.float64)) > 0
        order, _steps, _full = walk(partial(_always, values), available, allowed, NO_LIMITS)
        result[row] = False
        result[row, order] = True
    return result


def _always(values: NDArray[Any], _selected: BoolArray) -> tuple[NDArray[Any], float]:
    """The same values of agents whoever is selected, each but those below -1 worth more than STOP."""
    return values, -1.0


def llm_phase(config: Config, llm: LanguageModel | None, data: Prepared) -> Generator[Progress, None, LlmResult | None]:
    """What the LLM says of some of the rows in which every agent was asked; None, and a warning, where it cannot be asked."""
    if not config.llm_queries:
        return None
    if llm is None:
        data.warnings.append(
            "llm_queries is set, and no LLM is connected: do so under Settings, LLM, or name it in LLM_MODEL. None was asked."
        )
        return None
    try:
        return (yield from _asked(config, llm, data.agents, data.measured))
    except LLMError as error:
        data.warnings.append(f"The LLM was not measured: {error}.")
        return None


def _asked(
    config: Config, llm: LanguageModel, agents: Sequence[Agent], measured: Matrices
) -> Generator[Progress, None, LlmResult]:
    rows = measured.rows
    whole = np.flatnonzero(measured.whole)

    def work(progress: ScorerProgress) -> LlmResult:
        answers = llm_baseline.ask(
            llm,
            agents,
            [rows.texts[i] for i in whole.tolist()],
            llm_baseline.drawn(len(whole), config.llm_queries, config.seed),
            min_agents=min(config.min_agents, len(agents)),
            max_agents=config.max_agents,
            progress=progress,
        )
        return dataclasses.replace(answers, rows=whole[answers.rows])

    return (yield from streamed(work, "baselines"))


def next_labels_phase(
    config: Config, data: Prepared, scores: Scores
) -> Generator[Progress, None, dict[str, Any] | None]:
    """What the next labels should bring, where the pool has few."""
    rows = joined(data.train.rows, data.val.rows)
    if not config.baselines or config.recipe != "scores" or not next_labels.LEAST <= len(rows) <= next_labels.MOST:
        return None
    keys = [e.fold_key for e in (*data.train.examples, *data.val.examples)]

    def work(progress: ScorerProgress) -> dict[str, Any]:
        sizes, values = next_labels.measured(
            quick(scores.report["encoder"], data.agents), rows, keys, config.seed, progress
        )
        return next_labels.in_all(sizes, values, len(rows), config.seed)

    return (yield from streamed(work, "baselines"))
