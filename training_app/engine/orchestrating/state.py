"""What an orchestrator sees: the task, what the agents called so far have said, and what is left to spend. numpy only.

A state holds what a running episode knows and nothing else: never which agents the task needs, never what is still missing. Two
states that differ only in an output differ in `features`, by what the scorer makes of the output, by whether it failed or is empty,
and by its encoding.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

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
        found = np.zeros(len(self.ids), np.float32)
        for call in self.calls:
            at = self.place.get(call.agent)
            if at is not None:
                found[at] += 1
        return found

    def after(self, calls: Sequence[Call], heard: Sequence[Heard]) -> State:
        """The state one step later, the calls of that step done."""
        return replace(self, calls=self.calls + tuple(calls), heard=self.heard + tuple(heard), steps=self.steps + 1)

    def features(self) -> tuple[FloatArray, FloatArray]:
        """What the policy sees: (float32[A, len(OWN)] by agent, float32[WIDTH] shared)."""
        agents = len(self.ids)
        p = probabilities(self.log_odds[None], np.ones((1, agents), np.bool_))[0]
        own = np.zeros((agents, len(OWN)), np.float32)
        times = np.zeros((agents, 3), np.float32)  # calls, failures, empty outputs
        most = np.full(agents, -LIMIT, np.float32)
        for call, heard in zip(self.calls, self.heard, strict=True):
            at = self.place.get(call.agent)
            if at is not None:
                times[at] += (1, call.failed, not call.failed and not call.output.strip())
            if not call.failed:
                np.maximum(most, heard.log_odds, out=most)
        called = times[:, 0] > 0
        scale = max(float(self.costs.mean()), 1e-9)
        own[:, 0] = self.log_odds.clip(-LIMIT, LIMIT) / LIMIT
        own[:, 1] = p
        own[:, 2] = self.one_shot
        own[:, 3] = self.one_shot * ~called
        own[:, 4] = called
        own[:, 5:8] = np.log1p(times)
        if self.calls:
            own[:, 8] = self.heard[-1].log_odds.clip(-LIMIT, LIMIT) / LIMIT
            own[:, 9] = most.clip(-LIMIT, LIMIT) / LIMIT
        own[:, 10] = np.log1p(self.costs / scale)
        own[:, 11] = 0.0 if self.budget is None else np.minimum(self.costs / max(self.left, 1e-9), 1.0)
        if self.calls and self.calls[-1].agent in self.place:
            own[self.place[self.calls[-1].agent], 12] = 1.0

        shared = np.zeros(WIDTH, np.float32)
        uncalled = np.where(called, 0, p)
        shared[0] = self.steps / max(self.max_steps, 1)
        shared[1] = np.log1p(max(self.max_steps - self.steps, 0))
        shared[2] = np.log1p(self.cost / scale)
        shared[3] = 1.0 if self.budget is None else max(self.left, 0.0) / max(self.budget, 1e-9)
        shared[4] = bool(self.calls)
        shared[5] = np.log1p(called.sum())
        shared[6] = np.log1p(uncalled.sum())
        shared[7] = uncalled.max(initial=0.0)
        shared[8] = np.log1p(own[:, 3].sum())
        if self.calls:
            last = self.calls[-1]
            shared[9] = last.failed
            shared[10] = not last.failed and not last.output.strip()
            shared[11] = np.log1p(len(last.output)) / 10
            shared[len(SHARED) : len(SHARED) + ENCODING] = self.heard[-1].encoding
            shared[len(SHARED) + ENCODING :] = np.mean([heard.encoding for heard in self.heard], axis=0)
        return own, shared


def task_of(messages: Sequence[Mapping[str, str]]) -> str:
    """What a conversation asks: the last message of the user, else the last message, "" where there is none."""
    for message in reversed(messages):
        if message.get("role") == "user":
            return str(message.get("content", ""))
    return str(messages[-1].get("content", "")) if messages else ""


def as_messages(task: str | Sequence[Mapping[str, str]]) -> tuple[Mapping[str, str], ...]:
    """A task as a conversation: a text is one message of the user."""
    return ({"role": "user", "content": task},) if isinstance(task, str) else tuple(task)
