"""What an orchestrator is measured against, each a way to choose in the same environment: see `environment.Chooser`. numpy only.

`random` calls anybody; `fixed_order` always walks the same path; `one_shot` calls the set router's set once each, cheapest first,
whatever they answer; `greedy_step` calls whoever raises the expected reward of stopping right after most, and knows nothing of
later; `llm` asks a language model at every step. `optimum` knows the simulator, and is the bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestration_app.engine.orchestrating import language_model
from orchestration_app.engine.orchestrating.environment import Chooser, Environment, Walk, at_random, walk
from orchestration_app.engine.orchestrating.language_model import Completes
from orchestration_app.engine.orchestrating.optimum import Optimum, best_fixed_path, best_sets
from orchestration_app.engine.orchestrating.simulated import Floats, SimulatedPool
from orchestration_app.engine.orchestrating.state import State
from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.examples import Agent

LEARNT_FROM = 1_500  # random episodes that `greedy_step` learns from
RIDGE = 3.0  # the strength of its regression

#: Where an agent may be called in vain, a way to choose goes on in its plan.
Plan = Callable[[State], Sequence[int]]


def one_by_one(choose: Callable[[State, BoolArray], int]) -> Chooser:
    """A chooser from one that looks at one state and what is allowed in it bool[A + 1], and gives an action."""

    def chooser(
        states: Sequence[State], per_agent: FloatArray, shared: FloatArray, last: NDArray[np.int64], allowed: BoolArray
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        actions = np.array([choose(state, may) for state, may in zip(states, allowed, strict=True)], np.int64)
        return actions, np.ones(len(actions))

    return chooser


def planned(plan: Plan) -> Chooser:
    """Walk a plan (agents' places) whatever the answers; what is not allowed is left out."""

    def choose(state: State, allowed: BoolArray) -> int:
        path = plan(state)
        for a in path[len(state.calls) :]:
            if allowed[a]:
                return int(a)
        return len(allowed) - 1

    return one_by_one(choose)


def fixed_order(path: Sequence[int]) -> Chooser:
    """Always the same path."""
    return planned(lambda state: path)


def one_shot() -> Chooser:
    """The set router's set, each once, cheapest first."""

    def plan(state: State) -> list[int]:
        chosen = np.flatnonzero(state.one_shot)
        return [int(a) for a in chosen[np.argsort(state.costs[chosen], kind="stable")]]

    return planned(plan)


def best_order(environment: Environment, seed: int, longest: int = 6) -> tuple[int, ...]:
    """The fixed path that is worth most on an environment's tasks, built greedily: the agent that raises the mean reward most
    comes next. In a simulated pool use `optimum.best_fixed_path`, which is exact."""
    agents = len(environment.orchestrator.ids)
    sample = np.random.Generator(np.random.PCG64(seed)).permutation(len(environment))[:200].tolist()

    def worth(path: Sequence[int]) -> float:
        walks = walk(environment, fixed_order(path), sample, keep=False)
        return float(np.mean([environment.reward.total(sum(w.costs), w.score) for w in walks]))

    path: tuple[int, ...] = ()
    best = worth(path)
    while len(path) < longest:
        highest, place = max((worth((*path, a)), -a) for a in range(agents))
        if highest <= best + 1e-9:
            return path
        path, best = (*path, -place), highest
    return path


def greedy_step(environment: Environment, seed: int) -> Chooser:
    """One-step greedy on expected reward. What stopping in a state is worth is learnt from random episodes of the environment, by
    ridge regression of the end's score on the state's features, for each agent that could be called next."""
    rng = np.random.Generator(np.random.PCG64(seed))
    drawn = rng.integers(len(environment), size=LEARNT_FROM).tolist()
    walks: list[Walk] = walk(environment, at_random(rng, stop=0.4), drawn)
    agents = len(environment.orchestrator.ids)
    rows: list[list[FloatArray]] = [[] for _ in range(agents + 1)]
    scores: list[list[float]] = [[] for _ in range(agents + 1)]
    for walked in walks:
        # The last agent called, and STOP, ended the episode: both are paid by its score.
        for step in range(max(len(walked.actions) - 2, 0), len(walked.actions)):
            rows[walked.actions[step]].append(_flat(walked.per_agent[step], walked.shared[step]))
            scores[walked.actions[step]].append(walked.score)
    weights = [_ridge(np.array(x), np.array(y)) if x else None for x, y in zip(rows, scores, strict=True)]

    def choose(state: State, allowed: BoolArray) -> int:
        x = _flat(*state.features())
        worth = np.full(agents + 1, -np.inf)
        for a in np.flatnonzero(allowed).tolist():
            weight = weights[a]
            score = 0.0 if weight is None else float(np.clip(x @ weight, 0, 1))
            cost = 0.0 if a == agents else float(state.costs[a])
            worth[a] = environment.reward.total(cost, score)
        return int(worth.argmax())

    return one_by_one(choose)


def _flat(per_agent: FloatArray, shared: FloatArray) -> FloatArray:
    return np.concatenate([per_agent.ravel(), shared, [1.0]]).astype(np.float32)


def _ridge(x: FloatArray, y: Floats) -> Floats:
    gram = x.T.astype(np.float64) @ x.astype(np.float64) + RIDGE * np.eye(x.shape[1])
    solved: Floats = np.asarray(np.linalg.solve(gram, x.T @ y), np.float64)
    return solved


def best_set(pool: SimulatedPool, environment: Environment) -> Chooser:
    """In a simulated pool: the set that is best for the task's kind, run once each, cheapest first. No set router could beat it."""
    sets = best_sets(pool, environment.reward)
    return planned(lambda state: sets[pool.kind(state.task)])


def optimal(optimum: Optimum) -> Chooser:
    """The optimum of a simulated pool: it believes what the outputs say, and knows the chances."""
    pool = optimum.pool
    heard = {text: o for o, name in enumerate(pool.names) for text in pool.sayings[name].wordings}
    failed = next((o for o, name in enumerate(pool.names) if pool.sayings[name].failed), -1)
    place = {agent.id: a for a, agent in enumerate(pool.agents)}

    def choose(state: State, allowed: BoolArray) -> int:
        belief: Floats = pool.kinds[pool.kind(state.task)].prior
        for call in state.calls:
            observation = failed if call.failed else heard[call.output]
            joint: Floats = belief @ pool.dynamics[place[call.agent], :, observation, :]
            belief = np.asarray(joint / joint.sum(), np.float64)
        action = optimum.action(belief, state.steps)
        return action if action >= 0 else len(allowed) - 1

    return one_by_one(choose)


def llm(client: Completes, agents: Sequence[Agent]) -> Chooser:
    """A language model that orchestrates: it is told the agents, the task and what was said so far, and names the next agent or
    STOP. What it says is not believed unchecked: an answer that names nobody who may be called stops the episode."""
    ids = tuple(agent.id for agent in agents)

    def choose(state: State, allowed: BoolArray) -> int:
        at = language_model.named(client.complete(language_model.messages(agents, state)).text, ids, allowed)
        return len(ids) if at is None else at

    return one_by_one(choose)


def of_pool(pool: SimulatedPool, environment: Environment, seed: int = 0) -> dict[str, Chooser]:
    """Every baseline of a simulated pool: the strongest fixed path and one-shot set that there are, by the pool's own table."""
    return {
        "random": at_random(np.random.Generator(np.random.PCG64(seed))),
        "fixed_order": fixed_order(best_fixed_path(pool, environment.reward)[0]),
        "one_shot": best_set(pool, environment),
        "greedy_step": greedy_step(environment, seed),
    }


def of_world(environment: Environment, seed: int = 0) -> dict[str, Chooser]:
    """Every baseline of any other world, from its training tasks."""
    return {
        "random": at_random(np.random.Generator(np.random.PCG64(seed))),
        "fixed_order": fixed_order(best_order(environment, seed)),
        "one_shot": one_shot(),
        "greedy_step": greedy_step(environment, seed),
    }
