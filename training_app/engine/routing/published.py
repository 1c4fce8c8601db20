"""The published recipe: Double DQN on raw TF-IDF, epsilon-greedy episodes and a uniform replay buffer.

It stands beside `ddqn.py` so that the published figures can be reproduced with this code. The state is the TF-IDF
vector of the query and the mask of selected agents; the network is a plain multilayer perceptron with one output per
agent and one for STOP; only the taken action is learnt; the target network is a copy, made every
`target_update_freq` steps, or follows softly where `tau` is above 0.

A text has some dozens of the thousands of features, so the first layer reads those alone: the same network, at a
fraction of the time of a product with all of them.

Imported by workers only: it brings torch.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from training_app.engine.adam import Adam
from training_app.engine.config import Config
from training_app.engine.routing.ddqn import (
    Queries,
    Tick,
    follow,
    measured,
    restore,
    saved_state,
)
from training_app.engine.routing.env import RoutingEnv
from training_app.engine.routing.networks import exported, perceptron, through
from training_app.engine.routing.policy import PlainPolicy


class Replay:
    """A ring of transitions. A query's features are kept once, by row; a state adds the mask of selected agents."""

    def __init__(self, capacity: int, agents: int) -> None:
        self.row = np.zeros(capacity, np.int64)
        self.selected = np.zeros((capacity, agents), np.bool_)
        self.action = np.zeros(capacity, np.int64)
        self.reward = np.zeros(capacity, np.float32)
        self.after = np.zeros((capacity, agents), np.bool_)
        self.ended = np.zeros(capacity, np.bool_)
        self.count = 0  # transitions ever added

    def __len__(self) -> int:
        return min(self.count, len(self.row))

    def add(
        self, row: int, selected: NDArray[Any], action: int, reward: float, after: NDArray[Any], ended: bool
    ) -> None:
        at = self.count % len(self.row)
        self.row[at], self.selected[at], self.action[at] = row, selected, action
        self.reward[at], self.after[at], self.ended[at] = reward, after, ended
        self.count += 1

    def arrays(self) -> dict[str, NDArray[Any]]:
        size = len(self)
        names = ("row", "selected", "action", "reward", "after", "ended")
        return {f"replay.{name}": getattr(self, name)[:size].copy() for name in names}

    def restore(self, arrays: Mapping[str, NDArray[Any]], count: int) -> None:
        self.count = count
        for name in ("row", "selected", "action", "reward", "after", "ended"):
            getattr(self, name)[: len(self)] = arrays[f"replay.{name}"]


class Texts:
    """The features of N texts without their zeros: places int64[N, K] and values float32[N, K], K those of the text
    that has most; the rest of a row is place 0 with value 0."""

    def __init__(self, x: NDArray[np.float32]) -> None:
        rows, columns = np.nonzero(x)
        starts = np.searchsorted(rows, np.arange(len(x) + 1))
        places = np.zeros((len(x), max(1, int(np.diff(starts).max(initial=0)))), np.int64)
        values = np.zeros(places.shape, np.float32)
        at = np.arange(len(rows)) - starts[rows]
        places[rows, at], values[rows, at] = columns, x[rows, columns]
        self.places, self.values = torch.from_numpy(places), torch.from_numpy(values)


class PublishedNetwork(nn.Module):
    """A perceptron from (TF-IDF of the text, mask of selected agents) to a value for every agent and STOP; the first
    layer's weights lie apart for the two, text [D, H] and mask [A, H]."""

    def __init__(self, features: int, agents: int, hidden: tuple[int, ...], generator: torch.Generator) -> None:
        super().__init__()
        first, *rest = perceptron([features + agents, *hidden, agents + 1], generator)
        assert isinstance(first, nn.Linear)
        weights = first.weight.detach().T
        self.text = nn.Parameter(weights[:features].clone(memory_format=torch.contiguous_format))
        self.mask = nn.Parameter(weights[features:].clone(memory_format=torch.contiguous_format))
        self.bias = nn.Parameter(first.bias.detach().clone())
        self.rest = nn.ModuleList(rest)

    def read(self, texts: Texts, rows: NDArray[np.int64]) -> torch.Tensor:
        """The text's share of the first layer, float32[len(rows), H]."""
        return nn.functional.embedding_bag(
            texts.places[rows], self.text, mode="sum", per_sample_weights=texts.values[rows]
        )

    def forward(self, read: torch.Tensor, selected: torch.Tensor) -> torch.Tensor:
        """read float32[B, H], selected float32[B, A] -> values float32[B, A + 1], STOP last."""
        return through(self.rest, torch.relu(read + selected @ self.mask + self.bias))

    def policy(self) -> PlainPolicy:
        weights = torch.cat([self.text, self.mask]).detach().numpy().copy()
        return PlainPolicy(((weights, self.bias.detach().numpy().copy()), *exported(self.rest)))


def learn_published(
    config: Config,
    env: RoutingEnv,
    train: Queries,
    val: Queries,
    resume: tuple[Mapping[str, NDArray[Any]], Mapping[str, Any]] | None = None,
) -> Iterator[Tick]:
    """As `ddqn.learn`, by the published recipe; x of the queries is their TF-IDF, float32[N, D]."""
    torch.set_num_threads(1)
    # The moments of a feature or unit that gets no gradient for hundreds of steps fade to denormal numbers, on which
    # a processor is many times slower.
    torch.set_flush_denormal(True)
    try:
        yield from _learn(config, env, train, val, resume)
    finally:
        torch.set_flush_denormal(False)  # for whatever else this process does


# Over 60 lines. The whole algorithm, as its authors published it, in one piece.
def _learn(
    config: Config,
    env: RoutingEnv,
    train: Queries,
    val: Queries,
    resume: tuple[Mapping[str, NDArray[Any]], Mapping[str, Any]] | None,
) -> Iterator[Tick]:
    agents = train.required.shape[1]
    rng = np.random.Generator(np.random.PCG64(config.seed))
    generator = torch.Generator().manual_seed(config.seed)
    texts = Texts(train.x)
    online = PublishedNetwork(train.x.shape[1], agents, config.hidden_layers, generator)
    target = copy.deepcopy(online)
    optimizer = Adam(online.parameters(), fused=True)
    networks = Networks(online, target, optimizer)
    replay = Replay(config.replay_buffer_size, agents)
    kept = {name: t.clone() for name, t in online.state_dict().items()}
    begin, best, kept_step, losses, steps = 0, -np.inf, 0, [0.0, 0.0], 0
    log: list[dict[str, float]] = []
    row, selected = int(train.draw(rng, 1)[0]), np.zeros(agents, np.bool_)
    if resume is not None:
        arrays, meta = resume
        restore(arrays, online, target, optimizer, kept)
        replay.restore(arrays, meta["count"])
        row, selected, steps = meta["row"], arrays["walker"].copy(), meta["taken"]
        rng.bit_generator.state = meta["rng"]
        begin, best, kept_step = meta["step"], meta["best"], meta["kept_step"]
        losses, log = list(meta["losses"]), list(meta["log"])

    for step in range(begin + 1, config.total_steps + 1):
        epsilon = config.epsilon_end + max(0.0, 1 - step / config.epsilon_decay_steps) * (
            config.epsilon_start - config.epsilon_end
        )
        # One environment step. s_t = (row, selected), a_t, r_t, s_{t+1}.
        asked = train.asked[row]
        allowed = np.append(env.selectable(selected, asked), env.stoppable(selected, asked))
        if rng.random() < epsilon:
            action = int(rng.choice(np.flatnonzero(allowed)))
        else:
            with torch.no_grad():
                values = online(online.read(texts, np.array([row])), _floats(selected[None]))[0]
            action = int(np.where(allowed, values.numpy(), -np.inf).argmax())
        steps += 1
        after = selected.copy()
        required = train.required[row] & asked
        if action < agents:
            after[action] = True
            reward = float(env.selection_rewards(selected[None], required[None], asked[None])[0, action])
        else:
            reward = 0.0
        full = not env.selectable(after, asked).any()
        ended = action == agents or full or steps >= config.max_steps_per_episode
        if ended:
            # The end pays; as published, the selection that ends an episode costs nothing of its own.
            paid = float(env.stop_rewards(after[None], required[None], rng)[0])
            # Shaped, the terminal state has no potential left: whatever ends the episode pays the change of J itself.
            change = env.goal.utility(after[None], required[None]) - env.goal.utility(selected[None], required[None])
            reward = float(change[0]) if env.shaped else paid
        replay.add(row, selected, action, reward, after, ended)
        selected = after
        if ended:
            row, selected, steps = int(train.draw(rng, 1)[0]), np.zeros(agents, np.bool_), 0

        if len(replay) >= config.min_replay_size:
            drawn = rng.integers(len(replay), size=config.batch_size)
            losses = [
                losses[0] + _step(config, env, train, texts, replay, drawn, networks),
                losses[1] + 1,
            ]
        follow(target, online, config, step)

        last = step == config.total_steps
        if step % config.val_eval_freq == 0 or last:
            figures, _ = measured(online.policy(), env, val)
            metrics = {"loss": losses[0] / max(1.0, losses[1]), "epsilon": epsilon, **figures}
            losses = [0.0, 0.0]
            log.append({"step": step, **metrics})
            score = figures.get("val_goal", float(step))
            if not config.save_best or score > best:
                best, kept_step = score, step
                kept = {name: t.clone() for name, t in online.state_dict().items()}
            meta = {
                "step": step,
                "best": best,
                "kept_step": kept_step,
                "losses": losses,
                "log": log,
                "rng": rng.bit_generator.state,
                "count": replay.count,
                "row": row,
                "taken": steps,
            }
            arrays = saved_state(online, target, optimizer, kept) | replay.arrays() | {"walker": selected.copy()}
            policy = None
            if last:
                online.load_state_dict(kept)
                policy = online.policy()
            yield Tick(step, metrics, arrays, copy.deepcopy(meta), policy)


def _floats(selected: NDArray[np.bool_]) -> torch.Tensor:
    return torch.from_numpy(selected.astype(np.float32))


class Networks(NamedTuple):
    """The network that learns, the one that judges, and what moves the first."""

    online: PublishedNetwork
    target: PublishedNetwork
    optimizer: Adam


def _step(
    config: Config,
    env: RoutingEnv,
    train: Queries,
    texts: Texts,
    replay: Replay,
    drawn: NDArray[np.int64],
    networks: Networks,
) -> float:
    """One gradient step on a batch of transitions; returns the loss."""
    online, target, optimizer = networks
    rows = replay.row[drawn]
    after = replay.after[drawn]
    allowed = np.concatenate(
        [env.selectable(after, train.asked[rows]), env.stoppable(after, train.asked[rows])[:, None]], axis=1
    )
    read = online.read(texts, rows)
    with torch.no_grad():
        # Double DQN: the online network chooses, the target network judges.
        chosen = online(read, _floats(after))
        chosen[torch.from_numpy(~allowed)] = -torch.inf
        judged = target(target.read(texts, rows), _floats(after))
        value = judged.gather(1, chosen.argmax(dim=1, keepdim=True))[:, 0]
        going = torch.from_numpy(~replay.ended[drawn]).float()
        y = torch.from_numpy(replay.reward[drawn]) + config.gamma * value * going
    q = online(read, _floats(replay.selected[drawn]))
    q_action = q.gather(1, torch.from_numpy(replay.action[drawn])[:, None])[:, 0]
    loss = nn.functional.mse_loss(q_action, y)
    loss.backward()
    optimizer.step(config.learning_rate)
    return float(loss.detach())
