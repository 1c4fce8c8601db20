"""The loop: what it hands out, what it never spends, and how it goes on from stored turns."""

import json
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestration_app.engine.orchestrating.loop import drive, episode, next_step
from orchestration_app.engine.orchestrating.policy import Distribution, Orchestrator, fresh_network
from orchestration_app.engine.orchestrating.reading import Reader
from orchestration_app.engine.orchestrating.state import UNLIMITED, Allowance, Call, State, Task
from orchestration_app.engine.orchestrating.turns import (
    Ended,
    Failure,
    Limits,
    Outcome,
    Request,
    Result,
    StoredTurn,
    Turn,
)
from training_app.engine.data.examples import Agent

pytestmark = pytest.mark.any_database
AGENTS = [Agent(7, "Echo", cost=1.0), Agent(3, "Search", cost=0.5), Agent(9, "Check", cost=0.1)]


class Scripted:
    """A policy with a fixed logit for each agent and STOP at every step."""

    def __init__(self, *logits: Sequence[float], repeats: int = 9) -> None:
        reader = Reader(len(AGENTS))
        network = fresh_network(len(AGENTS), 4, np.random.default_rng(0), one_shot=False)
        self.inner = Orchestrator(AGENTS, reader, network, repeats=repeats)
        self.ids = self.inner.ids
        self.rows = logits

    def begin(self, task: Task, allowance: Allowance = UNLIMITED) -> State:
        return self.inner.begin(task, allowance)

    def after(self, state: State, calls: Sequence[Call]) -> State:
        return self.inner.after(state, calls)

    def distribution(self, state: State, available: Collection[int] | None = None) -> Distribution:
        logits = np.array(self.rows[min(state.steps, len(self.rows) - 1)], np.float32)
        allowed = self.inner.allowed(state, available)
        powers = np.exp(logits) * allowed
        return Distribution(self.ids, powers / powers.sum(), logits)


ECHO_THEN_STOP = Scripted((5, 0, 0, 0), (0, 0, 0, 5))


def answers(request: Request) -> Outcome:
    return Result(f"agent {request.agent}, call {request.number}", cost=0.3, tokens=2, latency=0.5)


def test_the_terminator_really_ends_an_episode_and_nothing_runs_after_it() -> None:
    turns = episode(ECHO_THEN_STOP, "hello")
    first = next(turns)
    assert [request.agent for request in first.requests] == [7]
    last = turns.send({0: answers(first.requests[0])})
    assert last.requests == ()
    assert last.decisions[0].chosen == ()
    with pytest.raises(StopIteration) as end:
        turns.send({})
    assert end.value.value == Ended("agent 7, call 0", 1, 1, 0.3, 2, 0.5, "stop", ("agent 7, call 0",), ("stop",))


def test_steps_end_at_the_most_allowed() -> None:
    ended = drive(episode(Scripted((5, 0, 0, 0)), "hello", Limits(max_steps=3)), answers)
    assert (ended.steps, ended.stop_reason) == (3, "max_steps")


def test_agents_that_are_not_available_are_never_called() -> None:
    ended = drive(episode(Scripted((5, 0, 0, -9)), "hello", Limits(available=frozenset())), answers)
    assert (ended.calls, ended.answer, ended.stop_reason) == (0, None, "no_agents")
    turn = next(episode(Scripted((5, 0, 0, -9)), "hello", Limits(available=frozenset({9}))))
    assert [request.agent for request in turn.requests] == [9]


@settings(max_examples=150, deadline=None)
@given(
    budget=st.floats(0, 4),
    paths=st.integers(1, 3),
    together=st.integers(1, 3),
    seed=st.none() | st.integers(0, 99),
    bounds=st.tuples(*[st.floats(0.05, 2)] * 3),
    shares=st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=8),
    aggregator=st.none() | st.sampled_from([7, 3, 9, 11]),
)
def test_the_budget_is_never_exceeded(
    budget: float,
    paths: int,
    together: int,
    seed: int | None,
    bounds: tuple[float, ...],
    shares: list[float | None],
    aggregator: int | None,
) -> None:
    """Calls cost up to their worst case, or fail and do not say what they cost; whatever is under way is counted at its worst."""
    worst = dict(zip((7, 3, 9), bounds, strict=True)) | {11: 1.0}
    policy = Scripted((2, 2, 1, 0), (1, 2, 3, 0), (0, 0, 0, 1))
    turns = episode(
        policy,
        "hello",
        Limits(budget=budget, paths=paths, together=together, aggregator=aggregator, max_steps=4),
        worst=lambda agent, state: worst[agent],
        seed=seed,
    )
    spent = 0.0
    try:
        turn = next(turns)
        while True:
            assert spent + sum(worst[request.agent] for request in turn.requests) <= budget + 1e-9
            outcomes: dict[int, Outcome] = {}
            for request in turn.requests:
                share = shares[request.number % len(shares)]
                cost = None if share is None else share * worst[request.agent]
                spent += worst[request.agent] if cost is None else cost
                outcomes[request.number] = Failure("timeout") if cost is None else Result("said", cost)
            turn = turns.send(outcomes)
    except StopIteration as end:
        ended: Ended = end.value
    assert ended.cost == pytest.approx(spent)
    assert spent <= budget + 1e-9


def test_a_path_that_cannot_pay_says_so() -> None:
    ended = drive(episode(Scripted((5, 0, 0, -5)), "hello", Limits(budget=0.05)), answers)
    assert (ended.calls, ended.stop_reason) == (0, "budget")


def test_agents_above_two_nths_are_called_together() -> None:
    policy = Scripted((3, 3, -9, -9), (0, 0, 0, 9))
    assert len(next(episode(policy, "hello")).requests) == 1
    # Of four actions 2/n is a half, which two that are nearly alike do not both have.
    policy = Scripted((3.0, 2.99, -2, -2), (0, 0, 0, 9))
    turn = next(episode(policy, "hello", Limits(together=3)))
    assert [request.agent for request in turn.requests] == [7]
    five = WithFive()
    turn = next(episode(five, "hello", Limits(together=3)))
    assert [request.agent for request in turn.requests] == [1, 2]
    assert turn.decisions[0].propensity == 1.0
    ended = drive(episode(five, "hello", Limits(together=3)), answers)
    assert (ended.steps, ended.calls, ended.latency) == (1, 2, 0.5)


class WithFive:
    """Five agents, two of which hold nearly all of the probability: 2/n is a third."""

    def __init__(self) -> None:
        agents = [Agent(i, f"Agent {i}") for i in range(1, 6)]
        network = fresh_network(5, 4, np.random.default_rng(0), one_shot=False)
        self.inner = Orchestrator(agents, Reader(5), network)
        self.ids = self.inner.ids
        self.begin, self.after = self.inner.begin, self.inner.after

    def distribution(self, state: State, available: Collection[int] | None = None) -> Distribution:
        p = np.array([0.45, 0.4, 0.05, 0.05, 0.03, 0.02] if not state.steps else [0, 0, 0, 0, 0, 1], np.float32)
        return Distribution(self.ids, p, p)


def test_paths_end_in_a_majority_over_normalised_answers() -> None:
    said = {0: "Paris.", 1: "lyon", 2: " PARIS"}
    turns = episode(ECHO_THEN_STOP, "capital?", Limits(paths=3))
    ended = drive(turns, lambda request: Result(said[request.path], cost=0.1))
    assert (ended.answer, ended.answers) == ("Paris.", ("Paris.", "lyon", " PARIS"))
    assert ended.calls == 3


def test_an_aggregator_makes_one_answer_of_all() -> None:
    asked: list[Request] = []

    def call(request: Request) -> Outcome:
        asked.append(request)
        return Result("all of it" if request.aim == "aggregate" else f"part {request.path}", cost=0.1)

    ended = drive(episode(ECHO_THEN_STOP, "capital?", Limits(paths=2, aggregator=9)), call)
    assert ended.answer == "all of it"
    assert [made.answer for made in asked[-1].calls] == ["part 0", "part 1"]
    failing = drive(
        episode(ECHO_THEN_STOP, "capital?", Limits(paths=2, aggregator=9)),
        lambda request: Failure("timeout", cost=0.0) if request.aim == "aggregate" else call(request),
    )
    assert failing.answer == "part 0"


def test_what_only_looks_is_no_answer() -> None:
    policy = Scripted((5, 0, 0, 0), (0, 0, 5, 0), (0, 0, 0, 5))

    def call(request: Request) -> Outcome:
        return Result("42") if request.agent == 7 else Result("that holds", metadata={"answer": None})

    assert drive(episode(policy, "sum?"), call).answer == "42"


def test_an_episode_goes_on_from_its_stored_turns_and_makes_no_call_twice() -> None:
    policy = Scripted((2, 2, 1, 0), (1, 2, 3, 0), (0, 1, 0, 1))
    limits = Limits(paths=2, budget=9.0, max_steps=5)

    def whole() -> tuple[Ended, list[Request], list[StoredTurn]]:
        made: list[Request] = []
        kept: list[StoredTurn] = []
        turns = episode(policy, "hello", limits, seed=4)
        try:
            turn = next(turns)
            while True:
                made += turn.requests
                outcomes = {request.number: answers(request) for request in turn.requests}
                kept.append(StoredTurn(turn, outcomes))
                turn = turns.send(outcomes)
        except StopIteration as end:
            return end.value, made, kept

    ended, made, kept = whole()
    assert len(kept) > 2
    for killed_at in range(len(kept)):
        # The process died in this turn, when the first of its calls had answered.
        partly = dict(list(kept[killed_at].outcomes.items())[:1])
        stored = [*kept[:killed_at], StoredTurn(kept[killed_at].turn, partly)]
        read = [StoredTurn(Turn.from_json(json.loads(json.dumps(s.turn.to_json()))), s.outcomes) for s in stored]
        asked: list[Request] = []

        def call(request: Request, asked: list[Request] = asked) -> Outcome:
            asked.append(request)
            return answers(request)

        assert drive(episode(policy, "hello", limits, seed=4, stored=read), call) == ended
        had = {number for s in stored for number in s.outcomes}
        assert asked == [request for request in made if request.number not in had]


def test_the_same_seed_takes_the_same_steps_and_another_may_not() -> None:
    policy = Scripted((1, 1, 1, 1))
    paths = [
        [turn.requests[0].agent if turn.requests else None for turn in walked(policy, seed)] for seed in (1, 1, 2, 3, 4)
    ]
    assert paths[0] == paths[1]
    assert len({tuple(path) for path in paths}) > 1


def walked(policy: Scripted, seed: int) -> list[Turn]:
    found = []
    turns = episode(policy, "hello", seed=seed)
    try:
        turn = next(turns)
        while True:
            found.append(turn)
            turn = turns.send({request.number: answers(request) for request in turn.requests})
    except StopIteration:
        return found


def test_a_drawn_decision_tells_its_propensity() -> None:
    turn = next(episode(Scripted((1, 1, 1, 1)), "hello", seed=3))
    decision = turn.decisions[0]
    at = decision.candidates.index(decision.chosen[0] if decision.chosen else None)
    assert decision.propensity == pytest.approx(decision.probabilities[at])
    assert decision.propensity == pytest.approx(0.25)


def test_next_step_is_what_the_loop_would_do() -> None:
    assert next_step(ECHO_THEN_STOP, "hello").chosen == (7,)
    done = next_step(ECHO_THEN_STOP, "hello", [Call(7, "hi", answer="hi")])
    assert (done.chosen, done.reason) == ((), "stop")


@pytest.mark.parametrize(
    "wrong", [{"paths": 0}, {"paths": 4}, {"together": 0}, {"budget": float("nan")}, {"budget": -1}]
)
def test_limits_that_mean_nothing_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"must be"):
        replace(Limits(), **wrong)
