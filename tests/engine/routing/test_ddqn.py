from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
import torch

from training_app.engine.config import Config
from training_app.engine.data.metrics import jaccard
from training_app.engine.routing.allowed import SetLimits
from training_app.engine.routing.ddqn import Queries, Values, _prefixes, double_dqn_targets, learn
from training_app.engine.routing.env import RoutingEnv
from training_app.engine.routing.goals import Goal
from training_app.engine.routing.networks import SharedNetwork
from training_app.engine.routing.policy import SHORTLIST, PlainPolicy, SharedPolicy, load_policy
from training_app.engine.routing.walking import greedy, of_one

pytestmark = pytest.mark.computes_long

QUICK = {"total_steps": 300, "epsilon_decay_steps": 150, "val_eval_freq": 100, "learning_rate": 0.01}


def known(count: int, agents: int, seed: int, noise: float = 0.0) -> Queries:
    """Queries whose log-odds tell the required set: plus or minus four, with noise."""
    rng = np.random.default_rng(seed)
    required = rng.random((count, agents)) < 0.4
    x = np.where(required, 4.0, -4.0) + noise * rng.normal(size=(count, agents))
    return Queries(x.astype(np.float32), required, np.ones_like(required))


def run(config: Config, env: RoutingEnv, queries: Queries, val: Queries, resume=None) -> list:
    return list(learn(config, env, queries, val, resume))


def solved(policy, env: RoutingEnv, val: Queries) -> float:
    chosen, _, _ = greedy(policy, val.x, None, val.asked, env.limits)
    return float(jaccard(chosen, val.required).mean())


def test_targets_of_a_hand_worked_example() -> None:
    # Three transitions into states with agents 0 and 1, γ = 0.9.
    #  1: online prefers agent 1 (0.5 > 0.2 > STOP 0); the target network says 0.3 of it: 0.1 + 0.9 * 0.3 = 0.37,
    #     although the target's own maximum is 0.8.
    #  2: both are below STOP's 0: STOP, worth 0: -0.2. Not max(0, target), which would be -0.2 + 0.9 * 0.4.
    #  3: agent 0 is taken already, STOP is barred: agent 1 though negative: 0.05 + 0.9 * -0.5 = -0.4.
    online = (np.array([[0.2, 0.5], [-0.1, -0.3], [0.9, -0.2]]), np.zeros(3))
    target = (np.array([[0.8, 0.3], [0.4, 0.1], [0.7, -0.5]]), np.zeros(3))
    selectable = np.array([[True, True], [True, True], [False, True]])
    stoppable = np.array([True, True, False])
    rewards = np.array([0.1, -0.2, 0.05], np.float32)
    found = double_dqn_targets(online, target, rewards, selectable, stoppable, 0.9)
    assert found.tolist() == pytest.approx([0.37, -0.2, -0.4])


def test_without_double_targets_the_target_network_chooses_for_itself() -> None:
    online, target = (np.array([[0.2, 0.5]]), np.zeros(1)), (np.array([[0.8, 0.3]]), np.zeros(1))
    open_, rewards = np.ones((1, 2), np.bool_), np.array([0.1], np.float32)
    found = double_dqn_targets(online, target, rewards, open_, np.array([True]), 0.9, double=False)
    assert found.tolist() == pytest.approx([0.1 + 0.9 * 0.8])


def test_targets_take_a_learnt_value_of_stop() -> None:
    online = (np.array([[0.2]]), np.array([0.6]))
    target = (np.array([[0.9]]), np.array([0.5]))
    found = double_dqn_targets(online, target, np.zeros(1, np.float32), np.array([[True]]), np.array([True]), 1.0)
    assert found.tolist() == pytest.approx([0.5])


@pytest.mark.at_length
@pytest.mark.parametrize("shared", [True, False])
def test_identity_environment_is_solved(shared: bool) -> None:
    env = RoutingEnv(3)
    last = run(Config.from_mapping({**QUICK, "shared_network": shared}), env, known(300, 3, 0), known(50, 3, 1))[-1]
    assert isinstance(last.policy, SharedPolicy if shared else PlainPolicy)
    assert solved(last.policy, env, known(200, 3, 2)) > (0.99 if shared else 0.8)


@pytest.mark.at_length
@pytest.mark.parametrize("mode", ["jaccard", "log", "stochastic"])
def test_unshaped_modes_learn_when_to_stop(mode: str) -> None:
    cost = 0.02 if mode != "stochastic" else 0.1
    env = RoutingEnv(3, mode, step_cost=cost)
    config = Config.from_mapping({**QUICK, "reward_mode": mode, "step_cost": cost, "total_steps": 300})
    last = run(config, env, known(300, 3, 0), known(50, 3, 1))[-1]
    assert last.policy.stop
    assert solved(last.policy, env, known(200, 3, 2)) > (0.9 if mode != "stochastic" else 0.5)


@pytest.mark.at_length
def test_above_32_agents_successors_are_sampled() -> None:
    env = RoutingEnv(36)
    config = Config.from_mapping({**QUICK, "batch_size": 8, "hidden_layers": (16, 16)})
    rng = np.random.default_rng(0)

    def sparse(count: int) -> Queries:
        required = rng.random((count, 36)) < 0.08
        x = np.where(required, 4.0, -4.0).astype(np.float32)
        return Queries(x, required, np.ones_like(required))

    last = run(config, env, sparse(200), sparse(30))[-1]
    # Starting from no agent, nearly every required one has to be found among those sampled.
    assert solved(last.policy, env, sparse(50)) > 0.9


def test_some_agents_of_a_state_are_valued_as_among_all() -> None:
    queries, rng = known(20, 7, 0, noise=2.0), np.random.default_rng(1)
    values = Values(SharedNetwork((8,), True, torch.Generator().manual_seed(0)))
    selected = rng.random((20, 7)) < 0.3
    columns = np.stack([rng.permutation(7)[:3] for _ in range(20)])
    with torch.no_grad():
        q, stop = values(queries, selected)
        some, same = values.network(*values.inputs(queries, selected, columns))
    assert some.numpy() == pytest.approx(np.take_along_axis(q.numpy(), columns, axis=1), abs=1e-6)
    assert np.array_equal(stop, same)


def test_limits_hold() -> None:
    env = RoutingEnv(4, min_agents=1, max_agents=2)
    last = run(Config.from_mapping({**QUICK, "total_steps": 150}), env, known(200, 4, 0), known(40, 4, 1))[-1]
    val = known(100, 4, 3)
    chosen, order, steps = greedy(last.policy, val.x, None, val.asked, SetLimits(1, 2))
    sizes = chosen.sum(axis=1)
    assert set(sizes.tolist()) == {1, 2}
    assert (order[np.arange(100), 0] >= 0).all()
    assert (steps == np.where(sizes == 2, 2, 2)).all()


def test_the_same_seed_gives_the_same_network_and_another_one_does_not() -> None:
    env, data, val = RoutingEnv(3), known(60, 3, 0, noise=2.0), known(20, 3, 1)
    config = Config.from_mapping({**QUICK, "total_steps": 40, "val_eval_freq": 20})
    one, two = (run(config, env, data, val)[-1].policy.tensors() for _ in range(2))
    other = run(dataclasses.replace(config, seed=5), env, data, val)[-1].policy.tensors()
    assert all(np.array_equal(one[name], two[name]) for name in one)
    assert not all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        pytest.param({"tau": 0.0, "target_update_freq": 7}, marks=pytest.mark.at_length),
        pytest.param({"reward_mode": "stochastic"}, marks=pytest.mark.at_length),
    ],
)
def test_a_resumed_run_ends_where_an_uninterrupted_one_does(changes: dict) -> None:
    config = Config.from_mapping({**QUICK, "total_steps": 60, "val_eval_freq": 20, **changes})
    env, data, val = RoutingEnv(3, config.reward_mode), known(60, 3, 0, noise=2.0), known(20, 3, 1)
    whole = run(config, env, data, val)
    resumed = run(config, env, data, val, (whole[0].state, whole[0].meta))
    assert [tick.step for tick in resumed] == [40, 60]
    assert [tick.metrics for tick in resumed] == [tick.metrics for tick in whole[1:]]
    one, two = whole[-1].policy.tensors(), resumed[-1].policy.tensors()
    assert all(np.array_equal(one[name], two[name]) for name in one)


def test_states_are_drawn_without_the_label() -> None:
    data = known(400, 6, 0, noise=3.0)
    masks = _prefixes(data, np.random.Generator(np.random.PCG64(0)), 1.0)
    relabeled = dataclasses.replace(data, required=~data.required)
    again = _prefixes(relabeled, np.random.Generator(np.random.PCG64(0)), 1.0)
    assert np.array_equal(masks, again)
    # Wrong agents are among the selected: "selected" must not come to mean "correct".
    assert (masks & ~data.required).any()
    assert masks.any(axis=1).mean() > 0.3


def test_agents_that_were_not_asked_are_never_selected_nor_learnt_from() -> None:
    data = known(100, 4, 0)
    asked = np.ones_like(data.required)
    asked[:, 2] = False
    hidden = dataclasses.replace(data, asked=asked)
    lied = dataclasses.replace(hidden, required=np.where(asked, data.required, ~data.required))
    assert not _prefixes(hidden, np.random.Generator(np.random.PCG64(0)), 1.0)[:, 2].any()
    config = Config.from_mapping({**QUICK, "total_steps": 60, "val_eval_freq": 30})
    val = known(20, 4, 1)
    one, two = (run(config, RoutingEnv(4), d, val)[-1].policy.tensors() for d in (hidden, lied))
    assert all(np.array_equal(one[name], two[name]) for name in one)


def test_the_best_network_on_validation_is_kept_only_where_asked() -> None:
    env, data, val = RoutingEnv(3), known(60, 3, 0, noise=3.0), known(30, 3, 1, noise=3.0)
    config = Config.from_mapping({**QUICK, "total_steps": 200, "val_eval_freq": 10})
    ticks = run(config, env, data, val)
    best = max(tick.metrics["val_jaccard"] for tick in ticks)
    assert solved(ticks[-1].policy, env, val) == pytest.approx(best)
    last = run(dataclasses.replace(config, save_best=False), env, data, val)[-1]
    assert solved(last.policy, env, val) == pytest.approx(last.metrics["val_jaccard"])


def test_rare_rows_are_drawn_as_often_as_their_weight_says() -> None:
    data = dataclasses.replace(known(10, 3, 0), weight=np.array([9.0] + [1.0] * 9))
    drawn = data.draw(np.random.Generator(np.random.PCG64(0)), 4000)
    assert (drawn == 0).mean() == pytest.approx(0.5, abs=0.04)


def test_a_run_says_what_it_expects_and_what_it_gets() -> None:
    env, data, val = RoutingEnv(3), known(60, 3, 0, noise=2.0), known(20, 3, 1)
    last = run(Config.from_mapping({**QUICK, "total_steps": 200}), env, data, val)[-1]
    entry = last.meta["log"][-1]
    start = np.zeros_like(val.required)
    q, _ = last.policy.values(val.x, None, start, val.asked)
    expects = np.maximum(q.max(axis=1), 0).mean()
    gets = solved(last.policy, env, val) - jaccard(start, val.required).mean()
    kept = next(e for e in last.meta["log"] if e["step"] == last.meta["kept_step"])
    assert kept["q_start"] == pytest.approx(float(expects), abs=1e-5)
    assert kept["overestimation"] == pytest.approx(float(expects - gets), abs=1e-5)
    assert entry["td_error"] > 0


@pytest.mark.at_length
def test_of_equally_good_networks_the_last_is_kept_and_named() -> None:
    env, data, val = RoutingEnv(3), known(200, 3, 0), known(30, 3, 1)
    config = Config.from_mapping({**QUICK, "total_steps": 400, "val_eval_freq": 50})
    meta = run(config, env, data, val)[-1].meta
    goals = [entry["val_goal"] for entry in meta["log"]]
    assert goals.count(max(goals)) > 1
    assert meta["kept_step"] == max(e["step"] for e in meta["log"] if e["val_goal"] == max(goals))


@pytest.mark.at_length
def test_a_run_ends_where_validation_has_stopped_to_rise() -> None:
    env, data, val = RoutingEnv(3), known(200, 3, 0), known(30, 3, 1)
    config = Config.from_mapping({**QUICK, "total_steps": 2000, "patience": 2})
    assert run(config, env, data, val)[-1].step == 1000
    assert run(dataclasses.replace(config, patience=0, total_steps=1200), env, data, val)[-1].step == 1200


def promising(network: SharedNetwork) -> None:
    """A network that sees more than log-odds begins with nothing promised: give it a last layer."""
    assert not network.q[-1].weight.any()
    with torch.no_grad():
        network.q[-1].weight.normal_(generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("margin", [-0.3, 0.0, 0.2])
def test_pairs_move_the_log_odds_alike_in_torch_and_in_numpy(margin: float) -> None:
    rng = np.random.default_rng(0)
    pairs = rng.normal(size=(2, 6, 6)).astype(np.float32)
    network = SharedNetwork((8, 8), False, torch.Generator().manual_seed(0), pairs[-1])
    promising(network)
    data = known(40, 6, 0, noise=3.0)
    selected, available = rng.random((40, 6)) < 0.3, rng.random((40, 6)) < 0.9
    data = dataclasses.replace(data, asked=available, pairs=pairs, fold=np.ones(40, np.int64))
    with torch.no_grad():
        q, _ = Values(network)(data, selected)
    policy = load_policy(network.policy().config(), network.policy().tensors())
    served, _ = policy.values(data.x, None, selected, available)
    assert served == pytest.approx(q.numpy(), abs=1e-5)
    order = greedy(policy, data.x, None, available, SetLimits(margin=margin))[1]
    walks = [of_one(policy, data.x[i], None, available[i], SetLimits(margin=margin))[0] for i in range(40)]
    assert walks == [[a for a in row.tolist() if a >= 0] for row in order]


@pytest.mark.parametrize(("agents", "paired"), [(6, True), (6, False), (SHORTLIST + 9, False)])
def test_what_agents_cost_is_seen_alike_in_torch_and_in_numpy(agents: int, paired: bool) -> None:
    rng = np.random.default_rng(0)
    pairs = rng.normal(size=(2, agents, agents)).astype(np.float32) if paired else None
    costs = rng.random(agents).astype(np.float32)
    network = SharedNetwork(
        (8, 8), False, torch.Generator().manual_seed(0), None if pairs is None else pairs[-1], costs
    )
    promising(network)
    data = known(40, agents, 0, noise=3.0)
    selected, available = rng.random((40, agents)) < 0.3, rng.random((40, agents)) < 0.9
    data = dataclasses.replace(data, asked=available, pairs=pairs, fold=np.ones(40, np.int64))
    with torch.no_grad():
        q, _ = Values(network)(data, selected)
    policy = load_policy(network.policy().config(), network.policy().tensors())
    served, _ = policy.values(data.x, None, selected, available)
    assert served == pytest.approx(q.numpy(), abs=1e-5)
    chosen, order, _ = greedy(policy, data.x, None, available)
    assert 0 < chosen.sum() < chosen.size
    # Among the likeliest of a large pool each agent keeps its own cost: all of them in one list take the same.
    walks = [of_one(policy, data.x[i], None, available[i])[0] for i in range(40)]
    assert walks == [[a for a in row.tolist() if a >= 0] for row in order]
    first = np.where(available, policy.values(data.x, None, np.zeros_like(available), available)[0], -np.inf)
    took = [walk[0] for walk in walks if walk]
    within = np.argsort(np.argsort(np.where(available, -data.x, np.inf), axis=1, kind="stable"), axis=1) < SHORTLIST
    best = np.where(within, first, -np.inf).argmax(axis=1)
    assert took == [a for a, walk in zip(best.tolist(), walks, strict=True) if walk]


def test_of_two_as_likely_agents_the_cheap_one_is_taken() -> None:
    """All are needed in two queries of five, whatever the log-odds: at 0.02 that is worth it, at 0.6 it is not."""
    rng = np.random.default_rng(0)
    required = rng.random((400, 4)) < 0.4
    x = np.full((400, 4), np.log(0.4 / 0.6), np.float32)
    data = Queries(x, required, np.ones_like(required))
    env = RoutingEnv(4, goal=Goal("value", np.array([0.02, 0.6, 0.02, 0.6], np.float32)))
    policy = run(Config.from_mapping(QUICK | {"goal": "value"}), env, data, data)[-1].policy
    assert of_one(policy, x[0], None, np.ones(4, np.bool_))[0] in ([0, 2], [2, 0])


def test_policies_from_before_the_text_alone_was_seen_still_answer() -> None:
    rng = np.random.default_rng(0)
    plain = random_policy(0, 5, False)
    old = dataclasses.replace(plain, pairs=rng.normal(size=(5, 5)).astype(np.float32))
    config = {k: v for k, v in old.config().items() if k != "beside"}
    x, every = rng.normal(size=(1, 5)).astype(np.float32), np.ones((1, 5), np.bool_)
    for policy in (old, load_policy(config, old.tensors())):
        assert np.isfinite(policy.values(x, None, ~every, every)[0]).all()
    # Its layers are too narrow for what it would be shown.
    with pytest.raises(ValueError, match=r"matmul|shapes"):
        load_policy(config | {"beside": True}, old.tensors()).values(x, None, ~every, every)


def random_policy(seed: int, agents: int, stop: bool, hidden: tuple[int, ...] = (8, 8)) -> SharedPolicy:
    rng = np.random.default_rng(seed)

    def layers(*sizes: int) -> tuple:
        return tuple(
            (rng.normal(size=(a, b)).astype(np.float32), rng.normal(size=b).astype(np.float32))
            for a, b in itertools.pairwise(sizes)
        )

    return SharedPolicy(layers(9, *hidden, 1), layers(7, 8, 1) if stop else ())


@pytest.mark.parametrize("stop", [False, True])
@pytest.mark.parametrize("limits", [(0, 0), (2, 0), (0, 2), (1, 3), (0, 9)])
@pytest.mark.parametrize(
    ("agents", "hidden"), [(6, ()), (6, (8,)), (6, (8, 8)), (SHORTLIST, (8,)), (SHORTLIST + 9, (8, 8))]
)
def test_one_query_walks_as_a_batch_does(
    stop: bool, limits: tuple[int, int], agents: int, hidden: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    low, high = limits
    for seed in range(10):
        policy = random_policy(seed, agents, stop, hidden=hidden)
        x = (4 * rng.normal(size=(20, agents))).astype(np.float32)
        available = rng.random((20, agents)) < 0.8
        none = np.zeros((20, 0), np.float32)
        chosen, order, steps = greedy(policy, x, none, available, SetLimits(low, high, 0.1))
        for i in range(20):
            walk, count, full = policy.walk(x[i], available[i], SetLimits(low, high, 0.1))
            assert walk == [a for a in order[i].tolist() if a >= 0]
            assert sorted(walk) == np.flatnonzero(chosen[i]).tolist()
            assert count == steps[i]
            assert full == (high != 0 and high <= agents and len(walk) == high)
        assert not (chosen & ~available).any()


def test_in_a_large_pool_each_agent_is_one_of_the_likeliest_left() -> None:
    agents = SHORTLIST + 20
    # f = -x_a: the least likely agent is worth most, and all are worth more than STOP.
    first = np.zeros((9, 1), np.float32)
    first[0] = -1
    policy = SharedPolicy(((first, np.full(1, 2, np.float32)),))
    x = np.linspace(3, -3, agents, dtype=np.float32)[::-1].copy()  # the last agent is the likeliest
    walk, _, _ = policy.walk(x, np.ones(agents, np.bool_))
    first_taken, *others = walk
    assert first_taken == agents - SHORTLIST
    assert others == [*range(agents - SHORTLIST - 1, -1, -1), *range(agents - SHORTLIST + 1, agents)]


def test_nobody_so_unlikely_joins_others() -> None:
    """A network that thinks everybody is worth taking, in a state that it never learnt from, does not take them all."""
    policy = SharedPolicy(((np.zeros((9, 1), np.float32), np.ones(1, np.float32)),))
    x = np.array([-9, 2, -12, -3, -8], np.float32)
    every = np.ones(5, np.bool_)
    assert sorted(policy.walk(x, every)[0]) == [0, 1, 3]  # the first of equals may be anybody
    assert sorted(policy.walk(x, every, SetLimits(4))[0])[:4] == [0, 1, 2, 3]
    together = greedy(policy, x[None], x[None, :0], every[None])[0]
    assert np.flatnonzero(together[0]).tolist() == [0, 1, 3]


def test_policies_load_as_they_were_saved() -> None:
    policy = random_policy(0, 4, True)
    again = load_policy(policy.config(), policy.tensors())
    x = np.zeros((1, 4), np.float32)
    off = np.zeros((1, 4), np.bool_)
    for ours, theirs in zip(policy.values(x, None, off, ~off), again.values(x, None, off, ~off), strict=True):
        assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("damage", ["missing", "shape", "kind", "costs"])
def test_damaged_policies_are_refused(damage: str) -> None:
    policy = random_policy(0, 4, False)
    config, tensors = policy.config(), policy.tensors()
    if damage == "missing":
        del tensors["q.1.bias"]
    elif damage == "shape":
        tensors["q.1.weights"] = tensors["q.1.weights"][:3]
    elif damage == "costs":
        tensors["costs"] = np.zeros((2, 2), np.float32)
    else:
        config["kind"] = "other"
    with pytest.raises(ValueError, match="policy"):
        load_policy(config, tensors)
