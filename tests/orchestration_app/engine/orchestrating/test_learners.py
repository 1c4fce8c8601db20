"""Both learners against a pool whose best path is known, and the optimum, the baselines and the environment that they stand on."""

import dataclasses

import numpy as np
import pytest

from orchestration_app.engine.orchestrating import baselines
from orchestration_app.engine.orchestrating.environment import SimulatedWorld, by_network, walk
from orchestration_app.engine.orchestrating.optimum import Optimum, best_fixed_path, best_sets, fixed_path
from orchestration_app.engine.orchestrating.policy import Orchestrator
from orchestration_app.engine.orchestrating.reinforce import measured
from orchestration_app.engine.orchestrating.rewards import Reward
from orchestration_app.engine.orchestrating.support import SENIOR, detour_pool, support_pool
from orchestration_app.engine.orchestrating.training import Problem, train_policy
from orchestration_app.engine.orchestrator_config import OrchestratorConfig
from tests.orchestration_app.engine.orchestrating.pools import simulated
from training_app.engine.progress import Result

pytestmark = pytest.mark.any_database


@pytest.mark.at_length
@pytest.mark.parametrize(
    ("learner", "settings"), [("reinforce", {"updates": 100}), ("evolution", {"updates": 30, "episodes": 24})]
)
def test_both_learners_come_within_two_percent_of_the_known_best_path(learner: str, settings: dict[str, int]) -> None:
    pool = detour_pool(experts=3)
    config = OrchestratorConfig.from_mapping({"learner": learner, "max_steps": pool.max_steps, **settings})
    world = SimulatedWorld(pool)
    tasks = tuple(pool.tasks(800, 1))
    result: Result | None = None
    for progress in train_policy(config, Problem(pool.agents, world, tasks[:500], tasks[500:650], tasks[650:])):
        result = progress.result or result
    assert result is not None
    card = result.scorecard
    best = Optimum(pool, Reward()).value()
    assert (best.reward, best.steps) == (pytest.approx(0.7), 3)
    assert card["metrics"]["reward"]["mean"] > best.reward * 0.98
    assert card["baselines"]["random"]["difference"]["reward"]["low"] > 0.5
    # The strongest fixed path that there is, so every fixed path.
    assert card["baselines"]["fixed_order"]["difference"]["reward"]["low"] > 0.5
    again = Orchestrator.load(result.artifact)
    # What was learnt from the imitation on, whichever of the two was kept.
    assert again.version_info["kept"] in (learner, "imitation")
    assert card["log"][-1]["val_reward"] > best.reward * 0.98


def test_the_optimum_is_above_every_baseline_and_what_walks_by_it_gets_it() -> None:
    pool = support_pool()
    reward = Reward()
    optimum = Optimum(pool, reward, max_steps=4)
    expected = optimum.value()
    environment = simulated(pool, 1500)
    environment = dataclasses.replace(environment, orchestrator=_four_steps(environment.orchestrator))
    walked = measured(environment, walk(environment, baselines.optimal(optimum), range(1500), keep=False))
    assert walked["reward"] == pytest.approx(expected.reward, abs=0.06)
    path, fixed = best_fixed_path(pool, reward, longest=2)
    assert fixed.reward < expected.reward
    assert path == (SENIOR,)
    for kind, chosen in zip(pool.kinds, best_sets(pool, reward), strict=True):
        assert fixed_path(pool, chosen, kind.prior, reward).reward < optimum.from_belief(kind.prior, 0)[1].reward


def _four_steps(orchestrator: Orchestrator) -> Orchestrator:
    return Orchestrator(orchestrator.agents, orchestrator.reader, orchestrator.network, repeats=4, max_steps=4)


def test_a_dearer_price_never_makes_the_optimum_spend_more() -> None:
    pool = support_pool()
    costs = [Optimum(pool, Reward(price=price), max_steps=3).value().cost for price in (0.02, 0.1, 0.3, 0.5)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1] + 0.5


def test_a_simulated_agent_is_a_pure_function() -> None:
    pool = support_pool()
    task = pool.tasks(1, 7)[0]
    assert pool.respond(task, [0, 1], 4) == pool.respond(task, [0, 1], 4)
    assert pool.tasks(50, 7) == pool.tasks(50, 7)
    assert len(set(pool.tasks(500, 7))) == 500
    said = {pool.respond(text, [], 0).output for text in pool.tasks(200, 1)}
    assert len(said) > 3
    free = pool.respond("my toaster sings", [], 0)
    assert free.output or free.failed


def test_the_checker_mostly_knows() -> None:
    pool = support_pool()
    right = {True: [], False: []}
    for task in pool.tasks(800, 3):
        check = pool.respond(task, [1], 4)
        if not check.failed:
            right[pool.succeeds(task, [1])].append("holds" in check.output or "fits" in check.output)
    assert np.mean(right[True]) > 0.9
    assert np.mean(right[False]) < 0.1


def test_baselines_walk_as_they_say() -> None:
    environment = simulated(support_pool(), 30)
    fixed = walk(environment, baselines.fixed_order((0, 4)), range(30), keep=False)
    assert {tuple(call.agent for call in made.calls) for made in fixed} == {(0, 4)}
    one_shot = np.zeros((30, 6), np.float32)
    one_shot[:, [5, 1]] = 1
    environment = dataclasses.replace(environment, tasks=dataclasses.replace(environment.tasks, one_shot=one_shot))
    shot = walk(environment, baselines.one_shot(), range(30), keep=False)
    assert {tuple(call.agent for call in made.calls) for made in shot} == {(1, 5)}


def test_a_language_model_that_orchestrates_is_not_believed_unchecked() -> None:
    class Says:
        def __init__(self, *texts: str) -> None:
            self.texts, self.asked = list(texts), []

        def complete(self, messages: list[dict[str, str]], schema: object = None, *, key: str = "") -> object:
            self.asked.append(messages[-1]["content"])
            return type("Said", (), {"text": self.texts.pop(0)})()

    environment = simulated(support_pool(), 1)
    client = Says('Sure: {"next": 0}', '{"next": 5}', '{"next": null}')
    made = walk(environment, baselines.llm(client, environment.world.agents), [0], keep=False)[0]
    assert [call.agent for call in made.calls] == [0, 5]
    assert environment.tasks.texts[0] in client.asked[0]
    for nonsense in ("I think so", '{"next": 99}', '{"next": true}', "{}"):
        made = walk(environment, baselines.llm(Says(nonsense), environment.world.agents), [0], keep=False)[0]
        assert made.calls == ()


def test_a_budget_bars_what_it_does_not_hold() -> None:
    environment = dataclasses.replace(simulated(support_pool(), 40), budget=1.5)
    walks = walk(environment, by_network(environment.orchestrator.network, np.random.default_rng(0)), range(40))
    assert len(walks) == 40
    assert 0 < max(made.money for made in walks) <= 1.5
