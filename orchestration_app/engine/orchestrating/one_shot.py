"""What decides where no orchestrator was trained: the set router's set, each agent once, cheapest first, and stop. numpy only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

import numpy as np

from orchestration_app.engine.orchestrating.policy import Distribution
from orchestration_app.engine.orchestrating.reading import silence
from orchestration_app.engine.orchestrating.state import UNLIMITED, Allowance, Call, State, Task, as_messages, task_of
from training_app.engine.data.examples import Agent
from training_app.engine.routing.routes import Route

NAME = "one_shot"


class Routes(Protocol):
    """A set router."""

    @property
    def agents(self) -> Sequence[Agent]:
        """The agents that it knows."""

    def route(self, text: str) -> Route:
        """The set that a text needs."""


class OneShot:
    """A `Policy` that learnt nothing of outputs: it calls the set of the task, one agent a step, whatever they answer. An agent that
    may not be called is left out."""

    def __init__(self, router: Routes, explore: float = 0.0, seed: int = 0, among: Collection[int] = ()) -> None:
        """With `explore`, a share of the tasks have one of the agents `among` (ids) in the set or out of it at random, but for the
        last one of the set; `chance` is then how likely the set was. The same seed gives the same set: one object is for one
        episode."""
        self.router = router
        self.explore, self.seed, self.among, self.chance = explore, seed, sorted(among), 1.0
        self.ids = tuple(agent.id for agent in router.agents)
        self.max_steps = len(self.ids)
        self._place = {identifier: at for at, identifier in enumerate(self.ids)}

    def begin(self, task: Task, allowance: Allowance = UNLIMITED) -> State:
        """The first state of an episode."""
        costs = allowance.costs or {}
        messages = as_messages(task)
        chosen = self._explored(frozenset(self.router.route(task_of(messages)).agents))
        estimates = [costs.get(agent.id, agent.cost) for agent in self.router.agents]
        return State(
            messages, self.ids, np.zeros(len(self.ids), np.float32),
            np.array([identifier in chosen for identifier in self.ids], np.float32), np.array(estimates, np.float32),
            max_steps=allowance.max_steps or self.max_steps, budget=allowance.budget, place=self._place,
        )  # fmt: skip

    def _explored(self, chosen: frozenset[int]) -> frozenset[int]:
        turnable = [agent for agent in self.among if agent in self._place and chosen != {agent}]
        if not self.explore or not turnable or not chosen:
            return chosen
        rng = np.random.Generator(np.random.PCG64(self.seed))
        if rng.random() >= self.explore:
            self.chance = 1 - self.explore
            return chosen
        self.chance = self.explore / len(turnable)
        return chosen ^ {turnable[int(rng.integers(len(turnable)))]}

    def after(self, state: State, calls: Sequence[Call]) -> State:
        """The state once these calls are done."""
        return state.after(calls, [silence(len(self.ids))] * len(calls))

    def _set(self, state: State) -> list[int]:
        """The places of the agents of the set that were not called yet."""
        called = {call.agent for call in state.calls}
        return [at for at, identifier in enumerate(self.ids) if state.one_shot[at] and identifier not in called]

    def beside(self, state: State, agent: int, available: Collection[int], after: Collection[int]) -> tuple[int, ...]:
        """Who is called at the same time as `agent`, itself included: all of the set that do not need what others say (`after` do),
        the cheapest first. Those that need it follow one by one, once nobody else is left."""
        uncalled = [at for at in self._set(state) if self.ids[at] in available]
        free = [at for at in uncalled if self.ids[at] not in after]
        order = sorted(free, key=lambda at: (float(state.costs[at]), at))
        if not order:
            return (agent,)
        return tuple(self.ids[at] for at in order[: max(state.max_steps - len(state.calls), 1)])

    def distribution(self, state: State, available: Collection[int] | None = None) -> Distribution:
        """All for the cheapest agent of the set that was not called yet, or for STOP."""
        set_ = self._set(state)
        open_ = [at for at, identifier in enumerate(self.ids) if available is None or identifier in available]
        probabilities = np.zeros(len(self.ids) + 1, np.float32)
        if len(state.calls) >= state.max_steps:
            open_ = []
        elif not set_:
            # It stops of its own accord, which is something else than that nobody may be called.
            probabilities[open_] = 1e-9
        by_cost = [(float(state.costs[at]), at) for at in set_ if at in open_]
        probabilities[min(by_cost)[1] if by_cost else -1] = 1.0
        return Distribution(self.ids, probabilities, np.log(np.maximum(probabilities, 1e-9)))
