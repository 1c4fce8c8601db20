"""Whether the agents of the last turn go on: a logistic regression over what a router says of this turn and of theirs. numpy only.

A router reads each turn anew, so "yes, at seven" may look like anybody's. Whoever was asked last is then the likeliest. With p_a the
calibrated probability that agent a is needed, P the agents of the turn before and S the set that the router would choose now,

    joint(X) = sum_{a in X} log p_a + sum_{a not in X} log(1 - p_a)          likelihood of a set, were agents independent
    p(stay) = sigma(w . [1, joint(P) - joint(S), joint(P), weakest of P, strongest beside P, S = P, an answer that asks, length, ...])

The weights are learnt from the labels of successive turns (`fit`); until there are any, those of `DEFAULT` count, which
`benchmarks.continuing` learnt on conversations of other pools. The turn stays with P where p(stay) reaches 1 - sticky.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray
from training_app.engine.data.conversations import USER, before, text_of
from training_app.engine.reading.logistic import logistic, sigmoid

#: What ends a question in the scripts of the world: Latin, Greek, Armenian, Arabic, Ethiopic, full width.
QUESTION_MARKS = "?;՞؟፧？"
#: Log-odds beyond which a score says no more.
SUREST = 8.0
#: Fewer turns whose turn before is labeled teach nothing: the weights stay those that were assumed.
LEAST = 30
#: In how many observations the assumed weights are held.
RIDGE = 4.0


@dataclass(frozen=True, slots=True)
class Continuing:
    """The fitted regression. `weights` float64[D], one for each of `FEATURES`; `turns` how many turns taught it, 0 for the default."""

    weights: NDArray[np.float64]
    turns: int = 0

    def probabilities(self, p: NDArray[Any], last: BoolArray, chosen: BoolArray, texts: Sequence[str]) -> NDArray[Any]:
        """How likely each turn needs exactly the agents `last` bool[N, A] of the turn before, float64[N]: `p` float[N, A] are
        calibrated probabilities, `chosen` bool[N, A] the sets that the router would answer."""
        p_stay: NDArray[Any] = sigmoid(features(p, last, chosen, texts) @ self.weights)
        return p_stay

    def config(self) -> dict[str, Any]:
        """As an artifact keeps it."""
        return {"weights": self.weights.tolist(), "turns": self.turns}

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | None) -> Continuing:
        """The inverse; the default where an artifact has none. Raises ValueError for weights that do not fit."""
        if not config:
            return DEFAULT
        weights = np.asarray(config["weights"], np.float64)
        if weights.shape != (len(FEATURES),):
            raise ValueError(f"continuing has {weights.size} weights, not {len(FEATURES)}")
        return cls(weights, int(config["turns"]))


FEATURES = (
    "constant", "behind", "likely", "weakest", "strongest beside", "same set", "nobody before", "nobody now", "asked",
    "asked and another set", "length", "overlap",
)  # fmt: skip


def features(p: NDArray[Any], last: BoolArray, chosen: BoolArray, texts: Sequence[str]) -> NDArray[np.float64]:
    """float64[N, D] for FEATURES; arguments as in `Continuing.probabilities`."""
    edge = sigmoid(np.array(-SUREST))
    p = np.clip(np.asarray(p, np.float64), edge, 1 - edge)
    yes, no = np.log(p), np.log1p(-p)  # [N, A]
    z = yes - no
    joint_last = np.where(last, yes, no).sum(axis=1)
    joint_chosen = np.where(chosen, yes, no).sum(axis=1)
    asked = np.array([asks(text) for text in texts], np.float64)
    same = (last == chosen).all(axis=1).astype(np.float64)
    columns = [
        np.ones(len(p)),
        np.maximum(joint_last - joint_chosen, -2 * SUREST),
        np.maximum(joint_last, -2 * SUREST),
        np.where(last.any(axis=1), np.where(last, z, SUREST).min(axis=1, initial=SUREST), 0.0),
        np.where(last, -SUREST, z).max(axis=1, initial=-SUREST),
        same,
        ~last.any(axis=1),
        ~chosen.any(axis=1),
        asked,
        asked * (1 - same),
        np.log1p([len(text) for text in texts]),
        (last & chosen).any(axis=1),
    ]
    return np.stack([np.asarray(column, np.float64) for column in columns], axis=1)


def asks(text: str) -> bool:
    """Whether what was said last before a turn ends in a question."""
    earlier = before(text)
    last_message = earlier[-1].content.rstrip(" \t\n\"'»”)") if earlier and earlier[-1].role != USER else ""
    return last_message.endswith(tuple(QUESTION_MARKS))


def last_turn(text: str) -> tuple[tuple[int, ...] | None, str | None]:
    """Of a conversation: the agents that its last answer names, None where it names none; and the user's turn before this one, as a
    query of its own, None for a first turn."""
    earlier = before(text)
    place = next((i for i in range(len(earlier) - 1, -1, -1) if earlier[i].role == USER), None)
    answered = earlier[place + 1 :] if place is not None else earlier
    agents = tuple(sorted({agent for message in answered for agent in message.agents}))
    question = None if place is None else text_of(earlier[place].content, earlier[:place])
    return (agents or None), question


def successive(texts: Sequence[str], groups: Sequence[str]) -> NDArray[np.intp]:
    """The row of the turn before each, int[N]; -1 where it is not among the rows. `groups` name the conversations, in which a turn is
    known by its words and those that came just before it."""
    rows = {_place(group, text): i for i, (text, group) in enumerate(zip(texts, groups, strict=True))}
    before = np.full(len(texts), -1, np.intp)
    for i, (text, group) in enumerate(zip(texts, groups, strict=True)):
        _agents, question = last_turn(text)
        if question is not None:
            before[i] = rows.get(_place(group, question), -1)
    return before


def _place(group: str, text: str) -> tuple[str, str, str]:
    earlier = before(text)
    return group, str(text), earlier[-1].content if earlier else ""


def fit(
    p: NDArray[Any],
    chosen: BoolArray,
    required: BoolArray,
    texts: Sequence[str],
    groups: Sequence[str],
    prior: NDArray[np.float64] | None = None,
) -> Continuing | None:
    """Learn from turns that the router was not fitted on, whose labels speak of all agents; None where there are too few.

    Each turn is seen after the agents that its turn before needed and, where others were chosen there, after those as well: when
    it serves, the turn before may have been answered wrong.
    """
    now = np.flatnonzero((back := successive(texts, groups)) >= 0)
    if len(now) < LEAST:
        return None
    seen, y = [], []
    for sets in (required, chosen):
        rows = now if sets is required else now[(chosen[back[now]] != required[back[now]]).any(axis=1)]
        last = sets[back[rows]]
        seen.append(features(p[rows], last, chosen[rows], [texts[i] for i in rows.tolist()]))
        y.append((required[rows] == last).all(axis=1))
    weights = logistic(np.concatenate(seen), np.concatenate(y), DEFAULT.weights if prior is None else prior, RIDGE)
    return Continuing(weights, len(now))


#: Learnt by `benchmarks.continuing --default` on conversations of the Schema-Guided Dialogue set, read by a linear scorer of the last
#: turn alone: for pools in which no conversation is labeled yet.
DEFAULT = Continuing(np.array([4.69, 1.12, -0.39, -0.02, -0.09, 1.02, -6.96, 0.16, 2.18, -3.03, -0.43, -1.27]))
