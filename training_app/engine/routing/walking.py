"""The greedy walk by a policy's values to a set of agents: of many queries at once, or of one. numpy only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.routing.allowed import NO_LIMITS, SetLimits, walk
from training_app.engine.routing.bayes import BayesPolicy, Needs
from training_app.engine.routing.policy import (
    BARRED,
    GRAIN,
    LIMIT,
    SHORTLIST,
    Policy,
    SharedPolicy,
    conditional,
    likeliest_first,
)

#: (selected bool[B, A]; order int64[B, A], the agents in the order they were taken, then -1; steps int64[B], STOP counted)
Walks = tuple[BoolArray, NDArray[np.int64], NDArray[np.int64]]
#: Of one query: the agents in the order they were taken, steps with STOP counted, whether the limit of size ended it.
Walk = tuple[list[int], int, bool]


def greedy(policy: Policy, x: FloatArray, needed: Needs, available: BoolArray, limits: SetLimits = NO_LIMITS) -> Walks:
    """The greedy walk of B queries at once; where rules say what is allowed, through such sets, one query after the other.

    An agent is taken while its value exceeds that of STOP by more than the margin. To others no agent is added whose log-odds are at
    -LIMIT or below: nothing is gained by it, and in states that it never learnt from the network may think otherwise and take
    everybody.
    """
    if isinstance(policy, BayesPolicy):
        return _best_sets(policy, x, needed, available, limits)
    count, agents = available.shape
    selected = np.zeros((count, agents), np.bool_)
    order = np.full((count, agents), -1, np.int64)
    steps = np.zeros(count, np.int64)
    if limits.allowed is not None:
        for row in range(count):
            here = slice(row, row + 1)
            chosen, steps[row], _ = _allowed_walk(policy, x[here], available[row], limits)
            selected[row, chosen] = True
            order[row, : len(chosen)] = chosen
        return selected, order, steps
    # In slices that fit the processor's cache.
    size = max(1, 4096 // agents)
    for at in range(0, count, size):
        here = slice(at, at + size)
        if not (isinstance(policy, SharedPolicy) and agents > SHORTLIST):
            _walk_slice(policy, x[here], available[here], limits, (selected[here], order[here], steps[here]))
            continue
        ranked = likeliest_first(x[here], available[here])
        parts = (selected[here].copy(), order[here], steps[here])
        ranked_x: FloatArray = np.take_along_axis(x[here], ranked, axis=1)
        ranked_available: BoolArray = np.take_along_axis(available[here], ranked, axis=1)
        here_policy = policy if policy.costs is None else replace(policy, costs=policy.costs[ranked])
        _walk_slice(here_policy, ranked_x, ranked_available, limits, parts)
        np.put_along_axis(selected[here], ranked, parts[0], axis=1)
        order[here] = np.where(order[here] < 0, -1, np.take_along_axis(ranked, order[here].clip(0), axis=1))
    return selected, order, steps


def of_one(
    policy: Policy, x: FloatArray, needed: float | None, available: BoolArray, limits: SetLimits = NO_LIMITS
) -> Walk:
    """`greedy` of one query: x float32[D], available bool[A]. Policies that decide one query faster than a batch of one do so."""
    if isinstance(policy, BayesPolicy):
        return policy.walk(x, available, limits, needed)
    if isinstance(policy, SharedPolicy) and policy.walks_alone and limits.allowed is None:
        return policy.walk(x, available, limits)
    _, orders, counts = greedy(policy, x[None], None, available[None], limits)
    order = [a for a in orders[0].tolist() if a >= 0]
    return order, int(counts[0]), bool(limits.max_agents) and len(order) >= limits.max_agents


def _allowed_walk(policy: Policy, x: FloatArray, available: BoolArray, limits: SetLimits) -> Walk:
    """The greedy walk of one query through allowed sets, as of `allowed.walk`: x float32[1, A], available bool[A]."""

    def values(selected: BoolArray) -> tuple[NDArray[Any], float]:
        q, stop = policy.values(x, None, selected[None], available[None])
        q = np.rint(q[0] * GRAIN) / GRAIN
        if selected.any() and isinstance(policy, SharedPolicy):
            # To others nobody so unlikely is added: see `greedy`.
            q = np.where(conditional(x, policy.pairs, selected[None])[0] > -LIMIT, q, BARRED)
        return q, float(stop[0])

    assert limits.allowed is not None
    return walk(values, available, limits.allowed, limits)


def _best_sets(policy: BayesPolicy, x: FloatArray, needed: Needs, available: BoolArray, limits: SetLimits) -> Walks:
    """`greedy` by a rule that knows the best set at once, in slices that fit the processor's cache."""
    size = max(1, 4096 // max(1, available.shape[1]))
    parts = []
    for at in range(0, max(1, len(x)), size):
        here = slice(at, at + size)
        parts.append(policy.sets(x[here], available[here], limits, None if needed is None else needed[here]))
    selected, order, steps = zip(*parts, strict=True)
    return np.concatenate(selected), np.concatenate(order), np.concatenate(steps)


def _walk_slice(policy: Policy, x: FloatArray, available: BoolArray, limits: SetLimits, out: Walks) -> None:
    """Write one slice's part of what `greedy` returns; x and available of a shared policy with more agents than SHORTLIST stand
    in order of their log-odds."""
    selected, order, steps = out
    active = np.arange(len(x))
    values = policy.fixed(x, None, available)
    agents = available.shape[1]
    limit = min(agents, limits.max_agents) if limits.max_agents else agents
    for step in range(limit + 1):
        if step == limit:
            steps[active] = step
            return
        first = min(agents, step + SHORTLIST) if isinstance(policy, SharedPolicy) else agents
        chosen = selected[active]
        q, stop = values(active, chosen, first)
        allowed = available[active, :first] & ~chosen[:, :first]
        if step >= max(limits.min_agents, 1) and isinstance(policy, SharedPolicy):
            allowed &= conditional(x[active], policy.pairs, chosen)[:, :first] > -LIMIT
        q = np.where(allowed, np.rint(q * GRAIN), -np.inf)
        best = q.argmax(axis=1)
        value = q[np.arange(len(active)), best] / GRAIN
        go = (value > stop + limits.margin) if step >= limits.min_agents else np.isfinite(value)
        steps[active[~go]] = step + 1
        active, best = active[go], best[go]
        if not active.size:
            return
        selected[active, best] = True
        order[active, step] = best
