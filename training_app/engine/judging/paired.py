"""Two loaded routers on the same test queries, so that their difference is paired. numpy only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from training_app.engine.data.arrays import BoolArray
from training_app.engine.data.examples import Agent, Example
from training_app.engine.judging import analysis, folds
from training_app.engine.judging.standard import Judged, priced
from training_app.engine.routing import holding
from training_app.engine.routing.router import Router

BATCH = 1_000


def beside(
    ours: Router, theirs: Router, agents: Sequence[Agent], examples: Sequence[Example]
) -> tuple[int, dict[str, Any]]:
    """How many test queries were routed with both, and the figures: by measure {"ours", "theirs", "difference"}, each a mean with its
    95% interval, and `analysis.beside` by set size and by agent where there was any query.

    The figures are COMPARED and what `ours` was trained for, see `standard.py`. Only test queries count of which every agent that
    one of the two knows was asked. Each may take what it knows of `agents`.
    """
    roster = frozenset(agent.id for agent in agents)
    shared = frozenset(agent.id for router in (ours, theirs) for agent in router.agents) & roster
    test = [row for row in examples if row.split == "test" and (row.asked is None or shared <= row.asked)]
    required = [row.required for row in test]
    sets = [routed(router, [row.text for row in test], roster) for router in (ours, theirs)]
    return len(test), of_sets(ours.training, agents, required, sets[0], sets[1])


def of_sets(
    training: Mapping[str, Any],
    agents: Sequence[Agent],
    required: Sequence[Collection[int]],
    ours: Sequence[Collection[int]],
    theirs: Sequence[Collection[int]],
    *,
    folded: bool = False,
) -> dict[str, Any]:
    """The figures of `beside`, of sets that were answered to the same queries; `training` are the settings of the first router.
    `folded`: by cross-validation, whose intervals are wider."""
    ids = sorted(frozenset().union(*required, *ours, *theirs))
    listed = {agent.id: agent for agent in agents}
    goal = priced(training, [listed.get(number) or Agent(number, "") for number in ids])
    truth, *chosen = (_matrix(sets, ids) for sets in (required, ours, theirs))
    mine, other = (Judged.of(sets, truth, goal) for sets in chosen)
    if folded:
        apart, its, others = folds.leads(mine, other), folds.figures(mine), folds.figures(other)
    else:
        apart, its, others = mine.lead(other), mine.intervals(), other.intervals()
    figures: dict[str, Any] = {
        name: {"ours": its[name], "theirs": others[name], "difference": apart[name]} for name in apart
    }
    if required:
        figures |= analysis.beside(chosen[0], chosen[1], truth, np.ones_like(truth), ids)
    return figures


def routed(router: Router, texts: Sequence[str], roster: frozenset[int]) -> list[frozenset[int]]:
    """The router's sets, as applications get them. Of the agents that it knows it may take those that the roster holds."""
    available = roster & {agent.id for agent in router.agents}
    sets: list[frozenset[int]] = []
    for at in range(0, len(texts), BATCH):
        sets += [frozenset(route.agents) for route in holding.routes(router, texts[at : at + BATCH], available)]
    return sets


def _matrix(sets: Sequence[Collection[int]], ids: Sequence[int]) -> BoolArray:
    return np.array([[number in chosen for number in ids] for chosen in sets], np.bool_).reshape(len(sets), len(ids))
