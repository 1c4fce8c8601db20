"""How an answer goes through a conversation: flips, replies that stay, and changes of subject that are seen. numpy only.

A conversation is answered as an application asks: turn by turn, each with the agents that were answered to the turn before. A
*flip* is a turn whose agents differ from those of the turn before though the labels do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray
from training_app.engine.data.conversations import before
from training_app.engine.data.metrics import interval
from training_app.engine.reading.conversing.continuing import asks, successive
from training_app.engine.routing import holding
from training_app.engine.routing.router import Router
from training_app.engine.routing.routes import STICKY


@dataclass(frozen=True, slots=True)
class Answered:
    """Turns as they were answered: sets bool[N, A], and the row of the turn before int[N], -1 where there is none."""

    sets: BoolArray
    back: NDArray[np.intp]


def conversed(router: Router, texts: Sequence[str], groups: Sequence[str], sticky: float | None = None) -> Answered:
    """What the router answers to turns, each after its own answer to the turn before; with `sticky` None as if no turn had been
    before."""
    back = successive(texts, groups)
    ids = [agent.id for agent in router.agents]
    sets = np.zeros((len(texts), len(ids)), np.bool_)
    # A turn before has less said before it, or as much where what is said is cut: whichever is missing is answered first.
    done: set[int] = set()
    for first in range(len(texts)):
        chain = [first]
        while (last := int(back[chain[-1]])) >= 0 and last not in done and last not in chain:
            chain.append(last)
        for row in reversed(chain):
            route = router.route(texts[row])
            if sticky is not None and back[row] >= 0:
                named = [ids[a] for a in np.flatnonzero(sets[back[row]])]
                route, _continued = holding.continued(router, texts[row], route, last=named, sticky=sticky)
            sets[row] = [agent in route.agents for agent in ids]
            done.add(row)
    return Answered(sets, back)


def figures(answered: Answered, required: BoolArray, texts: Sequence[str]) -> dict[str, Any] | None:
    """JSON-able figures of answered turns whose turn before is among them; None where there are none. required bool[N, A].

    "flip_rate" is the share of turns with the labels of the turn before that were answered with other agents, "flips_from_right"
    of those whose turn before was answered right; "replies_stay" the share of replies to a question, labels unchanged, that kept the
    agents; "switches_found" the share of turns that need somebody new whose answer, or the one after it, has them. Each has its
    interval.
    """
    sets, back = answered.sets, answered.back
    now = np.flatnonzero(back >= 0)
    if not len(now):
        return None
    last = back[now]
    unchanged = (required[now] == required[last]).all(axis=1)
    flipped = (sets[now] != sets[last]).any(axis=1)
    after_right = (sets[last] == required[last]).all(axis=1)
    replied = np.array([asks(texts[row]) for row in now.tolist()], np.bool_)
    new = required[now] & ~required[last]
    correct: BoolArray = np.array(~(new & ~sets[now]).any(axis=1), np.bool_)
    following = {int(b): int(n) for n, b in zip(now.tolist(), last.tolist(), strict=True)}
    for place, row in enumerate(now.tolist()):
        if not correct[place] and row in following:
            correct[place] = not (new[place] & ~sets[following[row]]).any()

    def share(values: BoolArray) -> dict[str, Any]:
        return {"turns": int(values.size), **(interval(values.astype(np.float64)) if values.size else {})}

    return {
        "turns": len(now),
        "flip_rate": share(flipped[unchanged]),
        "flips_from_right": share(flipped[unchanged & after_right]),
        "replies_stay": share(~flipped[unchanged & replied]),
        "switches_found": share(correct[new.any(axis=1)]),
        "exact": share((sets[now] == required[now]).all(axis=1)),
    }


def conversations(router: Router, texts: Sequence[str], groups: Sequence[str], required: BoolArray) -> dict[str, Any]:
    """For a scorecard: the `figures` as the router answers, and under "alone" as if it did not look at the turn before; {} where no
    turn follows another."""
    if not any(before(text) for text in texts):
        return {}
    ours = figures(conversed(router, texts, groups, STICKY), required, texts)
    if ours is None:
        return {}
    return {**ours, "alone": figures(conversed(router, texts, groups), required, texts)}
