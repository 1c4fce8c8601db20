"""State and served policy: what differs in an output differs in the state, and an artifact gives the same policy back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestration_app.engine.orchestrating.policy import Network, Orchestrator, fresh_network, softmax
from orchestration_app.engine.orchestrating.reading import Reader
from orchestration_app.engine.orchestrating.state import ENCODING, Allowance, Call, State
from training_app.engine.data.artifact import ArtifactError
from training_app.engine.data.examples import Agent
from training_app.engine.reading import sentences

pytestmark = pytest.mark.any_database
AGENTS = [Agent(7, "Echo", cost=1.0), Agent(3, "Search", cost=0.5), Agent(9, "Check", cost=0.1)]


def orchestrator(seed: int = 0, repeats: int = 2) -> Orchestrator:
    rng = np.random.default_rng(seed)
    network = fresh_network(3, 8, rng, one_shot=False)
    drawn = {name: t + rng.normal(size=t.shape).astype(np.float32) * 0.3 for name, t in network.tensors.items()}
    return Orchestrator(AGENTS, Reader(3), Network(drawn), repeats=repeats, version_info={"seed": seed})


def after(policy: Orchestrator, *calls: Call) -> State:
    state = policy.begin("what is this?", Allowance(budget=5.0))
    for call in calls:
        state = policy.after(state, [call])
    return state


def seen(state: State) -> bytes:
    own, shared = state.features()
    return own.tobytes() + shared.tobytes()


@settings(max_examples=200, deadline=None)
@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40), st.booleans())
def test_states_that_differ_only_in_an_output_differ(one: str, other: str, later: bool) -> None:
    """In the last output and in an earlier one; but for case and punctuation, which the encoding does not read."""
    policy = orchestrator()
    if [c for c in one.casefold() if c.isalnum()] == [c for c in other.casefold() if c.isalnum()]:
        return
    rest = (Call(9, "and so on"),) if later else ()
    assert seen(after(policy, Call(7, one), *rest)) != seen(after(policy, Call(7, other), *rest))


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.sampled_from([7, 3, 9]), st.text(max_size=20)), max_size=4), min_size=1, max_size=9)
)
def test_many_states_are_decided_as_each_alone(paths: list[list[tuple[int, str]]]) -> None:
    policy = orchestrator()
    states = [after(policy, *(Call(agent, text) for agent, text in path)) for path in paths]
    may: list[list[int] | None] = [None if len(path) % 2 else [7, 9] for path in paths]
    together = policy.distributions(states, may)
    for state, available, found in zip(states, may, together, strict=True):
        alone = policy.distribution(state, available)
        assert found.logits.tobytes() == alone.logits.tobytes()
        assert found.probabilities.tobytes() == alone.probabilities.tobytes()


def test_failed_empty_and_said_are_three_states() -> None:
    policy = orchestrator()
    states = [Call(7, "", failed=True), Call(7, ""), Call(7, "yes")]
    assert len({seen(after(policy, call)) for call in states}) == 3


def test_cost_steps_and_budget_are_in_the_state() -> None:
    policy = orchestrator()
    dear = after(policy, Call(7, "yes", cost=4.0))
    assert seen(dear) != seen(after(policy, Call(7, "yes", cost=1.0)))
    assert dear.left == 1.0
    assert seen(policy.begin("x", Allowance(budget=1.0))) != seen(policy.begin("x", Allowance(budget=2.0)))
    assert seen(policy.begin("x", Allowance(max_steps=3))) != seen(policy.begin("x", Allowance(max_steps=4)))


def test_an_agent_is_called_so_often_and_not_more() -> None:
    policy = orchestrator(repeats=2)
    state = after(policy, Call(7, "a"), Call(7, "b"))
    found = policy.distribution(state)
    assert found.probabilities[0] == 0
    assert found.probabilities.sum() == pytest.approx(1)
    assert policy.distribution(state, available=[9]).probabilities[:2].tolist() == [0, 0]


def test_at_the_last_step_only_stop_is_left() -> None:
    policy = orchestrator()
    state = policy.after(policy.begin("x", Allowance(max_steps=1)), [Call(7, "a")])
    assert policy.distribution(state).stop == 1.0
    assert policy.distribution(state).greedy() is None


def test_an_agent_that_the_version_does_not_know_may_have_been_called() -> None:
    policy = orchestrator()
    found = policy.distribution(after(policy, Call(99, "who?")))
    assert np.isfinite(found.probabilities).all()


def test_the_same_state_gives_the_same_distribution_whatever_came_before() -> None:
    policy = orchestrator()
    state = after(policy, Call(7, "a"))
    before = policy.distribution(state).probabilities
    for i in range(50):
        policy.distribution(after(policy, Call(3, f"noise {i}")))
    assert (policy.distribution(state).probabilities == before).all()


def test_an_artifact_gives_the_same_policy_back() -> None:
    policy = orchestrator(3)
    content = policy.to_artifact({"mean_reward": 0.5}).to_bytes()
    again = Orchestrator.load(content)
    state = after(policy, Call(7, "a"), Call(9, "", failed=True))
    assert (again.distribution(after(again, *state.calls)).logits == policy.distribution(state).logits).all()
    assert (again.ids, again.repeats, again.version_info) == (policy.ids, policy.repeats, {"seed": 3})
    assert again.to_artifact({"mean_reward": 0.5}).to_bytes() == content


def test_an_artifact_whose_parts_do_not_fit_is_refused() -> None:
    parts = orchestrator().to_artifact()
    del parts.tensors["network.next"]
    with pytest.raises(ArtifactError, match="do not fit"):
        Orchestrator.from_artifact(parts)
    other = orchestrator().to_artifact()
    other.config["kind"] = "backend"
    with pytest.raises(ArtifactError, match="not an orchestrator"):
        Orchestrator.from_artifact(other)


def test_why_names_what_spoke_for_an_agent() -> None:
    policy = orchestrator()
    state = after(policy, Call(7, "a"))
    parts = policy.why(state, 9)
    assert 0 < len(parts) <= 5
    assert parts == sorted(parts, key=lambda part: -abs(part[1]))
    assert policy.why(state, None)


def test_what_is_barred_has_no_probability() -> None:
    p = softmax(np.array([9, 1, 0], np.float32), np.array([False, True, True]))
    assert p[0] == 0
    assert p.sum() == pytest.approx(1)


def test_a_policy_that_reads_sentences_names_its_encoder() -> None:
    own = orchestrator()
    projection = np.random.default_rng(0).normal(size=(sentences.SIZE, ENCODING)).astype(np.float32)
    policy = Orchestrator(AGENTS, Reader(3, encoding="sentences", projection=projection), own.network)
    one, other = (seen(after(policy, Call(7, text))) for text in ("the parcel is late", "the invoice is wrong"))
    assert one != other
    parts = policy.to_artifact()
    again = Orchestrator.from_artifact(parts)
    assert seen(after(again, Call(7, "the parcel is late"))) == one
    parts.config["sentences"] = "another encoder"
    with pytest.raises(ArtifactError, match="another encoder"):
        Orchestrator.from_artifact(parts)
