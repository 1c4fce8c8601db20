"""Where an orchestrator learns and is measured: tasks, agents that answer, and what an episode was worth. numpy only.

A world answers calls and judges episodes: simulated agents or recorded outputs. An `Environment` is a world with tasks and a reward;
`walk` runs many episodes of it side by side.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from orchestration_app.engine.orchestrating.policy import Network, Orchestrator, softmax
from orchestration_app.engine.orchestrating.rewards import Reward
from orchestration_app.engine.orchestrating.simulated import SimulatedPool
from orchestration_app.engine.orchestrating.state import Allowance, Call, State, features
from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.examples import Agent


class World(Protocol):
    """Agents that answer, and a judge."""

    @property
    def agents(self) -> tuple[Agent, ...]:
        """The agents, in the order of the policy's."""

    def call(self, task: str, calls: Sequence[Call], agent: int) -> Call:
        """What the agent (id) answers to a task after these calls."""

    def score(self, task: str, calls: Sequence[Call]) -> float:
        """How good an episode was that ended after these calls, 0 to 1."""


@dataclass(frozen=True, slots=True)
class SimulatedWorld:
    """The agents of a simulated pool."""

    pool: SimulatedPool

    @property
    def agents(self) -> tuple[Agent, ...]:
        return self.pool.agents

    def call(self, task: str, calls: Sequence[Call], agent: int) -> Call:
        return self.pool.respond(task, [call.agent for call in calls], agent)

    def score(self, task: str, calls: Sequence[Call]) -> float:
        return float(self.pool.succeeds(task, [call.agent for call in calls]))


@dataclass(frozen=True, slots=True)
class RecordedPath:
    """What happened with one task: `calls` in their order, the ids that it needed, how good it was (0 to 1), and whether the order of
    the calls matters."""

    task: str
    required: frozenset[int]
    calls: tuple[Call, ...]
    score: float = 1.0
    ordered: bool = False


@dataclass(frozen=True)
class RecordedWorld:
    """Recorded outputs, by task. An agent that was not called for a task answers what it said to another one, drawn by a hash, so
    that an output does not tell by being empty that its agent is not needed; one that was never recorded says a sentence of its
    own. A call costs what the recording says, else the agent's cost, else 1.

    An episode is as good as the F1 of the agents called against those required; with `covered`, 1 where all required agents were
    called.
    """

    agents: tuple[Agent, ...]
    paths: Mapping[str, RecordedPath]
    borrowed: Mapping[int, tuple[Call, ...]]
    covered: bool = False

    @classmethod
    def of(
        cls, agents: Sequence[Agent], paths: Sequence[RecordedPath], lenders: Sequence[RecordedPath] | None = None,
        covered: bool = False,
    ) -> RecordedWorld:  # fmt: skip
        """The world of `paths`; `lenders` (themselves, where None) lend the outputs of agents that a task did not need."""
        calls: dict[int, list[Call]] = {agent.id: [] for agent in agents}
        for path in paths if lenders is None else lenders:
            for call in path.calls:
                if not call.failed and call.agent in calls:
                    calls[call.agent].append(call)
        return cls(tuple(agents), {p.task: p for p in paths}, {i: tuple(c) for i, c in calls.items()}, covered)

    def call(self, task: str, calls: Sequence[Call], agent: int) -> Call:
        calls_of_agent = [call for call in self.paths[task].calls if call.agent == agent]
        before = sum(call.agent == agent for call in calls)
        if calls_of_agent:
            return calls_of_agent[min(before, len(calls_of_agent) - 1)]
        others = self.borrowed.get(agent, ())
        if not others:
            name = next(a.name for a in self.agents if a.id == agent)
            return Call(agent, f"{name}: done.", cost=1.0, answer=f"{name}: done.")
        at = int(np.random.Generator(np.random.PCG64([len(task), *task.encode()[:64], agent])).integers(len(others)))
        return others[at]

    def score(self, task: str, calls: Sequence[Call]) -> float:
        required = self.paths[task].required
        called = {call.agent for call in calls}
        return float(required <= called) if self.covered else f1(called, required)


def f1(called: Collection[int], required: frozenset[int]) -> float:
    """The F1 of the agents called against those required."""
    chosen = frozenset(called)
    return 2 * len(chosen & required) / (len(chosen) + len(required)) if chosen or required else 1.0


def read_paths(path: str | Path, agents: Sequence[Agent]) -> list[RecordedPath]:
    """The recorded paths of a JSONL file of labeled queries: rows may have `trajectory`, a list of {"agent", "output"} and, where
    known, "cost", "tokens", "latency", "failed". What a row says beyond that, such as what was missing after a step, is not read.
    A row without a trajectory has one call of each required agent, its output unknown. Raises ValueError with the line."""
    costs = {agent.id: agent.cost or 1.0 for agent in agents}
    paths = []
    with Path(path).open(encoding="utf-8") as stream:
        for number, line in enumerate(stream, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
                required = frozenset(int(i) for i in row["required_agents"])
                steps = row.get("trajectory") or [{"agent": i, "output": ""} for i in sorted(required)]
                calls = tuple(_recorded(step, costs) for step in steps)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"{Path(path).name}, line {number}: {type(error).__name__} {error}") from None
            paths.append(RecordedPath(str(row["text"]), required, calls))
    return paths


def _recorded(step: Mapping[str, Any], costs: Mapping[int, float]) -> Call:
    agent, output = int(step["agent"]), str(step.get("output", ""))
    failed = bool(step.get("failed", False))
    return Call(
        agent,
        "" if failed else output,
        failed,
        float(step.get("cost", costs.get(agent, 1.0))),
        int(step.get("tokens", 0)),
        float(step.get("latency", 0.0)),
        None if failed else output,
    )


# -------------------------------------------------------------------------------------------------------- the environment


@dataclass(frozen=True, slots=True)
class Tasks:
    """Texts (N) with what was read in them: log-odds float32[N, A] and the one-shot set float32[N, A]. Of rows that the scorer was
    fitted on, the log-odds are those of a scorer that was not."""

    texts: tuple[str, ...]
    log_odds: FloatArray
    one_shot: FloatArray

    def __len__(self) -> int:
        return len(self.texts)


def read_tasks(orchestrator: Orchestrator, texts: Sequence[str], log_odds: FloatArray | None = None) -> Tasks:
    """Tasks as the orchestrator reads them, or with given log-odds float32[N, A]."""
    reader = orchestrator.reader
    if log_odds is None and reader.router is not None and texts:
        log_odds = reader.router.reader.log_odds(texts)
    if log_odds is None:
        log_odds = np.zeros((len(texts), len(orchestrator.ids)), np.float32)
    return Tasks(tuple(texts), log_odds, reader.one_shot(log_odds))


@dataclass(frozen=True, slots=True)
class Environment:
    """Tasks in a world, seen by an orchestrator's reader, paid by a reward."""

    orchestrator: Orchestrator
    world: World
    tasks: Tasks
    reward: Reward
    budget: float | None = None

    def __len__(self) -> int:
        return len(self.tasks)

    def first(self, task: int) -> State:
        """The state in which the episode of a task begins."""
        blank = self.orchestrator.blank(self.tasks.texts[task], Allowance(budget=self.budget))
        return replace(blank, log_odds=self.tasks.log_odds[task], one_shot=self.tasks.one_shot[task])

    def allowed(self, state: State) -> BoolArray:
        """What may be done, bool[A + 1]; a call that the budget does not hold may not."""
        mask = self.orchestrator.allowed(state)
        mask[:-1] &= state.costs <= state.left + 1e-9
        return mask

    def act(self, state: State, action: int) -> State:
        """The state after calling the agent at a place."""
        call = self.world.call(state.task, state.calls, self.orchestrator.ids[action])
        return self.orchestrator.after(state, [call])

    def score(self, state: State) -> float:
        """How good the episode was that ends here, 0 to 1."""
        return self.world.score(state.task, state.calls)


@dataclass(slots=True)
class Walk:
    """One episode: for each of its T decisions what was seen (per_agent [A, F], shared [G], last), what was allowed, what was done (A
    for STOP), with which probability, and what its calls cost; and how good it was."""

    task: int
    per_agent: list[FloatArray] = field(default_factory=list)
    shared: list[FloatArray] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    allowed: list[BoolArray] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    propensities: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    calls: tuple[Call, ...] = ()
    score: float = 0.0

    @property
    def money(self) -> float:
        return sum(call.cost for call in self.calls)

    @property
    def seconds(self) -> float:
        return sum(call.latency for call in self.calls)


#: Chooses in B states at once: (states, per_agent [B, A, F], shared [B, G], last [B], allowed [B, A + 1]) to (actions [B],
#: probabilities [B]).
Chooser = Callable[
    [Sequence[State], FloatArray, FloatArray, NDArray[np.int64], BoolArray],
    tuple[NDArray[np.int64], NDArray[Any]],
]


def by_network(network: Network, rng: np.random.Generator | None) -> Chooser:
    """Choose as a policy does: draw, or without `rng` the likeliest."""

    def choose(
        states: Sequence[State], per_agent: FloatArray, shared: FloatArray, last: NDArray[np.int64], allowed: BoolArray
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        p = softmax(network.logits(per_agent, shared, last), allowed)  # (B, A + 1)
        if rng is None:
            return p.argmax(axis=1), np.ones(len(p))
        # The largest of p by exponential noise is a draw by p.
        actions = (p / rng.exponential(size=p.shape)).argmax(axis=1)
        return actions, p[np.arange(len(p)), actions]

    return choose


def walk(environment: Environment, choose: Chooser, tasks: Sequence[int], keep: bool = True) -> list[Walk]:
    """An episode of each task (its number in the environment), a decision of all at a time. Without `keep` what was seen is left
    out."""
    walks = [Walk(task) for task in tasks]
    states = [environment.first(task) for task in tasks]
    live = list(range(len(walks)))
    stop = len(environment.orchestrator.ids)
    while live:
        per_agent, shared = features([states[i] for i in live])
        last = np.array([environment.orchestrator.last(states[i]) for i in live])
        allowed = np.stack([environment.allowed(states[i]) for i in live])
        actions, p = choose([states[i] for i in live], per_agent, shared, last, allowed)
        still = []
        for row, i in enumerate(live):
            walked, action = walks[i], int(actions[row])
            if keep:
                walked.per_agent.append(per_agent[row])
                walked.shared.append(shared[row])
                walked.last.append(int(last[row]))
                walked.allowed.append(allowed[row])
            walked.actions.append(action)
            walked.propensities.append(float(p[row]))
            if action == stop:
                walked.costs.append(0.0)
                walked.calls, walked.score = states[i].calls, environment.score(states[i])
            else:
                states[i] = environment.act(states[i], action)
                walked.costs.append(environment.reward.cost(states[i].calls[-1:]))
                still.append(i)
        live = still
    return walks


def at_random(rng: np.random.Generator, stop: float = 0.15) -> Chooser:
    """Choose any allowed agent alike, and STOP with a probability of its own."""

    def choose(
        states: Sequence[State], per_agent: FloatArray, shared: FloatArray, last: NDArray[np.int64], allowed: BoolArray
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        p = allowed.astype(np.float64)
        agents = p[:, :-1].sum(axis=1, keepdims=True)
        p[:, :-1] *= (1 - stop) / np.maximum(agents, 1)
        p[:, -1] = np.where(agents[:, 0] > 0, stop, 1.0)
        actions = (p / rng.exponential(size=p.shape)).argmax(axis=1)
        return actions, p[np.arange(len(p)), actions]

    return choose


def explored(environment: Environment, episodes: int, seed: int) -> list[tuple[int, RecordedPath]]:
    """What random episodes found: of each task the best path that was worth more than doing nothing, up to the call after which it
    was worth most, (task's number, its path). For worlds that may be asked what an episode was worth at any time."""
    rng = np.random.Generator(np.random.PCG64(seed))
    best: dict[int, tuple[float, RecordedPath]] = {}
    drawn = rng.integers(len(environment), size=episodes).tolist()
    for walked in walk(environment, at_random(rng), drawn, keep=False):
        for end in range(1, len(walked.calls) + 1):
            calls = walked.calls[:end]
            score = environment.world.score(environment.tasks.texts[walked.task], calls)
            worth = environment.reward.total(sum(walked.costs[:end]), score)
            if worth > max(environment.reward.ends(0.0), best[walked.task][0] if walked.task in best else -np.inf):
                path = RecordedPath(environment.tasks.texts[walked.task], frozenset(), calls, score, ordered=True)
                best[walked.task] = (worth, path)
    return [(task, path) for task, (_, path) in sorted(best.items())]
