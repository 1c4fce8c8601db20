"""Simulated pools: agents that answer by a small table of chances, without a key and without a network. numpy only.

A pool is a partially observed decision process. Each task has a hidden state h (what it is about, how hard it is, whether an
answer is on the table and right). Calling agent a moves h and says something: `dynamics[a, h, o, h']` = P(o, h' | h, a). What is
said is one of a few observations, each in several wordings. An orchestrator sees the wordings only.

All chance comes from hashes of the task and of the number of the call, so `respond` is a pure function of task, calls and agent:
the same task goes the same way in training, in a test, in another process, and whenever a call is made again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestration_app.engine.orchestrating.state import Call
from training_app.engine.data.examples import Agent

Floats = NDArray[np.float64]
#: A hidden state's name: anything that a dictionary may have as a key.
Hidden = Any
#: What may come of a call in a hidden state: (probability, observation's name, next hidden state) each.
Moves = Sequence[tuple[float, str, Hidden]]
_TICKET = re.compile(r"\s*\(ticket \d+\)\s*$")


@dataclass(frozen=True, slots=True)
class Saying:
    """One thing that an agent may say: its wordings, whether it answers the task, whether it is a failure (then it says nothing)."""

    wordings: tuple[str, ...] = ("",)
    answers: bool = False
    failed: bool = False


@dataclass(frozen=True, slots=True)
class TaskKind:
    """Tasks that read alike: the share of all tasks, texts, and how likely each hidden state is, float64[H]."""

    share: float
    wordings: tuple[str, ...]
    prior: Floats


@dataclass(frozen=True)
class SimulatedPool:
    """A pool whose agents are simulated. `states` names the hidden states (H); `sayings` the observations (O) by name; `dynamics`
    float64[A, H, O, H]; `right` bool[H], whether an episode that ends there was a success. `latency` in seconds and `tokens` of a
    call are the same for all."""

    name: str
    agents: tuple[Agent, ...]
    states: tuple[Hidden, ...]
    kinds: tuple[TaskKind, ...]
    sayings: dict[str, Saying]
    dynamics: Floats
    right: NDArray[np.bool_]
    max_steps: int
    latency: float = 0.2
    tokens: int = 120
    needs: dict[Hidden, frozenset[int]] = field(default_factory=dict)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The observations' names, in the order of O."""
        return tuple(self.sayings)

    @cached_property
    def costs(self) -> Floats:
        """What a call of each agent costs, float64[A]."""
        return np.array([agent.cost for agent in self.agents])

    @cached_property
    def _kind_of(self) -> dict[str, int]:
        return {wording: k for k, kind in enumerate(self.kinds) for wording in kind.wordings}

    @cached_property
    def _place(self) -> dict[int, int]:
        return {agent.id: a for a, agent in enumerate(self.agents)}

    @cached_property
    def _outcomes(self) -> Floats:
        """The cumulative probabilities of (o, h') pairs, float64[A, H, O * H]."""
        flat = self.dynamics.reshape(len(self.agents), len(self.states), -1)
        return np.cumsum(flat, axis=2)

    def kind(self, task: str) -> int:
        """Which kind a task is of; a text that is none of the pool's wordings is taken for the last kind."""
        return self._kind_of.get(_TICKET.sub("", task), len(self.kinds) - 1)

    def hidden(self, task: str) -> int:
        """The hidden state in which a task begins."""
        return _place_of(np.cumsum(self.kinds[self.kind(task)].prior), _chance(task, "hidden"))

    def required(self, task: str) -> frozenset[int]:
        """The ids of the agents that a person who knows all would say the task needs."""
        return self.needs.get(self.states[self.hidden(task)], frozenset())

    def step(self, task: str, h: int, number: int, agent: int) -> tuple[int, int]:
        """What call `number` (from 0) of the agent at place `agent` does in state h: (observation, next state)."""
        at = _place_of(self._outcomes[agent, h], _chance(task, f"{number}:{agent}"))
        return divmod(at, len(self.states))

    def call_of(self, task: str, number: int, agent: int, observation: int) -> Call:
        """That call as an orchestrator hears of it."""
        saying = self.sayings[self.names[observation]]
        agent_ = self.agents[agent]
        if saying.failed:
            return Call(agent_.id, "", True, agent_.cost, 0, self.latency)
        wordings = saying.wordings
        text = wordings[min(int(_chance(task, f"{number}:wording") * len(wordings)), len(wordings) - 1)]
        return Call(agent_.id, text, False, agent_.cost, self.tokens, self.latency, text if saying.answers else None)

    def replay(self, task: str, called: Sequence[int]) -> int:
        """The hidden state after calls of these agents (ids); one that the pool does not know changes nothing."""
        h = self.hidden(task)
        for number, identifier in enumerate(called):
            if identifier in self._place:
                _, h = self.step(task, h, number, self._place[identifier])
        return h

    def respond(self, task: str, called: Sequence[int], agent: int) -> Call:
        """What the agent (id) answers after calls of `called` (ids, in order). Pure. Raises KeyError for an unknown agent."""
        place = self._place[agent]
        observation, _ = self.step(task, self.replay(task, called), len(called), place)
        return self.call_of(task, len(called), place, observation)

    def succeeds(self, task: str, called: Sequence[int]) -> bool:
        """Whether an episode that ends after these calls was a success: what only the simulator knows."""
        return bool(self.right[self.replay(task, called)])

    def tasks(self, count: int, seed: int) -> list[str]:
        """Different tasks, drawn by the kinds' shares."""
        rng = np.random.Generator(np.random.PCG64(seed))
        shares = np.array([kind.share for kind in self.kinds])
        kinds = rng.choice(len(self.kinds), size=count, p=shares / shares.sum())
        tickets = rng.permutation(900_000)[:count] + 100_000
        wordings = [self.kinds[k].wordings for k in kinds.tolist()]
        texts = [wordings_of_kind[int(rng.integers(len(wordings_of_kind)))] for wordings_of_kind in wordings]
        return [f"{text} (ticket {ticket})" for text, ticket in zip(texts, tickets.tolist(), strict=True)]


@dataclass(frozen=True, slots=True)
class Rules:
    """How a simulated pool works, by its hidden states: `moves(agent id, state)` is what may come of a call, `right` whether an
    episode that ends in a state was a success, `needs` whom somebody who knows all would call in it."""

    states: Sequence[Hidden]
    moves: Callable[[int, Hidden], Moves]
    right: Callable[[Hidden], bool]
    needs: Callable[[Hidden], frozenset[int]]


def simulated_pool(
    name: str,
    agents: Sequence[Agent],
    kinds: Sequence[tuple[float, Sequence[str], Callable[[Hidden], float]]],
    sayings: dict[str, Saying],
    rules: Rules,
    max_steps: int,
) -> SimulatedPool:
    """A pool by its rules; `kinds` of tasks are (share, wordings, weight of a hidden state). Raises ValueError where probabilities
    do not sum to one."""
    states = rules.states
    at = {state: h for h, state in enumerate(states)}
    observations = {name: o for o, name in enumerate(sayings)}
    dynamics = np.zeros((len(agents), len(states), len(sayings), len(states)))
    for a, agent in enumerate(agents):
        for state, h in at.items():
            for probability, observation, successor in rules.moves(agent.id, state):
                dynamics[a, h, observations[observation], at[successor]] += probability
    if not np.allclose(dynamics.sum(axis=(2, 3)), 1):
        raise ValueError(f"the moves of {name} do not sum to one")
    task_kinds = []
    for share, wordings, weight in kinds:
        prior = np.array([weight(state) for state in states], np.float64)
        task_kinds.append(TaskKind(share, tuple(wordings), prior / prior.sum()))
    return SimulatedPool(
        name,
        tuple(agents),
        tuple(states),
        tuple(task_kinds),
        sayings,
        dynamics,
        np.array([rules.right(state) for state in states], np.bool_),
        max_steps,
        needs={state: rules.needs(state) for state in states},
    )


def _chance(task: str, what: str) -> float:
    """A number from 0 to 1 that is always the same for the same task and purpose."""
    digest = hashlib.blake2b(f"{what}\0{task}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def _place_of(cumulative: Floats, chance: float) -> int:
    return int(min(np.searchsorted(cumulative, chance * cumulative[-1], side="right"), len(cumulative) - 1))
