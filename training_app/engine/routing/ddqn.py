"""Double DQN for set routing: van Hasselt, Guez and Silver 2016 (arXiv 1509.06461) on a known environment.

What differs from the paper, and why, stands in docs/routing.md. In short: the state is the scorer's cross-fitted
log-odds and the set selected so far; since the environment is known, every action of a state gets its own target
instead of the taken one only; states are drawn by the policy and by the log-odds, never by the label; and the network
that acts is the Polyak average that also serves as target network.

Imported by workers only: it brings torch.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from training_app.engine.adam import Adam
from training_app.engine.config import Config
from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.metrics import jaccard
from training_app.engine.data.rows import fold_of_group
from training_app.engine.routing.env import RoutingEnv
from training_app.engine.routing.networks import PlainNetwork, SharedNetwork
from training_app.engine.routing.policy import (
    Beside,
    Policy,
    conditional,
    context,
    described,
    likeliest_first,
    probabilities,
)
from training_app.engine.routing.walking import greedy

#: Above this many agents a state has so many successors, sampled, and the next action of each is looked for among so
#: many agents, those of highest value: all of them would cost the square of the agents.
SAMPLED_SUCCESSORS = 32
LEAST_STEPS = 1000  # before which no run is taken for done


@dataclass(frozen=True, slots=True)
class Queries:
    """What the policy learns from: x float32[N, D] (per-agent log-odds, D = A, or raw features), required bool[N, A], asked
    bool[N, A]. An agent that was not asked is not available in that row. `weight` float64[N], where given, is how often a row is
    drawn in relation to the others. `pairs` float32[F, A, A], where given, is evidence of pairs (`pairs.py`), and `fold` int64[N]
    which of the F each row is shown. Rows of one of the `groups` (N) never judge each other. `needed` float64[N], where it is known,
    are log-odds that anybody is needed, for the exact rule."""

    x: FloatArray
    required: BoolArray
    asked: BoolArray
    weight: NDArray[np.float64] | None = None
    pairs: FloatArray | None = None
    fold: NDArray[np.int64] | None = None
    groups: Sequence[str] = ()
    needed: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.x)

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.int64]:
        """Random rows by weight, int64[count]."""
        if self.weight is None:
            return rng.integers(len(self), size=count)
        up_to = np.cumsum(self.weight)
        return np.minimum(np.searchsorted(up_to, rng.random(count) * up_to[-1], side="right"), len(self) - 1)

    def take(self, rows: NDArray[np.int64]) -> Queries:
        fold = None if self.fold is None else self.fold[rows]
        weight = None if self.weight is None else self.weight[rows]
        needed = None if self.needed is None else self.needed[rows]
        groups = [self.groups[row] for row in rows.tolist()] if self.groups else ()
        x, required, asked = self.x[rows], self.required[rows], self.asked[rows]
        return Queries(x, required, asked, weight, self.pairs, fold, groups, needed)

    def folds(self, count: int, seed: int) -> NDArray[np.int64]:
        """One of so many folds for each row, int64[N]; rows of one group share it."""
        return fold_of_group(self.groups or [str(row) for row in range(len(self))], count, seed)

    def given(self, selected: BoolArray) -> FloatArray:
        """The log-odds of each agent given the selected ones, `policy.conditional` by the W of each row's fold: float32[N, A]."""
        if self.pairs is None or self.fold is None:
            return self.x
        log_odds = np.empty_like(self.x)
        for k in np.unique(self.fold).tolist():
            rows = self.fold == k
            log_odds[rows] = conditional(self.x[rows], self.pairs[k], selected[rows])
        return log_odds


@dataclass(frozen=True, slots=True)
class Tick:
    """Progress of `learn`: the step just done, what was measured there, and all that is needed to go on from here."""

    step: int
    metrics: dict[str, float]
    state: dict[str, NDArray[Any]] | None = None
    meta: dict[str, Any] | None = None
    policy: Policy | None = None


class Values:
    """A network and what it is fed: states as numpy arrays in, tensors out."""

    def __init__(self, network: SharedNetwork | PlainNetwork) -> None:
        self.network = network

    def inputs(
        self, queries: Queries, selected: BoolArray, columns: NDArray[np.int64] | None = None
    ) -> tuple[torch.Tensor, ...]:
        """What the network takes, for B states; selected bool[B, A]. With `columns` int64[B, K] a shared network
        values these K agents of each state only."""
        if isinstance(self.network, PlainNetwork):
            return (torch.from_numpy(np.concatenate([queries.x, selected.astype(np.float32)], axis=-1)),)
        x, p = queries.x, probabilities(queries.x, queries.asked)
        none, by_text = np.exp(np.log1p(-p).sum(axis=-1)), p
        if queries.pairs is not None:
            x = queries.given(selected)
            p = probabilities(x, queries.asked)
        costs = None if self.network.costs is None else np.broadcast_to(self.network.costs, x.shape)
        beside = Beside(by_text, costs) if self.network.beside else None
        shared = context(p, none, selected, beside)
        if columns is not None:
            x, p = np.take_along_axis(x, columns, axis=1), np.take_along_axis(p, columns, axis=1)
            beside = None if beside is None else beside.among(columns)
        return torch.from_numpy(described(x, p, beside)), torch.from_numpy(shared)

    def __call__(self, queries: Queries, selected: BoolArray) -> tuple[torch.Tensor, torch.Tensor]:
        """(values [B, A], STOP [B]) of B states; selected bool[B, A]."""
        values: tuple[torch.Tensor, torch.Tensor] = self.network(*self.inputs(queries, selected))
        return values


def double_dqn_targets(
    online: tuple[NDArray[Any], NDArray[Any]],
    target: tuple[NDArray[Any], NDArray[Any]],
    rewards: FloatArray,
    selectable: BoolArray,
    stoppable: BoolArray,
    gamma: float,
    double: bool = True,
) -> FloatArray:
    """y = r + γ Q_target(s', argmax_a Q_online(s', a)), with STOP among the actions.

    All about n transitions into states s': online and target are (values float32[n, A], STOP float32[n]) of s' by
    the two networks, rewards float32[n], selectable bool[n, A] and stoppable bool[n] what is allowed in s'. STOP joins
    the online network's argmax; what counts is the target network's value of that choice, never its own maximum. Not `double`,
    it is its own maximum, as in DQN (Mnih et al. 2015).
    """
    chooser = online if double else target
    values = np.concatenate([np.where(selectable, chooser[0], -np.inf), chooser[1][:, None]], axis=1)  # (n, A + 1)
    values[~stoppable, -1] = -np.inf
    choice = values.argmax(axis=1)
    judged = np.concatenate([target[0], target[1][:, None]], axis=1)[np.arange(len(choice)), choice]
    return (rewards + gamma * judged).astype(np.float32)


def _prefixes(queries: Queries, rng: np.random.Generator, noise: float) -> BoolArray:
    """States drawn from the log-odds: the first k agents by log-odds plus Gumbel noise, bool[B, A].

    k is uniform from 0 to two more than the log-odds expect. The label has no part in it: were only right agents ever
    selected in training, "selected" would come to mean "correct".
    """
    keys = np.where(queries.asked, queries.x + noise * rng.gumbel(size=queries.x.shape), -np.inf)
    place = np.argsort(np.argsort(-keys, axis=1, kind="stable"), axis=1, kind="stable")
    expected = probabilities(queries.x, queries.asked).sum(axis=1)
    k = np.floor(rng.random(len(queries)) * (expected + 3)).astype(np.int64)
    return (place < k[:, None]) & queries.asked


def _leaking_states(queries: Queries, rng: np.random.Generator) -> BoolArray:
    """The ablation: random subsets of the required set, bool[B, A]."""
    return queries.required & (rng.random(queries.required.shape) < rng.random(len(queries))[:, None])


# Over 60 lines. The whole algorithm, to be read beside the paper from top to bottom.
def learn(
    config: Config,
    env: RoutingEnv,
    train: Queries,
    val: Queries,
    resume: tuple[Mapping[str, NDArray[Any]], Mapping[str, Any]] | None = None,
) -> Iterator[Tick]:
    """Learn a policy from cross-fitted log-odds; the last Tick holds it.

    `resume` is the (state, meta) of an earlier Tick: the run goes on to the same policy as if it had never stopped.
    A Tick comes every `val_eval_freq` steps.
    """
    torch.set_num_threads(1)
    agents = train.required.shape[1]
    rng = np.random.Generator(np.random.PCG64(config.seed))
    generator = torch.Generator().manual_seed(config.seed)
    online: SharedNetwork | PlainNetwork
    if config.shared_network:
        # The last W is that of all rows: it serves, and no row is shown it while learning.
        pairs = None if train.pairs is None else train.pairs[-1]
        online = SharedNetwork(config.hidden_layers, not env.shaped, generator, pairs, env.goal.costs)
    else:
        online = PlainNetwork(train.x.shape[1] + agents, agents, config.hidden_layers, not env.shaped, generator)
    target = copy.deepcopy(online)
    optimizer = Adam(online.parameters(), weight_decay=1e-4)

    walkers = max(1, config.batch_size // 2)  # parallel episodes; the rest of a batch is drawn from the log-odds
    row = train.draw(rng, walkers)
    selected = np.zeros((walkers, agents), np.bool_)
    begin, best, kept_step, losses, log = 0, -np.inf, 0, [0.0, 0.0, 0.0], []
    judged = np.zeros((0, len(val)), np.float32)
    kept: dict[str, torch.Tensor] = {name: t.clone() for name, t in target.state_dict().items()}
    if resume is not None:
        arrays, meta = resume
        restore(arrays, online, target, optimizer, kept)
        row, selected = arrays["row"].copy(), arrays["selected"].copy()
        rng.bit_generator.state = meta["rng"]
        judged = arrays["judged"]
        begin, best, kept_step = meta["step"], meta["best"], meta["kept_step"]
        losses, log = list(meta["losses"]), list(meta["log"])

    act, judge = Values(online), Values(target)
    for step in range(begin + 1, config.total_steps + 1):
        share = max(0.0, 1 - step / config.epsilon_decay_steps)
        epsilon = config.epsilon_end + share * (config.epsilon_start - config.epsilon_end)
        # Cosine decay: the average over the last steps is then an average over small moves.
        rate = config.learning_rate * 0.5 * (1 + np.cos(np.pi * (step - 1) / config.total_steps))

        drawn = train.draw(rng, max(1, config.batch_size - walkers))
        sample = train.take(np.concatenate([row, drawn]))
        if config.label_free:
            masks = _prefixes(train.take(drawn), rng, noise=1.0)
        else:
            masks = _leaking_states(train.take(drawn), rng)
            selected = _leaking_states(train.take(row), rng)
        state = np.concatenate([selected, masks])
        if env.max_agents:
            # A drawn state may exceed the limit: it starts empty instead.
            state[state.sum(axis=1) > env.max_agents] = False
        if env.allowed is not None:
            # Nor do states that no walk comes to.
            state[~env.allowed.leads(state)] = False
        open_ = env.selectable(state, sample.asked)  # (B, A)

        q, stop = act(sample, state)
        q_now = q.detach().numpy()
        choice = _choose(env, sample.asked, state, q_now, stop.detach().numpy(), epsilon, rng)  # (B)
        batch = Batch(sample, state, open_, q_now, choice)
        y, learnt = _targets(env, config, act, judge, batch, rng)  # (B, A), bool (B, A)
        difference = torch.where(torch.from_numpy(learnt), q - torch.from_numpy(y), 0.0)
        loss = (difference**2).sum() / max(1, int(learnt.sum()))
        if not env.shaped:
            pays = env.stop_rewards(state, sample.required & sample.asked, rng)
            loss = loss + ((stop - torch.from_numpy(pays)) ** 2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(online.parameters(), 1.0)
        optimizer.step(rate)
        error = float(difference.detach().abs().sum()) / max(1, int(learnt.sum()))
        losses = [losses[0] + float(loss.detach()), losses[1] + error, losses[2] + 1]

        follow(target, online, config, step)

        # The walkers take one epsilon-greedy step each; who stops starts again at another query.
        row, selected = _walk(env, train, row, state[:walkers], choice[:walkers], rng)

        last = step == config.total_steps
        if step % config.val_eval_freq == 0 or last:
            figures, worth = measured(target.policy(), env, val)
            metrics = {"loss": losses[0] / losses[2], "td_error": losses[1] / losses[2], "epsilon": epsilon, **figures}
            losses = [0.0, 0.0, 0.0]
            judged = np.concatenate([judged, worth[None]])
            log.append({"step": step, **metrics})
            last |= flat(config, log)
            # Early networks have not averaged enough steps to be compared fairly by their targets alone.
            score = figures.get("val_goal", float(step))
            if not config.save_best or score >= best:
                best, kept_step = score, step
                kept = {name: t.clone() for name, t in target.state_dict().items()}
            meta = {"step": step, "best": best, "kept_step": kept_step, "losses": losses, "log": log}
            meta["rng"] = rng.bit_generator.state
            arrays = saved_state(online, target, optimizer, kept) | {"row": row, "selected": selected, "judged": judged}
            policy = None
            if last:
                target.load_state_dict(kept)
                policy = target.policy()
            yield Tick(step, metrics, arrays, copy.deepcopy(meta), policy)
            if last:
                return


def follow(target: nn.Module, online: nn.Module, config: Config, step: int) -> None:
    """Move the target network: by Polyak averaging, θ⁻ ← (1 - τ) θ⁻ + τ θ, or without τ to a copy every `target_update_freq` steps."""
    with torch.no_grad():
        if config.tau:
            for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
                slow.lerp_(fast, config.tau)
        elif step % config.target_update_freq == 0:
            target.load_state_dict(online.state_dict())


def flat(config: Config, log: list[dict[str, float]]) -> bool:
    """Whether validation has stopped to rise: its best value was met `patience` measurements ago, LEAST_STEPS steps are done."""
    if not config.patience or log[-1]["step"] < LEAST_STEPS or "val_goal" not in log[-1]:
        return False
    goals = [entry["val_goal"] for entry in log]
    return len(goals) - 1 - goals.index(max(goals)) >= config.patience


class Batch(NamedTuple):
    """B states of the walk: each one's query, the agents selected bool[B, A], those that may be selected next bool[B, A], the online
    network's values float32[B, A], and the action that the walker takes int64[B]."""

    queries: Queries
    state: BoolArray
    open_: BoolArray
    q: NDArray[Any]
    choice: NDArray[np.int64]


def _targets(
    env: RoutingEnv, config: Config, act: Values, judge: Values, batch: Batch, rng: np.random.Generator
) -> tuple[FloatArray, BoolArray]:
    """Targets of all actions of B states: (y float32[B, A], which of them are learnt bool[B, A])."""
    sample, state, open_, q_now, choice = batch
    count, agents = state.shape
    learnt, columns = open_, None
    if agents > SAMPLED_SUCCESSORS and config.shared_network:
        # As a served walk: the next agent is one of the likeliest that are left, one more of them here, as the taken one goes.
        columns = likeliest_first(sample.x, open_)[:, : SAMPLED_SUCCESSORS + 1]
    if not config.all_actions:
        # The ablation: the taken action only.
        learnt = open_ & (np.arange(agents) == choice[:, None])
    elif agents > SAMPLED_SUCCESSORS:
        # Half of the successors are those that the network would take, half are drawn at random.
        place = _place_by(np.where(open_, q_now, -np.inf))
        half = SAMPLED_SUCCESSORS // 2
        others = _place_by(np.where(open_ & (place >= half), rng.random(q_now.shape), -1.0))
        learnt = open_ & ((place < half) | (others < half))
    b, a = np.nonzero(learnt)
    y = np.zeros((count, agents), np.float32)
    if not len(b):
        return y, learnt
    required = sample.required & sample.asked
    rewards = env.selection_rewards(state, required, sample.asked)[b, a]
    successor = state[b]  # (n, A)
    successor[np.arange(len(b)), a] = True
    after = sample.take(b)
    selectable = env.selectable(successor, after.asked)
    among = None
    if columns is not None:
        among = columns[b]  # (n, K)
        selectable = np.take_along_axis(selectable, among, axis=1)
        # An agent from outside the list leaves one too many in it.
        selectable[:, -1] &= (among == a[:, None]).any(axis=1)
    with torch.no_grad():
        inputs = act.inputs(after, successor, among)
        online, target = act.network(*inputs), judge.network(*inputs)
    y[b, a] = double_dqn_targets(
        (online[0].numpy(), online[1].numpy()),
        (target[0].numpy(), target[1].numpy()),
        rewards,
        selectable,
        env.stoppable(successor, after.asked),
        config.gamma,
        config.double_targets,
    )
    return y, learnt


def _place_by(keys: FloatArray) -> NDArray[np.int64]:
    """The place of each agent by falling keys, int64[B, A]."""
    return np.argsort(np.argsort(-keys, axis=1, kind="stable"), axis=1, kind="stable")


def _choose(
    env: RoutingEnv,
    asked: BoolArray,
    state: BoolArray,
    q: NDArray[Any],
    stop: NDArray[Any],
    epsilon: float,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """The ε-greedy action in each state, int64[B]; A is STOP."""
    open_, may_stop = env.selectable(state, asked), env.stoppable(state, asked)
    values = np.concatenate([np.where(open_, q, -np.inf), np.where(may_stop, stop, -np.inf)[:, None]], axis=1)
    allowed = np.concatenate([open_, may_stop[:, None]], axis=1)
    random = np.where(allowed, rng.random(values.shape), -1.0)
    explore = rng.random(len(state)) < epsilon
    return np.where(explore, random.argmax(axis=1), values.argmax(axis=1))


def _walk(
    env: RoutingEnv,
    train: Queries,
    row: NDArray[np.int64],
    selected: BoolArray,
    choice: NDArray[np.int64],
    rng: np.random.Generator,
) -> tuple[NDArray[np.int64], BoolArray]:
    """One step of every walker by its `choice`: (row int64[W], selected bool[W, A]) of the states they come to."""
    ended = choice == selected.shape[1]
    selected = selected.copy()
    selected[np.flatnonzero(~ended), choice[~ended]] = True
    ended |= ~env.selectable(selected, train.asked[row]).any(axis=1)
    selected[ended] = False
    return np.where(ended, train.draw(rng, len(row)), row), selected


def measured(policy: Policy, env: RoutingEnv, val: Queries) -> tuple[dict[str, float], FloatArray]:
    """What a policy does on validation: ({} without rows; mean Jaccard, exact match and steps, `val_goal` what its sets are worth, and
    where the return is the final worth itself `q_start`, the value that the policy expects at the start, and `overestimation`, by how
    much that is above what it gets), what each set is worth float32[N])."""
    if not len(val):
        return {}, np.zeros(0, np.float32)
    chosen, _, steps = greedy(policy, val.x, None, val.asked, env.limits)
    required = val.required & val.asked
    worth = env.goal.utility(chosen, required)
    figures = {
        "val_jaccard": float(jaccard(chosen, required).mean()),
        "val_exact": float((chosen == required).all(axis=1).mean()),
        "val_steps": float(steps.mean()),
        "val_goal": float(worth.mean()),
    }
    if env.shaped and env.gamma == 1:
        start = np.zeros_like(chosen)
        q, _ = policy.values(val.x, None, start, val.asked)
        expects = np.where(val.asked, q, -np.inf).max(axis=1)
        expects = expects if env.min_agents else np.maximum(expects, 0)
        gets = worth - env.goal.utility(start, required)
        figures |= {"q_start": float(expects.mean()), "overestimation": float((expects - gets).mean())}
    return figures, worth


def saved_state(
    online: nn.Module, target: nn.Module, optimizer: Adam, kept: Mapping[str, torch.Tensor]
) -> dict[str, NDArray[Any]]:
    """Everything that changes while learning, as arrays."""
    arrays = {f"online.{name}": t.numpy().copy() for name, t in online.state_dict().items()}
    arrays |= {f"target.{name}": t.numpy().copy() for name, t in target.state_dict().items()}
    arrays |= {f"best.{name}": t.numpy().copy() for name, t in kept.items()}
    return arrays | {f"adam.{name}": array for name, array in optimizer.arrays().items()}


def restore(
    arrays: Mapping[str, NDArray[Any]],
    online: nn.Module,
    target: nn.Module,
    optimizer: Adam,
    kept: dict[str, torch.Tensor],
) -> None:
    def part(prefix: str) -> dict[str, torch.Tensor]:
        named = {name: a for name, a in arrays.items() if name.startswith(prefix)}
        return {name.removeprefix(prefix): torch.from_numpy(np.array(a)) for name, a in named.items()}

    online.load_state_dict(part("online."))
    target.load_state_dict(part("target."))
    kept.clear()
    kept.update(part("best."))
    optimizer.restore({name.removeprefix("adam."): a for name, a in arrays.items() if name.startswith("adam.")})
