"""REINFORCE for orchestrators: Williams 1992, with a learnt baseline, on the rewards of Puppeteer (arXiv 2505.19591) or the flat one.

    θ ← θ + α Σ_t Â_t ∇ log π_θ(a_t | s_t) + β ∇ H(π_θ(· | s_t))          Â_t = (R_t - μ) / σ - V_w(s_t)
    w ← w - α ∇ Σ_t ((R_t - μ) / σ - V_w(s_t))²

R_t is `Reward.returns`; μ and σ are running moments of all returns, V_w a small network that serves nobody, H the entropy. What else
can be learnt from with the same network: recorded paths (`imitate`), and logged episodes of another policy (`learn_from_logs`), where

    Â_t is weighed by ρ_t = min(Π_{k ≤ t} π_θ(a_k | s_k) / b(a_k | s_k), c)

b being the propensity that was logged (truncated importance weights, Ionides 2008). Imported by workers only: it brings torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from orchestration_app.engine.orchestrating.environment import Environment, RecordedPath, Walk, by_network, walk
from orchestration_app.engine.orchestrating.policy import BARRED, PARAMETERS, Network
from orchestration_app.engine.orchestrating.state import OWN, WIDTH
from training_app.engine.adam import Adam

CLIP = 1.0  # the largest norm of a gradient
MOMENTUM = 0.9  # of the running moments of returns
IMITATED_AT_ONCE = 128  # states of a batch of recorded paths
#: From logs: the most that one step counts, and what the policy's entropy is worth.
LARGEST_WEIGHT, LOG_ENTROPY = 5.0, 0.01


class PolicyNetwork(nn.Module):
    """`policy.Network` in torch: the same parameters by the same names, dots as underscores."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        for name in PARAMETERS:
            setattr(self, name.replace(".", "_"), nn.Parameter(torch.from_numpy(np.array(network.tensors[name]))))

    def forward(self, per_agent: torch.Tensor, shared: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
        """per_agent (B, A, F), shared (B, G), last (B) -> logits (B, A + 1)."""
        p = {name: getattr(self, name.replace(".", "_")) for name in PARAMETERS}
        width = per_agent.shape[-1]
        inner = (
            (shared @ p["agent.in"][width:] + p["agent.bias"])[:, None]
            + per_agent @ p["agent.in"][:width]
            + p["agent.own"]
        )
        agents = torch.relu(inner) @ p["agent.out"] + per_agent @ p["agent.line"] + p["agent.shift"]  # (B, A)
        inner = per_agent.mean(dim=1) @ p["stop.in"][:width] + shared @ p["stop.in"][width:] + p["stop.bias"]  # (B, H)
        stop = torch.relu(inner) @ p["stop.out"] + p["stop.shift"]  # (B)
        logits: torch.Tensor = torch.cat([agents, stop[:, None]], dim=1) + shared @ p["shared"] + p["next"][last]
        return logits

    def network(self) -> Network:
        """The served form, a copy."""
        return Network({name: getattr(self, name.replace(".", "_")).detach().numpy().copy() for name in PARAMETERS})


class Baseline(nn.Module):
    """V_w: what to expect of a state, from what all agents share, the mean and the largest of each own feature."""

    def __init__(self, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH + 2 * len(OWN), hidden)
        self.outer = nn.Linear(hidden, 1)
        nn.init.kaiming_uniform_(self.inner.weight, nonlinearity="relu", generator=generator)
        nn.init.zeros_(self.inner.bias)
        nn.init.zeros_(self.outer.weight)
        nn.init.zeros_(self.outer.bias)

    def forward(self, per_agent: torch.Tensor, shared: torch.Tensor) -> torch.Tensor:
        """(B, A, F), (B, G) -> (B)."""
        pooled = torch.cat([per_agent.mean(dim=1), per_agent.amax(dim=1), shared], dim=1)
        value: torch.Tensor = self.outer(torch.relu(self.inner(pooled)))[:, 0]
        return value


@dataclass(frozen=True, slots=True)
class LearnSettings:
    """How REINFORCE learns: `episodes` a batch, `updates` of it, the peak learning rate of Adam (it falls as a cosine), the weight
    of the entropy at the start (it falls in a line to nothing) and the width of the baseline's network."""

    episodes: int = 64
    updates: int = 150
    learning_rate: float = 0.01
    entropy: float = 0.02
    baseline: int = 32
    seed: int = 0
    decay: bool = True


@dataclass(frozen=True, slots=True)
class Tick:
    """One update: how many are done, the batch's mean reward (undiscounted, costs once), success, cost, steps, entropy; the
    policy."""

    update: int
    metrics: dict[str, float]
    network: Network
    state: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Batch:
    """N decisions of some episodes as tensors: per_agent (N, A, F), shared (N, G), last (N), allowed (N, A + 1), actions (N), returns
    (N)."""

    per_agent: torch.Tensor
    shared: torch.Tensor
    last: torch.Tensor
    allowed: torch.Tensor
    actions: torch.Tensor
    returns: NDArray[np.float64]

    @classmethod
    def of(cls, environment: Environment, walks: Sequence[Walk]) -> Batch:
        max_steps = environment.orchestrator.max_steps
        returns = [environment.reward.returns(w.costs, w.score, max_steps) for w in walks]
        return cls(
            torch.from_numpy(np.stack([per_agent for w in walks for per_agent in w.per_agent])),
            torch.from_numpy(np.stack([shared for w in walks for shared in w.shared])),
            torch.tensor([last for w in walks for last in w.last]),
            torch.from_numpy(np.stack([allowed for w in walks for allowed in w.allowed])),
            torch.tensor([action for w in walks for action in w.actions]),
            np.concatenate(returns),
        )

    def log_p(self, policy: PolicyNetwork) -> torch.Tensor:
        """log π of every action, (N, A + 1); what is not allowed has next to no probability."""
        logits = policy(self.per_agent, self.shared, self.last)
        return torch.log_softmax(logits.masked_fill(~self.allowed, BARRED), dim=1)


def learn(
    environment: Environment, network: Network, settings: LearnSettings, resume: Mapping[str, Any] | None = None
) -> Iterator[Tick]:
    """REINFORCE in an environment, from a network; a Tick comes after every update, the last one holds what was learnt. `resume`
    is the `state` of an earlier Tick: learning goes on to the same policy as if it had never stopped. The same seed gives the same
    policy."""
    torch.set_num_threads(1)
    rng = np.random.Generator(np.random.PCG64(settings.seed))
    policy = PolicyNetwork(network)
    baseline = Baseline(settings.baseline, torch.Generator().manual_seed(settings.seed))
    parameters = [*policy.parameters(), *baseline.parameters()]
    optimizer = Adam(parameters)
    mean, square, begin = 0.0, 0.0, 0
    if resume is not None:
        policy.load_state_dict(resume["policy"])
        baseline.load_state_dict(resume["baseline"])
        optimizer.restore(resume["optimizer"])
        rng.bit_generator.state = resume["rng"]
        mean, square, begin = resume["mean"], resume["square"], resume["update"]
    for update in range(begin + 1, settings.updates + 1):
        remaining = 1 - (update - 1) / settings.updates
        rate = settings.learning_rate * (0.5 * (1 - np.cos(np.pi * remaining)) if settings.decay else 1.0)
        drawn = rng.integers(len(environment), size=settings.episodes).tolist()
        walks = walk(environment, by_network(policy.network(), rng), drawn)
        batch = Batch.of(environment, walks)
        # μ and σ: running moments, without the bias of their start.
        mean = MOMENTUM * mean + (1 - MOMENTUM) * float(batch.returns.mean())
        square = MOMENTUM * square + (1 - MOMENTUM) * float((batch.returns**2).mean())
        whole = 1 - MOMENTUM**update
        deviation = np.sqrt(max(square / whole - (mean / whole) ** 2, 1e-6))
        returns = torch.from_numpy(((batch.returns - mean / whole) / deviation).astype(np.float32))

        log_p = batch.log_p(policy)  # (N, A + 1)
        chosen = log_p.gather(1, batch.actions[:, None])[:, 0]
        values = baseline(batch.per_agent, batch.shared)
        entropy = -(log_p.exp() * log_p.clamp(min=-50)).sum(dim=1).mean()
        loss = -((returns - values.detach()) * chosen).mean()  # -Â_t log π(a_t | s_t)
        loss = loss - settings.entropy * remaining * entropy + 0.5 * ((returns - values) ** 2).mean()
        _descend(optimizer, loss, rate)
        yield Tick(
            update,
            measured(environment, walks) | {"entropy": float(entropy.detach())},
            policy.network(),
            {
                "policy": {name: t.clone() for name, t in policy.state_dict().items()},
                "baseline": {name: t.clone() for name, t in baseline.state_dict().items()},
                "optimizer": optimizer.arrays(),
                "rng": rng.bit_generator.state,
                "mean": mean,
                "square": square,
                "update": update,
            },
        )


def measured(environment: Environment, walks: Sequence[Walk]) -> dict[str, float]:
    """Means over some episodes: reward r - λ C, success (the share of a whole score), cost and steps."""
    reward = environment.reward
    return {
        "reward": float(np.mean([reward.total(sum(w.costs), w.score) for w in walks])),
        "success": float(np.mean([w.score >= 1 - 1e-9 for w in walks])),
        "cost": float(np.mean([w.money for w in walks])),
        "steps": float(np.mean([len(w.calls) for w in walks])),
    }


def _descend(optimizer: Adam, loss: torch.Tensor, rate: float) -> None:
    """One step down the loss, by a gradient no longer than CLIP."""
    loss.backward()
    nn.utils.clip_grad_norm_(optimizer.parameters, CLIP)
    optimizer.step(rate)


def imitate(
    environment: Environment,
    network: Network,
    paths: Sequence[RecordedPath],
    *,
    epochs: int = 20,
    learning_rate: float = 0.003,
    seed: int = 0,
) -> Network:
    """Behaviour cloning of recorded paths, whose tasks are the environment's, in its order: -Σ_a q(a) log π(a | s), where q is the
    next recorded agent, or, where the order does not matter, any of those still to come; STOP at a path's end."""
    torch.set_num_threads(1)
    rng = np.random.Generator(np.random.PCG64(seed))
    walks, targets = _along(environment, paths, rng)
    batch = Batch.of(environment, walks)
    goal = torch.from_numpy(np.stack(targets))  # (N, A + 1)
    policy = PolicyNetwork(network)
    optimizer = Adam(policy.parameters())
    count, total = len(goal), epochs * -(-len(goal) // IMITATED_AT_ONCE)
    step = 0
    for _ in range(epochs):
        order = torch.from_numpy(rng.permutation(count))
        for rows in order.split(IMITATED_AT_ONCE):
            part = Batch(
                batch.per_agent[rows], batch.shared[rows], batch.last[rows], batch.allowed[rows], batch.actions[rows],
                batch.returns,
            )  # fmt: skip
            loss = -(goal[rows] * part.log_p(policy).clamp(min=-50)).sum(dim=1).mean()
            _descend(optimizer, loss, learning_rate * 0.5 * (1 + np.cos(np.pi * step / total)))
            step += 1
    return policy.network()


def _along(
    environment: Environment, paths: Sequence[RecordedPath], rng: np.random.Generator
) -> tuple[list[Walk], list[NDArray[np.float32]]]:
    """The states along recorded paths and what to do in each. Paths whose order does not matter are walked in a random one."""
    ids = environment.orchestrator.ids
    place = {identifier: a for a, identifier in enumerate(ids)}
    walks, targets = [], []
    for task, path in enumerate(paths):
        calls = [call for call in path.calls if call.agent in place]
        if not path.ordered:
            calls = [calls[i] for i in rng.permutation(len(calls)).tolist()]
        state, walk = environment.first(task), Walk(task)
        for t, call in enumerate([*calls, None]):
            allowed = environment.allowed(state)
            goal = np.zeros(len(ids) + 1, np.float32)
            coming = calls[t:] if not path.ordered else calls[t : t + 1]
            for other in coming:
                goal[place[other.agent]] = 1.0
            if call is None:
                goal[-1] = 1.0
            if not (goal * allowed).any():
                break
            targets.append(goal * allowed / (goal * allowed).sum())
            per_agent, shared = state.features()
            walk.per_agent.append(per_agent)
            walk.shared.append(shared)
            walk.last.append(environment.orchestrator.last(state))
            walk.allowed.append(allowed)
            walk.actions.append(int(goal.argmax()))
            walk.costs.append(0.0)
            if call is not None:
                state = environment.orchestrator.after(state, [call])
        walks.append(walk)
    return walks, targets


def learn_from_logs(
    environment: Environment,
    network: Network,
    logged: Sequence[Walk],
    *,
    epochs: int = 30,
    learning_rate: float = 0.003,
    seed: int = 0,
) -> Network:
    """Off-policy REINFORCE on logged episodes, with what the logging policy's `propensities` were: see the equations above."""
    torch.set_num_threads(1)
    batch = Batch.of(environment, logged)
    policy = PolicyNetwork(network)
    baseline = Baseline(32, torch.Generator().manual_seed(seed))
    parameters = [*policy.parameters(), *baseline.parameters()]
    optimizer = Adam(parameters)
    spread = max(float(batch.returns.std()), 1e-3)
    returns = torch.from_numpy(((batch.returns - batch.returns.mean()) / spread).astype(np.float32))
    behaved = torch.log(torch.tensor([max(p, 1e-6) for w in logged for p in w.propensities]))
    lengths = [len(w.actions) for w in logged]
    for _ in range(epochs):
        log_p = batch.log_p(policy)
        chosen = log_p.gather(1, batch.actions[:, None])[:, 0]
        with torch.no_grad():
            ratio = chosen - behaved
            # The product over the steps of each episode so far, as a sum of logarithms.
            weights = torch.cat([part.cumsum(0) for part in ratio.split(lengths)]).exp().clamp(max=LARGEST_WEIGHT)
        values = baseline(batch.per_agent, batch.shared)
        spent = -(log_p.exp() * log_p.clamp(min=-50)).sum(dim=1).mean()
        loss = -(weights * (returns - values.detach()) * chosen).mean() - LOG_ENTROPY * spent
        loss = loss + 0.5 * (weights * (returns - values) ** 2).mean()
        _descend(optimizer, loss, learning_rate)
    return policy.network()
