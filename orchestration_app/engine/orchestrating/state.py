"""What an orchestrator sees: the task, what the agents called so far have said, and what is left to spend. numpy only.

A state holds what a running episode knows and nothing else: never which agents the task needs, never what is still missing. Two
states that differ only in an output differ in `features`, by what the scorer makes of the output, by whether it failed or is empty,
and by its encoding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from training_app.engine.data.arrays import FloatArray
from training_app.engine.routing.policy import LIMIT, probabilities

#: What the policy sees of each agent by itself, in order.
OWN = (
    "task",  # the scorer's log-odds of the task, by LIMIT
    "needed",  # the probability that they stand for
    "one_shot",  # whether the set router would call it
    "pending",  # whether it would, and nobody has
    "called",  # whether it was called
    "times",  # log(1 + how often)
    "failed",  # log(1 + how often without an answer)
    "empty",  # log(1 + how often with an empty one)
    "last_says",  # the scorer's log-odds of the last output, by LIMIT
    "most_says",  # the largest log-odds of all outputs, by LIMIT
    "cost",  # log(1 + its estimated cost by the mean cost of an agent)
    "share",  # its estimated cost by what is left of the budget, 0 without a budget
    "last",  # whether it answered last
)
#: What all agents share, in order; the encoding of the last output follows, and the mean of all outputs' encodings.
SHARED = (
    "steps",  # steps so far by the most steps
    "left",  # log(1 + steps left)
    "spent",  # log(1 + cost so far by the mean cost of an agent)
    "budget",  # what is left of the budget by the budget; 1 without one
    "begun",  # whether any call was made
    "distinct",  # log(1 + how many agents were called)
    "expected",  # log(1 + expected number of needed agents not called yet)
    "likeliest",  # the largest probability among them
    "pending",  # log(1 + agents of the set router's set not called yet)
    "last_failed",  # whether the last call failed
    "last_empty",  # whether the last output is empty
    "length",  # log(1 + characters of the last output) / 10
)
ENCODING = 16  # numbers that encode an output
WIDTH = len(SHARED) + 2 * ENCODING  # of what all agents share


#: A task as a text, or as the messages of a conversation.
Task = str | Sequence[Mapping[str, str]]


class Allowance(NamedTuple):
    """What an episode may take: `max_steps`, 0 for the policy's own, and `budget` in the pool's currency. `costs` estimates calls by
    agent id; those that are not named cost what the version was trained with."""

    max_steps: int = 0
    budget: float | None = None
    costs: Mapping[int, float] | None = None


UNLIMITED = Allowance()


@dataclass(frozen=True, slots=True)
class Call:
    """One finished call: the agent's id, what it said ("" where it failed), cost in the pool's currency, tokens, latency in seconds.

    `answer` is its text as an answer to the task: None where the agent only looks or points on, and answers nothing itself.
    """

    agent: int
    output: str = ""
    failed: bool = False
    cost: float = 0.0
    tokens: int = 0
    latency: float = 0.0
    answer: str | None = None

    def to_json(self) -> dict[str, Any]:
        """As JSON-able values; `from_json` gives it back."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Call:
        return cls(**{name: values[name] for name in cls.__slots__ if name in values})


@dataclass(frozen=True, slots=True)
class Heard:
    """What was made of one output: the scorer's log-odds of it float32[A], and its encoding float32[ENCODING]."""

    log_odds: FloatArray
    encoding: FloatArray


@dataclass(frozen=True, slots=True)
class State:
    """An episode, or one path of it, as it stands. Immutable; `Orchestrator.begin` makes the first, `Orchestrator.after` the next.

    `messages` is the conversation that asks for the task, {"role", "content"} each; `log_odds` float32[A] are the scorer's of the
    task, `one_shot` float32[A] is 1 for the agents that the set router would call; `costs` float32[A] estimate a call of each
    agent, in the pool's currency. `heard` holds what was made of each call's output. `elsewhere` is what other paths of the
    episode have spent of the same budget. A `budget` of None is no limit.
    """

    messages: tuple[Mapping[str, str], ...]
    ids: tuple[int, ...]
    log_odds: FloatArray
    one_shot: FloatArray
    costs: FloatArray
    calls: tuple[Call, ...] = ()
    heard: tuple[Heard, ...] = ()
    steps: int = 0
    max_steps: int = 8
    budget: float | None = None
    elsewhere: float = 0.0
    place: Mapping[int, int] = field(default_factory=dict)

    @property
    def task(self) -> str:
        """What is asked: the last message of the user."""
        return task_of(self.messages)

    @property
    def cost(self) -> float:
        """What the calls have cost so far, in the pool's currency."""
        return sum(call.cost for call in self.calls)

    @property
    def left(self) -> float:
        """What is left of the budget; infinite without one."""
        return float("inf") if self.budget is None else self.budget - self.elsewhere - self.cost

    @property
    def answer(self) -> str | None:
        """The last answer that an agent gave, None where none has."""
        return next((call.answer for call in reversed(self.calls) if not call.failed and call.answer is not None), None)

    def times(self) -> FloatArray:
        """How often each agent was called, float32[A]."""
        counts = np.zeros(len(self.ids), np.float32)
        for call in self.calls:
            at = self.place.get(call.agent)
            if at is not None:
                counts[at] += 1
        return counts

    def after(self, calls: Sequence[Call], heard: Sequence[Heard]) -> State:
        """The state one step later, the calls of that step done."""
        return replace(self, calls=self.calls + tuple(calls), heard=self.heard + tuple(heard), steps=self.steps + 1)

    def features(self) -> tuple[FloatArray, FloatArray]:
        """What the policy sees: (float32[A, len(OWN)] by agent, float32[WIDTH] shared)."""
        per_agent, shared = features([self])
        return per_agent[0], shared[0]


# Over 60 lines. A table of what a policy sees, one line each, in the order of OWN and SHARED.
def features(states: Sequence[State]) -> tuple[FloatArray, FloatArray]:
    """What the policy sees of B states of one policy: (float32[B, A, len(OWN)] by agent, float32[B, WIDTH] shared)."""
    count, agents = len(states), len(states[0].ids)
    log_odds = np.stack([state.log_odds for state in states])  # (B, A)
    one_shot = np.stack([state.one_shot for state in states])
    costs = np.stack([state.costs for state in states])
    times = np.zeros((count, agents, 3), np.float32)  # calls, failures, empty outputs
    says = np.zeros((count, agents), np.float32)
    strongest = np.full((count, agents), -LIMIT, np.float32)
    answered_last = np.zeros((count, agents), np.float32)
    encoded = np.zeros((count, 2 * ENCODING), np.float32)
    #: steps, most steps, cost, budget (nan without one), left of it, begun, last failed, last empty, length of the last output
    figures = np.zeros((count, 9), np.float64)
    for row, state in enumerate(states):
        for call, heard in zip(state.calls, state.heard, strict=True):
            at = state.place.get(call.agent)
            if at is not None:
                times[row, at, 0] += 1
                if call.failed:
                    times[row, at, 1] += 1
                elif not call.output.strip():
                    times[row, at, 2] += 1
            if not call.failed:
                np.maximum(strongest[row], heard.log_odds, out=strongest[row])
            encoded[row, ENCODING:] += heard.encoding
        budget = np.nan if state.budget is None else state.budget
        figures[row, :5] = (state.steps, state.max_steps, state.cost, budget, state.left)
        if state.calls:
            last, heard = state.calls[-1], state.heard[-1]
            says[row] = heard.log_odds
            encoded[row, :ENCODING] = heard.encoding
            encoded[row, ENCODING:] /= len(state.calls)
            figures[row, 5:] = (1, last.failed, not last.failed and not last.output.strip(), len(last.output))
            if last.agent in state.place:
                answered_last[row, state.place[last.agent]] = 1

    p = probabilities(log_odds, np.ones(log_odds.shape, np.bool_))
    begun = figures[:, 5] > 0
    limited = ~np.isnan(figures[:, 3])
    scale = np.maximum(costs.mean(axis=1), 1e-9)  # (B)
    called = times[..., 0] > 0
    pending = one_shot * ~called
    per_agent = np.empty((count, agents, len(OWN)), np.float32)
    per_agent[..., 0] = log_odds.clip(-LIMIT, LIMIT) / LIMIT
    per_agent[..., 1] = p
    per_agent[..., 2] = one_shot
    per_agent[..., 3] = pending
    per_agent[..., 4] = called
    per_agent[..., 5:8] = np.log1p(times)
    per_agent[..., 8] = says.clip(-LIMIT, LIMIT) / LIMIT
    per_agent[..., 9] = np.where(begun[:, None], strongest.clip(-LIMIT, LIMIT) / LIMIT, 0)
    per_agent[..., 10] = np.log1p(costs / scale[:, None])
    budgets = np.where(limited, np.maximum(figures[:, 4], 1e-9), 1.0)
    per_agent[..., 11] = np.where(limited[:, None], np.minimum(costs / budgets[:, None], 1.0), 0)
    per_agent[..., 12] = answered_last

    uncalled = np.where(called, 0, p)
    shared = np.empty((count, WIDTH), np.float32)
    shared[:, 0] = figures[:, 0] / np.maximum(figures[:, 1], 1)
    shared[:, 1] = np.log1p(np.maximum(figures[:, 1] - figures[:, 0], 0))
    shared[:, 2] = np.log1p(figures[:, 2] / scale)
    # A budget of nothing has nothing left.
    whole = np.where(limited, np.maximum(figures[:, 3], 1e-9), 1.0)
    shared[:, 3] = np.where(limited, np.maximum(np.where(limited, figures[:, 4], 1.0), 0) / whole, 1.0)
    shared[:, 4] = begun
    shared[:, 5] = np.log1p(called.sum(axis=1))
    shared[:, 6] = np.log1p(uncalled.sum(axis=1))
    shared[:, 7] = uncalled.max(axis=1)
    shared[:, 8] = np.log1p(pending.sum(axis=1))
    shared[:, 9] = figures[:, 6]
    shared[:, 10] = figures[:, 7]
    shared[:, 11] = np.log1p(figures[:, 8]) / 10
    shared[:, len(SHARED) :] = encoded
    return per_agent, shared


def task_of(messages: Sequence[Mapping[str, str]]) -> str:
    """What a conversation asks: the last message of the user, else the last message, "" where there is none."""
    for message in reversed(messages):
        if message.get("role") == "user":
            return str(message.get("content", ""))
    return str(messages[-1].get("content", "")) if messages else ""


def as_messages(task: Task) -> tuple[Mapping[str, str], ...]:
    """A task as a conversation: a text is one message of the user."""
    return ({"role": "user", "content": task},) if isinstance(task, str) else tuple(task)
