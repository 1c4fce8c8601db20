from __future__ import annotations

import numpy as np
import pytest
import torch

from training_app.engine.config import Config
from training_app.engine.routing.ddqn import Queries
from training_app.engine.routing.env import RoutingEnv
from training_app.engine.routing.published import PublishedNetwork, Texts, learn_published

FEATURES, AGENTS = 12, 3


def sparse(count: int, seed: int) -> Queries:
    """Texts of two or so features out of 12; each agent is required where one of two features of its own stands."""
    rng = np.random.default_rng(seed)
    x = np.where(rng.random((count, FEATURES)) < 0.2, rng.random((count, FEATURES)), 0).astype(np.float32)
    required = np.stack([x[:, 2 * a : 2 * a + 2].any(axis=1) for a in range(AGENTS)], axis=1)
    return Queries(x, required, np.ones_like(required))


def settings(**changes) -> Config:
    published = {
        "recipe": "tfidf",
        "reward_mode": "jaccard",
        "gamma": 0.99,
        "tau": 0.0,
        "target_update_freq": 50,
        "total_steps": 400,
        "epsilon_decay_steps": 200,
        "min_replay_size": 64,
        "replay_buffer_size": 150,
        "batch_size": 16,
        "val_eval_freq": 80,
        "hidden_layers": (16, 8),
    }
    return Config.from_mapping({**published, **changes})


def env_of(config: Config) -> RoutingEnv:
    return RoutingEnv(AGENTS, config.reward_mode, config.gamma, config.step_cost, max_steps=20)


def test_the_network_reads_what_is_not_zero_and_says_what_a_dense_one_says() -> None:
    x = sparse(40, 0).x
    x[7] = 0  # a text without a known word
    network = PublishedNetwork(FEATURES, AGENTS, (16, 8), torch.Generator().manual_seed(1))
    selected = np.random.default_rng(2).random((40, AGENTS)) < 0.5
    with torch.no_grad():
        read = network.read(Texts(x), np.arange(40))
        found = network(read, torch.from_numpy(selected.astype(np.float32))).numpy()
    # The served policy is dense, and shares nothing with the sparse path but the weights.
    nothing, everyone = np.zeros((40, 0), np.float32), np.ones_like(selected)
    q, stop = network.policy().values(x, nothing, selected, everyone)
    assert found == pytest.approx(np.column_stack([q, stop]), abs=1e-5)
    assert np.abs(found).max() > 0.05


@pytest.mark.parametrize(
    "changes",
    [
        {},
        *(
            pytest.param(one, marks=pytest.mark.at_length)
            for one in ({"tau": 0.05}, {"reward_mode": "stochastic"}, {"reward_mode": "shaped"})
        ),
    ],
)
@pytest.mark.at_length
def test_it_goes_on_to_the_same_policy(changes: dict) -> None:
    config = settings(**changes)
    train, val = sparse(200, 0), sparse(40, 1)
    ticks = list(learn_published(config, env_of(config), train, val))
    assert [tick.step for tick in ticks] == [80, 160, 240, 320, 400]
    for tick in (ticks[0], ticks[2]):  # before and after the replay buffer went round
        again = list(learn_published(config, env_of(config), train, val, (tick.state, tick.meta)))
        assert again[-1].meta == ticks[-1].meta
        for (ours, bias), (theirs, other) in zip(again[-1].policy.layers, ticks[-1].policy.layers, strict=True):
            assert np.array_equal(ours, theirs)
            assert np.array_equal(bias, other)


@pytest.mark.at_length
@pytest.mark.parametrize("mode", ["jaccard", "log"])
def test_it_learns(mode: str) -> None:
    config = settings(reward_mode=mode, total_steps=2000, epsilon_decay_steps=1000, learning_rate=0.003)
    *_, last = learn_published(config, env_of(config), sparse(300, 0), sparse(100, 1))
    first, best = last.meta["log"][0], max(entry["val_jaccard"] for entry in last.meta["log"])
    assert first["val_jaccard"] < 0.45
    assert best > 0.6
