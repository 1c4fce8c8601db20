"""Proximal policy optimisation for every preference at once, in one file (Schulman et al. 2017, arXiv 1707.06347). Imports torch.

Each episode draws a preference w from a Dirichlet(1, 1, 1); policy and value see the observation with w beside it. Rewards are vectors
r = (success, −cost, −latency), the value V(s, w) is a vector too, and the advantage is that of w · r:

    δ_t = r_t + γ V(s_t+1, w) − V(s_t, w)        Â_t = Σ_l (γλ)^l δ_t+l       (GAE, Schulman et al. 2016)
    L = E[min(ρ_t w·Â_t, clip(ρ_t, 1 − ε, 1 + ε) w·Â_t)] − ½ E[(V − R)²] + c H(π)        ρ_t = π(a|s,w) / π_old(a|s,w)

γ 0.99, λ 0.95, ε 0.2, roll-outs of 2,048 steps, ten epochs of minibatches of 64. What is served is `ppo_policy.Served`, in numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import nn

from orchestration_app.engine.backends.ppo_policy import Served
from training_app.engine.adam import Adam

STEPS = 1_000_000  # as published


class Environment(Protocol):
    """Gymnasium's interface; the reward is a vector of three."""

    observation_space: Any
    action_space: Any

    def reset(self, *, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        """A new episode."""

    def step(self, action: int) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One action."""


@dataclass(frozen=True, slots=True)
class PpoSettings:
    """The published constants; `gamma` 0 is a bandit."""

    steps: int = STEPS
    rollout: int = 2048
    epochs: int = 10
    batch: int = 64
    gamma: float = 0.99
    lam: float = 0.95
    clip: float = 0.2
    rate: float = 3e-4
    entropy: float = 0.01
    hidden: int = 64


class Network(nn.Module):
    """Two towers of two tanh layers: logits of the actions, and a value for each part of the reward."""

    def __init__(self, size: int, actions: int, hidden: int) -> None:
        super().__init__()

        def tower(out: int, last: float) -> nn.Sequential:
            layers = [nn.Linear(size, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, out)]
            for layer, gain in zip(layers[::2], (2**0.5, 2**0.5, last), strict=True):
                nn.init.orthogonal_(layer.weight, gain)  # type: ignore[arg-type]
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
            return nn.Sequential(*layers)

        self.policy, self.value = tower(actions, 0.01), tower(3, 1.0)

    def served(self) -> Served:
        """The policy as numpy."""
        layers = [layer for layer in self.policy if isinstance(layer, nn.Linear)]
        return Served(
            [layer.weight.detach().numpy().T.copy() for layer in layers], [layer.bias.detach().numpy().copy() for layer in layers]
        )  # fmt: skip


def train(env: Environment, settings: PpoSettings, seed: int) -> Iterator[tuple[int, float, Served]]:
    """Learn; after each roll-out yields (steps so far, mean of w · r in it, the policy as it stands)."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.Generator(np.random.PCG64([seed, 2]))
    size, actions = env.observation_space.shape[0] + 3, env.action_space.n
    network = Network(size, actions, settings.hidden)
    optimiser = Adam(network.parameters(), eps=1e-5)
    count = settings.rollout
    weights = rng.dirichlet(np.ones(3))
    observation, _ = env.reset(seed=seed)
    for done_steps in range(0, settings.steps, count):
        states = np.zeros((count + 1, size), np.float32)
        preferences = np.zeros((count, 3), np.float32)
        actions_taken, likely = np.zeros(count, np.int64), np.zeros(count, np.float32)
        rewards, ended = np.zeros((count, 3), np.float32), np.zeros(count, np.float32)
        served = network.served()
        for t in range(count):
            states[t], preferences[t] = np.concatenate([observation, weights]), weights
            p = served.probabilities(states[t])
            actions_taken[t] = rng.choice(actions, p=p)
            likely[t] = np.log(p[actions_taken[t]])
            observation, reward, terminated, truncated, _ = env.step(int(actions_taken[t]))
            rewards[t], ended[t] = np.asarray(reward, np.float32) * np.ones(3, np.float32), terminated or truncated
            if ended[t]:
                observation, _ = env.reset()
                weights = rng.dirichlet(np.ones(3))
        states[count] = np.concatenate([observation, weights])
        with torch.no_grad():
            values = network.value(torch.from_numpy(states)).numpy()  # [count + 1, 3]
        advantages, last = np.zeros((count, 3), np.float32), np.zeros(3, np.float32)
        for t in reversed(range(count)):
            on = 1.0 - ended[t]
            delta = rewards[t] + settings.gamma * values[t + 1] * on - values[t]
            last = delta + settings.gamma * settings.lam * on * last
            advantages[t] = last
        returns = advantages + values[:-1]
        scalar = (advantages * preferences).sum(axis=1)  # w · Â
        _learn(network, optimiser, settings, rng, Rollout(states[:-1], actions_taken, likely, scalar, returns))
        yield done_steps + count, float((rewards * preferences).sum(axis=1).mean()), network.served()


class Rollout(NamedTuple):
    """T steps: states [T, S], the actions taken int64 [T], their log-probabilities [T], w · Â [T], and returns [T, 3]."""

    states: Any
    actions: Any
    likely: Any
    advantages: Any
    returns: Any


def _learn(
    network: Network,
    optimiser: Adam,
    settings: PpoSettings,
    rng: np.random.Generator,
    rollout: Rollout,
) -> None:
    steps = rollout._replace(advantages=rollout.advantages.astype(np.float32))
    arrays, count = [torch.from_numpy(array) for array in steps], len(steps.states)
    for _ in range(settings.epochs):
        for some in np.array_split(rng.permutation(count), max(count // settings.batch, 1)):
            s, a, old, advantage, target = (array[some] for array in arrays)
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            chosen = torch.distributions.Categorical(logits=network.policy(s))
            ratio = torch.exp(chosen.log_prob(a) - old)
            clipped = torch.clamp(ratio, 1 - settings.clip, 1 + settings.clip)
            loss = -torch.min(ratio * advantage, clipped * advantage).mean()
            loss = loss + 0.5 * ((network.value(s) - target) ** 2).mean() - settings.entropy * chosen.entropy().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 0.5)
            optimiser.step(settings.rate)
