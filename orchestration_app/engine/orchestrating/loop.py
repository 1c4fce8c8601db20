"""An episode as a loop that decides and hands each call back: it calls nobody itself, knows no network and no clock.

    turns = episode(orchestrator, "My invoice is wrong", Limits(max_steps=6, budget=2.0))
    turn = next(turns)
    while True:
        outcomes = {request.number: call(request) for request in turn.requests}
        try:
            turn = turns.send(outcomes)
        except StopIteration as end:
            ended = end.value
            break

`drive` is that loop. `questioned` is the same generator for who runs many episodes at once: it also hands out what it asks its policy,
so that the questions of all of them are one product of matrices (`Orchestrator.distributions`). What the loop promises:

- The budget is never exceeded: a call is handed out only if its worst case, and those of the calls beside it, fit in what is left. A
  failure that does not say what it cost is taken at its worst case.
- STOP ends a path, and nothing of that path comes after it. An episode ends when all its paths have, and is paid for once.
- A decision depends on state, seed, path and step alone, so an episode resumes from its stored turns: those decisions stand, calls
  that have an outcome are not handed out again, and those that have none keep their numbers.

Several paths answer by a majority over normalised answers; `aggregator` is an agent that is shown all outputs and makes one answer.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypedDict, Unpack

import numpy as np

from orchestration_app.engine.orchestrating.policy import Distribution
from orchestration_app.engine.orchestrating.state import UNLIMITED, Allowance, Call, State, Task, as_messages
from orchestration_app.engine.orchestrating.turns import (
    Decision,
    Ended,
    Failure,
    Limits,
    Outcome,
    Request,
    StopReason,
    StoredTurn,
    Turn,
)
from orchestration_app.engine.orchestrating.voting import majority


class Policy(Protocol):
    """What decides: an `Orchestrator`, or a baseline."""

    @property
    def ids(self) -> tuple[int, ...]:
        """The ids of its agents."""

    def begin(self, task: Task, allowance: Allowance = UNLIMITED) -> State:
        """The first state of an episode."""

    def after(self, state: State, calls: Sequence[Call]) -> State:
        """The state once these calls are done."""

    def distribution(self, state: State, available: Collection[int] | None = None) -> Distribution:
        """What it would do in that state."""


#: The most that a call of an agent (id) may cost in a state, in the pool's currency.
Worst = Callable[[int, State], float]
Turns = Generator[Turn, Mapping[int, Outcome], Ended]


@dataclass(frozen=True, slots=True)
class Question:
    """What an episode asks its policy: the distribution in a state, `available` being the agents (ids) that may be called."""

    state: State
    available: Collection[int] | None


Questions = Generator[Question, Distribution, Decision]


class Terms(TypedDict, total=False):
    """What else an episode is told: `costs` estimate calls by agent id, `worst` bounds them; `seed` is for drawing; `stored` are the
    turns of an earlier run of this episode."""

    costs: Mapping[int, float] | None
    worst: Worst
    seed: int | None
    stored: Sequence[StoredTurn]


def estimated(agent: int, state: State) -> float:
    """A `Worst` for agents whose cost is fixed: the estimate."""
    at = state.place.get(agent)
    return 0.0 if at is None else float(state.costs[at])


def next_step(
    policy: Policy,
    task: Task,
    calls: Sequence[Call] = (),
    limits: Limits | None = None,
    *,
    costs: Mapping[int, float] | None = None,
    worst: Worst = estimated,
    seed: int | None = None,
) -> Decision:
    """The next decision of an episode whose calls the application makes itself; each call so far was a step. Greedy, or drawn by
    `seed`."""
    limits = limits or Limits()
    state = policy.begin(task, Allowance(limits.max_steps, limits.budget, costs))
    for call in calls:
        state = policy.after(state, [call])
    questions = _decided(policy, state, limits, _Purse(state.left), worst, 0, _generator(seed, 0, state.steps))
    try:
        question = next(questions)
        while True:
            question = questions.send(policy.distribution(question.state, question.available))
    except StopIteration as end:
        decision: Decision = end.value
        return decision


def episode(
    policy: Policy,
    task: Task,
    limits: Limits | None = None,
    **terms: Unpack[Terms],
) -> Turns:
    """The turns of an episode. Send it the outcomes of each turn's requests, by their numbers; its value is how it ended. A turn
    in which every path stops has no requests: send it none.

    The first path is greedy where there is no `seed`; every other path, and the first one with a seed, draws. Raises KeyError where
    an outcome is missing.
    """
    course = questioned(policy, task, limits, **terms)
    try:
        question = next(course)
        while True:
            if isinstance(question, Question):
                question = course.send(policy.distribution(question.state, question.available))
            else:
                question = course.send((yield question))
    except StopIteration as end:
        ended: Ended = end.value
        return ended


def questioned(
    policy: Policy,
    task: Task,
    limits: Limits | None = None,
    *,
    costs: Mapping[int, float] | None = None,
    worst: Worst = estimated,
    seed: int | None = None,
    stored: Sequence[StoredTurn] = (),
) -> Generator[Turn | Question, Any, Ended]:
    """`episode`, and what it asks its policy: send each Question its Distribution."""
    limits = limits or Limits()
    first = policy.begin(as_messages(task), Allowance(limits.max_steps, limits.budget, costs))
    purse = _Purse(float("inf") if limits.budget is None else limits.budget)
    paths = [_Path(number, first) for number in range(limits.paths)]
    spent = _Spent()
    aside = None  # what the aggregator may cost; one that the budget does not hold leaves the answer to the majority
    if limits.aggregator is not None:
        aside = purse.take(worst(limits.aggregator, first))
    number = calls = 0
    turns = list(stored)
    while live := [path for path in paths if path.reason is None]:
        outcomes: dict[int, Outcome] = {}
        if turns:
            earlier = turns.pop(0)
            turn, outcomes = _again(earlier.turn, paths, purse), dict(earlier.outcomes)
            missing = tuple(request for request in turn.requests if request.number not in outcomes)
            if missing:
                outcomes |= yield replace(turn, requests=missing)
        else:
            turn = yield from _turn(policy, live, limits, purse, worst, seed, number, calls)
            outcomes |= yield turn
        by_path: dict[int, list[Call]] = {path.number: [] for path in live}
        for request in turn.requests:
            call = _settled(request, outcomes[request.number], purse)
            by_path[request.path].append(call)
        spent.turn([call for calls in by_path.values() for call in calls])
        calls += len(turn.requests)
        number += 1
        _advance(policy, paths, turn, by_path)
    if aside is not None and limits.aggregator is not None:
        return (yield from _aggregated(limits.aggregator, paths, purse, aside, spent, number, calls, turns))
    answers = [path.state.answer for path in paths]
    return spent.ended(paths, majority(answers))


def drive(turns: Turns, call: Callable[[Request], Outcome]) -> Ended:
    """Run an episode to its end with a function that makes one call."""
    try:
        turn = next(turns)
        while True:
            turn = turns.send({request.number: call(request) for request in turn.requests})
    except StopIteration as end:
        ended: Ended = end.value
        return ended


def _decided(
    policy: Policy,
    state: State,
    limits: Limits,
    purse: _Purse,
    worst: Worst,
    path: int,
    rng: np.random.Generator | None,
) -> Questions:
    """One decision in one state. Sets aside the worst cases of what it chooses."""
    open_ = [i for i in policy.ids if limits.available is None or i in limits.available]
    # Without a budget every worst case fits.
    bound = {} if purse.unlimited else {i: worst(i, state) for i in open_}
    affordable = frozenset(i for i in open_ if i not in bound or purse.fits(bound[i]))
    distribution = yield Question(state, affordable)
    p = distribution.probabilities
    candidates: tuple[int | None, ...] = (*distribution.agents, None)
    shown = (path, state.steps, candidates, tuple(round(float(value), 6) for value in p))
    may = [a for a in range(len(distribution.agents)) if p[a] > 0]
    if not may:
        return Decision(*shown, (), 1.0, (yield from _why_none(state, limits, open_, affordable)))
    at = int(p.argmax()) if rng is None else int(min(np.searchsorted(np.cumsum(p), rng.random() * p.sum()), len(p) - 1))
    # A policy that draws its set at the start says how likely that was; what follows from it is certain.
    chance = float(getattr(policy, "chance", 1.0)) if not state.steps else 1.0
    if at == len(distribution.agents):
        return Decision(*shown, (), chance if rng is None else float(p[at]), "stop")
    beside = getattr(policy, "beside", None)
    if beside is not None and limits.paths == 1:
        # A policy whose agents do not need each other's output: all of them at once, as far as the budget holds them.
        together = beside(state, distribution.agents[at], affordable, limits.after)
        called = [agent for agent in together if purse.take(bound.get(agent, 0.0)) is not None]
        return Decision(*shown, tuple(called), chance)
    chosen, propensity = [at], float(p[at])
    above = [a for a in may if p[a] > 2 / (len(may) + 1)]
    if limits.together > 1 and at in above:
        # Whichever of them is drawn, all are called, the likeliest first, as far as the budget holds them.
        chosen = sorted(above, key=lambda a: (-p[a], a))[: limits.together]
        chosen = chosen if at in chosen else [at]
        propensity = float(sum(p[a] for a in chosen))
    called = []
    for a in chosen:
        if purse.take(bound.get(distribution.agents[a], 0.0)) is not None:
            called.append(distribution.agents[a])
    return Decision(*shown, tuple(called), 1.0 if rng is None else propensity)


def _why_none(
    state: State, limits: Limits, open_: Sequence[int], affordable: Collection[int]
) -> Generator[Question, Distribution, StopReason]:
    """Why no agent may be called."""
    if state.steps >= state.max_steps:
        return "max_steps"
    # Would the policy have had somebody to call, were there money?
    distribution = yield Question(state, limits.available)
    could = distribution.probabilities[:-1]
    return "budget" if len(affordable) < len(open_) and bool((could > 0).any()) else "no_agents"


class _Purse:
    """What is left of the budget, calls under way set aside at their worst."""

    def __init__(self, left: float) -> None:
        self.left = left
        self.unlimited = left == float("inf")

    def fits(self, cost: float) -> bool:
        return cost <= self.left + 1e-12

    def take(self, cost: float) -> float | None:
        """Set aside; None where it does not fit."""
        if not self.fits(cost):
            return None
        self.left -= cost
        return cost

    def give_back(self, cost: float) -> None:
        self.left += cost


@dataclass(slots=True)
class _Path:
    number: int
    state: State
    reason: StopReason | None = None


@dataclass(slots=True)
class _Spent:
    calls: int = 0
    cost: float = 0.0
    tokens: int = 0
    latency: float = 0.0

    def turn(self, calls: Sequence[Call]) -> None:
        self.calls += len(calls)
        self.cost += sum(call.cost for call in calls)
        self.tokens += sum(call.tokens for call in calls)
        self.latency += max((call.latency for call in calls), default=0.0)

    def ended(self, paths: Sequence[_Path], answer: str | None) -> Ended:
        answers = tuple(path.state.answer for path in paths)
        reasons = tuple(path.reason or "stop" for path in paths)
        # The reason of the path whose answer it is, else of the first.
        winner = next((i for i, candidate in enumerate(answers) if candidate is not None and candidate == answer), 0)
        return Ended(
            answer,
            max(path.state.steps for path in paths),
            self.calls,
            self.cost,
            self.tokens,
            self.latency,
            reasons[winner],
            answers,
            reasons,
        )


def _generator(seed: int | None, path: int, step: int) -> np.random.Generator | None:
    return None if seed is None else np.random.Generator(np.random.PCG64([seed, path, step]))


def _turn(
    policy: Policy,
    live: Sequence[_Path],
    limits: Limits,
    purse: _Purse,
    worst: Worst,
    seed: int | None,
    number: int,
    calls: int,
) -> Generator[Question, Distribution, Turn]:
    decisions: list[Decision] = []
    requests: list[Request] = []
    for path in live:
        drawn = seed if seed is not None else (0 if path.number else None)
        if path.state.budget is not None and limits.paths > 1:
            elsewhere = path.state.budget - purse.left - path.state.cost
            path.state = replace(path.state, elsewhere=max(elsewhere, 0.0))
        rng = _generator(drawn, path.number, path.state.steps)
        decision = yield from _decided(policy, path.state, limits, purse, worst, path.number, rng)
        decisions.append(decision)
        for agent in decision.chosen:
            bound = worst(agent, path.state)
            calls_so_far = path.state.calls
            requests.append(Request(calls + len(requests), path.number, path.state.steps, agent, bound, calls_so_far))
    return Turn(number, tuple(decisions), tuple(requests))


def _again(turn: Turn, paths: Sequence[_Path], purse: _Purse) -> Turn:
    """A stored turn as it was handed out: worst cases set aside, each request with the calls of its path, which are not stored
    twice."""
    for request in turn.requests:
        purse.take(request.worst)
    return replace(turn, requests=tuple(replace(r, calls=paths[r.path].state.calls) for r in turn.requests))


def _settled(request: Request, outcome: Outcome, purse: _Purse) -> Call:
    """The call of a request, its cost taken from the budget in place of its worst case."""
    cost = request.worst if outcome.cost is None else max(outcome.cost, 0.0)
    purse.give_back(request.worst - cost)
    if isinstance(outcome, Failure):
        return Call(request.agent, "", True, cost, outcome.tokens, outcome.latency)
    answer = outcome.metadata.get("answer", outcome.content)
    answer = answer if isinstance(answer, str) and answer.strip() else None
    return Call(request.agent, outcome.content, False, cost, outcome.tokens, outcome.latency, answer)


def _advance(policy: Policy, paths: Sequence[_Path], turn: Turn, calls_by_path: Mapping[int, Sequence[Call]]) -> None:
    """Every path that decided is one step on, or at its end."""
    for decision in turn.decisions:
        path = paths[decision.path]
        if decision.reason is not None or not decision.chosen:
            path.reason = decision.reason or "stop"
        else:
            path.state = policy.after(path.state, calls_by_path[path.number])


def _aggregated(
    agent: int,
    paths: Sequence[_Path],
    purse: _Purse,
    aside: float,
    spent: _Spent,
    number: int,
    calls: int,
    stored: Sequence[StoredTurn],
) -> Turns:
    """The last turn: one agent makes one answer of all, where there are several; where it fails, the majority has it."""
    answers = [path.state.answer for path in paths]
    if sum(call.answer is not None for path in paths for call in path.state.calls) < 2:
        return spent.ended(paths, majority(answers))
    everything = tuple(call for path in paths for call in path.state.calls)
    step = max(path.state.steps for path in paths)
    request = Request(calls, 0, step, agent, aside, everything, "aggregate")
    outcomes = dict(stored[0].outcomes) if stored else {}
    if request.number not in outcomes:
        outcomes |= yield Turn(number, (), (request,))
    call = _settled(request, outcomes[request.number], purse)
    spent.turn([call])
    return spent.ended(paths, call.answer if call.answer is not None else majority(answers))
