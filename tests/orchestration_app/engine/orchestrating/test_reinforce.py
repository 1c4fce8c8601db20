"""REINFORCE, imitation and learning from logs: what is learnt, and that it is learnt the same twice."""

import numpy as np
import pytest
import torch

from orchestration_app.engine.orchestrating import reinforce
from orchestration_app.engine.orchestrating.demonstration import STEPS, demonstrate
from orchestration_app.engine.orchestrating.environment import Environment, at_random, by_network, walk
from orchestration_app.engine.orchestrating.policy import Network
from orchestration_app.engine.orchestrating.reinforce import LearnSettings, imitate, learn, learn_from_logs, measured
from orchestration_app.engine.orchestrating.support import detour_pool, playbook, support_pool
from tests.orchestration_app.engine.orchestrating.pools import identity, simulated

pytestmark = pytest.mark.any_database


def learnt(environment: Environment, settings: LearnSettings) -> Network:
    network = environment.orchestrator.network
    for tick in learn(environment, network, settings):
        network = tick.network
    return network


def greedy(environment: Environment, network: Network) -> dict[str, float]:
    return measured(environment, walk(environment, by_network(network, None), range(len(environment)), keep=False))


@pytest.mark.at_length
def test_the_identity_environment_is_solved() -> None:
    environment = identity()
    found = greedy(environment, learnt(environment, LearnSettings(episodes=48, updates=150, learning_rate=0.02)))
    assert found["success"] == 1.0
    assert found["steps"] == 2.0


def test_the_served_network_is_the_learnt_one() -> None:
    environment = simulated(support_pool())
    rng = np.random.default_rng(0)
    own = environment.orchestrator.network
    network = Network({k: t + rng.normal(size=t.shape).astype(np.float32) for k, t in own.tensors.items()})
    walks = walk(environment, at_random(rng), range(20))
    batch = reinforce.Batch.of(environment, walks)
    with torch.no_grad():
        theirs = reinforce.PolicyNetwork(network)(batch.per_agent, batch.shared, batch.last).numpy()
    ours = network.logits(batch.per_agent.numpy(), batch.shared.numpy(), batch.last.numpy())
    assert np.abs(ours - theirs).max() < 1e-4
    one = network.logits(batch.per_agent.numpy()[:1], batch.shared.numpy()[:1], batch.last.numpy()[:1])
    assert np.abs(one - ours[:1]).max() < 1e-5


def test_the_same_seed_takes_the_same_actions() -> None:
    def actions(seed: int) -> list[list[int]]:
        environment = identity()
        network = learnt(environment, LearnSettings(episodes=8, updates=8, learning_rate=0.05, seed=seed))
        rng = np.random.default_rng(1)
        return [made.actions for made in walk(environment, by_network(network, rng), range(12))]

    assert actions(3) == actions(3)
    assert actions(3) != actions(4)


def test_learning_that_was_stopped_comes_to_the_same_policy() -> None:
    environment = identity()
    settings = LearnSettings(episodes=8, updates=10, seed=5)
    whole = list(learn(environment, environment.orchestrator.network, settings))
    again = list(learn(environment, environment.orchestrator.network, settings, resume=whole[3].state))
    assert [tick.update for tick in again] == list(range(5, 11))
    for name, tensor in whole[-1].network.tensors.items():
        assert (again[-1].network.tensors[name] == tensor).all()


def test_imitation_does_what_the_paths_do() -> None:
    pool = support_pool()
    environment = simulated(pool, 200)
    paths = [playbook(pool, task) for task in environment.tasks.texts]
    network = imitate(environment, environment.orchestrator.network, paths, epochs=60, learning_rate=0.01)
    walks = walk(environment, by_network(network, None), range(200), keep=False)
    same = [
        [call.agent for call in made.calls] == [call.agent for call in path.calls]
        for made, path in zip(walks, paths, strict=True)
    ]
    assert np.mean(same) > 0.9


@pytest.mark.at_length
def test_logged_episodes_of_another_policy_teach_a_better_one() -> None:
    """Random episodes, with their propensities: no agent is called while learning."""
    environment = identity()
    rng = np.random.default_rng(0)
    logged = walk(environment, at_random(rng, stop=0.1), rng.integers(12, size=1500).tolist())
    network = learn_from_logs(environment, environment.orchestrator.network, logged, epochs=80, learning_rate=0.01)
    before = measured(environment, logged)["success"]
    assert before < 0.15
    assert greedy(environment, network)["success"] > 0.6


def test_importance_weights_matter() -> None:
    """Logged by a policy that hardly ever did what was right, which the weights make up for."""
    environment = identity()
    walks = walk(environment, at_random(np.random.default_rng(0)), [0] * 64)
    batch = reinforce.Batch.of(environment, walks)
    log_p = batch.log_p(reinforce.PolicyNetwork(environment.orchestrator.network))
    assert torch.isfinite(log_p.gather(1, batch.actions[:, None])).all()
    for made in walks:
        made.propensities = [1.0] * len(made.propensities)
    network = learn_from_logs(environment, environment.orchestrator.network, walks, epochs=3)
    for made in walks:
        made.propensities = [0.1] * len(made.propensities)
    other = learn_from_logs(environment, environment.orchestrator.network, walks, epochs=3)
    assert any((network.tensors[k] != other.tensors[k]).any() for k in network.tensors)


def test_a_path_that_runs_out_of_steps_has_learnt_the_return_of_all_of_them() -> None:
    environment = simulated(detour_pool())
    walks = walk(environment, at_random(np.random.default_rng(0), stop=0.0), range(5))
    assert all(len(made.calls) == environment.orchestrator.max_steps for made in walks)
    assert all(made.actions[-1] == len(environment.orchestrator.ids) for made in walks)


@pytest.mark.at_length
def test_the_demonstration_mended() -> None:
    found = demonstrate(1)
    assert found["success"][0] >= 0.95
    assert found["greedy"] == {"success": [1.0], "reward": [pytest.approx(0.9)]}
    assert found["before"][0] < 0.7
    assert found["paid"] == 1
    assert STEPS == 4
