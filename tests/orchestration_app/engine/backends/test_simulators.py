"""The simulators and what is learnt in them."""

import json
from pathlib import Path
from xml.etree.ElementTree import fromstring as parse_xml

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from orchestration_app.engine.backends import studies, study_pictures
from orchestration_app.engine.backends.choosing import PRESETS, Preference
from orchestration_app.engine.backends.collaboration import SIGNAL, Collaboration, Tabular
from orchestration_app.engine.backends.model_pool import DEFAULT, ModelPool, Pool
from orchestration_app.engine.backends.policies import Estimated, constant, run
from orchestration_app.management.commands.simulate import STUDIES


@pytest.fixture(scope="module")
def env() -> ModelPool:
    return ModelPool(Pool.read(None), load=0.4)


def test_the_same_seed_brings_the_same_stream(env: ModelPool) -> None:
    first, second = (run(env, constant(1), 3, 100) for _ in range(2))
    assert (first.success, first.cost, first.latency) == (second.success, second.cost, second.latency)
    assert run(env, constant(1), 4, 100).latency != first.latency


def test_a_queue_is_as_long_as_theory_says() -> None:
    """M/M/1: mean time 1 / (μ − λ), here 1 / (1.2 − 0.6)."""
    env = ModelPool(Pool.read(None), load=0.6)
    assert run(env, constant(1), 0, 12_000).latency == pytest.approx(1 / 0.6, rel=0.15)


def test_what_is_seen_has_the_size_that_the_space_says(env: ModelPool) -> None:
    observation, _ = env.reset(seed=0)
    assert observation.shape == env.observation_space.shape
    observation, reward, terminated, truncated, told = env.step(0)
    assert reward.shape == (3,)
    assert not terminated
    assert not truncated
    assert told["outcome"].latency > 0
    assert observation.min() >= 0
    assert observation.max() <= 1


def test_the_direct_estimate_is_nearly_as_right_as_the_largest_for_a_fraction(env: ModelPool) -> None:
    rows = {row["way"]: row for row in studies.compared(env.pool, seeds=1, calls=500)}
    ours = rows["direct estimate, careful"]
    assert ours["success"] > 0.92
    assert ours["less"] > 0.75
    assert rows["largest only"]["success"] > ours["success"] - 0.06


@pytest.mark.at_length
def test_traffic_moves_away_before_latency_doubles() -> None:
    rows = studies.rising(Pool.read(None), seeds=1, calls=500)
    assert rows[0]["taken"] > rows[-1]["taken"] + 0.05
    assert rows[-1]["p95"] < 2 * rows[0]["p95"] < rows[-1]["p95_constant"]


def test_a_hot_backend_is_left_and_taken_again() -> None:
    assert len(set(studies.returns()[:4])) == 2
    assert len(set(studies.returns()[-4:])) == 2


def test_a_busy_queue_sends_the_next_call_elsewhere(env: ModelPool) -> None:
    env.reset(seed=1)
    weights = np.zeros((5, 4, 2))
    way = Estimated(weights, PRESETS["fastest"])
    first = way(env)
    for _ in range(40):
        env.serve(first)
    assert way(env) != first


@pytest.mark.parametrize("damage", [{"shares": [1.0]}, {"backends": [{"name": "x"}]}])
def test_a_pool_that_does_not_fit_is_refused(tmp_path: Path, damage: dict) -> None:
    (tmp_path / "pool.json").write_text(json.dumps({**DEFAULT, **damage}))
    with pytest.raises(CommandError, match=r"pool\.json"):
        call_command("simulate", "policies", pool=str(tmp_path / "pool.json"))


def test_the_command_prints_and_writes_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("simulate", "--counts", json=str(tmp_path / "figures.json"))
    assert [row["backends"] for row in json.loads((tmp_path / "figures.json").read_text())] == [3, 5, 10, 20, 200]
    assert "backends 200" in capsys.readouterr().out


def test_every_study_is_drawn(tmp_path: Path) -> None:
    """An SVG for each measure, each a picture that can be read, with every way's value in it."""
    call_command("simulate", "--counts", plots=str(tmp_path / "plots"))
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {"counts.svg"}
    figures: dict[str, object] = {
        "policies": [
            {"way": way, "success": 0.5, "cost": 0.0021, "latency": 1.0, "p95": 2.0, "efficiency": 0.3, "imbalance": 0.0,
             "shares": [0.25, 0.75], "by_category": [0.125, 0.9, 1], "backends": ["x", "y & z"], "categories": ["a", "b", "c"]}
            for way in ("ours", "<other>")
        ],
        "noise": [{"noise": 0.1 * n, "success": 0.9, "cost": 1.0 + n, "efficiency": 0.3} for n in range(4)],
        "load": [{"load": n, "p95": n, "p95_constant": 9.0, "taken": 0.5, "success": 1.0} for n in range(3)],
        "gap": [{"learner": who, "by_pair": by, "share": {30: 0.5, 50: 0.75}} for who in ("a", "b") for by in (False, True)],
        "preferences": {"cost_by_its_weight": [0.3, 0.2, 0.1]},
        "hot": {"imbalance_off": 1.0, "imbalance_on": 0.5, "success_lost": -0.01, "within": 0.02},
        "ppo": {"steps": 9, "ppo": 0.2, "direct estimate": 0.25, "difference": -0.05, "within": 0.01},
        "collaboration": [{"who": "PPO", "published": False, "steps": 10, "a_round": -1.5}],
        "estimator": {"queries": [1], "complexity_mae": 0.05},
    }  # fmt: skip
    assert set(figures) | {"counts"} == set(STUDIES)
    drawn = {
        name: svg for study, found in figures.items() for name, svg in study_pictures.pictures(study, found).items()
    }
    for svg in drawn.values():
        parse_xml(svg)
    assert {
        f"policies-{name}"
        for name in ("success", "cost", "latency", "efficiency", "by-category", "distribution", "imbalance")
    } <= set(drawn)
    assert ">2.1<" in drawn["policies-cost"]
    assert drawn["policies-by-category"].count(">0.125<") == 2
    assert "ours: 0.75" in drawn["policies-distribution"]
    assert "-1.5" in drawn["collaboration"]


# --- Collaboration ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("agents", "size"), [(4, 94), (2, 68)])
def test_an_observation_is_as_long_as_counted(agents: int, size: int) -> None:
    env = Collaboration(agents=agents)
    observation, _ = env.reset(seed=0)
    assert observation.shape == env.observation_space.shape == (size,)
    assert env.action_space.n == 12


def test_as_published_signals_pay_without_a_task_and_mended_they_do_not() -> None:
    published, mended = Collaboration(), Collaboration(published=False)
    for env in (published, mended):
        env.reset(seed=0)
    earned = [[env.step(SIGNAL)[1] for _ in range(80)] for env in (published, mended)]
    assert sum(earned[0][-4:]) == pytest.approx(6.0)
    assert published.matrix.max() > 2
    assert sum(earned[1]) == 0
    assert mended.matrix.max() <= 1


def test_q_learning_takes_tasks_where_signals_pay_nothing() -> None:
    env = Collaboration(published=False)
    table = Tabular(env, np.random.Generator(np.random.PCG64(0)))
    table.learn(4_000)
    env.reset(seed=5)
    earned = np.mean([env.step(table.action(int(np.argmax(table.values[table.state()]))))[1] for _ in range(200)])
    assert earned > 0.2


# --- PPO ------------------------------------------------------------------------------------------------------------


class Bandit:
    """Two actions, one step: the first is right, the second cheap. What is best depends on the preference alone."""

    def __init__(self) -> None:
        from orchestration_app.engine.backends.model_pool import Box, Discrete

        self.observation_space, self.action_space = Box(0, 1, (1,)), Discrete(2)

    def reset(self, *, seed: int | None = None) -> tuple[np.ndarray, dict]:
        return np.zeros(1), {}

    def step(self, action: int) -> tuple[np.ndarray, np.ndarray, bool, bool, dict]:
        return np.zeros(1), np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 0.0]][action]), True, False, {}


@pytest.mark.at_length
def test_ppo_learns_one_policy_for_all_preferences_and_numpy_serves_the_same() -> None:
    from orchestration_app.engine.backends import ppo

    torch = pytest.importorskip("torch")
    settings = ppo.PpoSettings(steps=6_144, rate=3e-3, entropy=0.0, epochs=6)
    served = [served for _steps, _reward, served in ppo.train(Bandit(), settings, 0)][-1]
    assert served.probabilities(np.array([0, 0.9, 0.1, 0.0])).argmax() == 0
    assert served.probabilities(np.array([0, 0.1, 0.9, 0.0])).argmax() == 1
    network = ppo.Network(4, 2, 8)
    state = np.array([0.0, 0.2, 0.5, 0.3], np.float32)
    with torch.no_grad():
        learnt = torch.softmax(network.policy(torch.from_numpy(state)), 0).numpy()
    assert np.allclose(network.served().probabilities(state), learnt, atol=1e-6)


@pytest.mark.at_length
def test_ppo_is_as_good_as_stable_baselines_on_a_common_environment() -> None:
    gymnasium = pytest.importorskip("gymnasium")
    baselines = pytest.importorskip("stable_baselines3")
    from orchestration_app.engine.backends import ppo
    from orchestration_app.engine.backends.model_pool import Box, Discrete

    class Steps(gymnasium.Env):
        """Ten steps; the action that the observation names pays 1."""

        observation_space = gymnasium.spaces.Box(0.0, 1.0, (3,), np.float32)
        action_space = gymnasium.spaces.Discrete(3)

        def reset(self, *, seed: int | None = None, options: object = None) -> tuple:
            super().reset(seed=seed)
            self.left = 10
            return self._seen(), {}

        def _seen(self) -> np.ndarray:
            self.right = int(self.np_random.integers(3))
            return np.eye(3, dtype=np.float32)[self.right]

        def step(self, action: int) -> tuple:
            paid, self.left = float(action == self.right), self.left - 1
            return self._seen(), paid, self.left == 0, False, {}

    class Ours(Steps):
        observation_space = Box(0.0, 1.0, (3,))  # type: ignore[assignment]
        action_space = Discrete(3)  # type: ignore[assignment]

    def mean(act: object) -> float:
        env, paid = Steps(), 0.0
        seen, _ = env.reset(seed=9)
        for _ in range(300):
            seen, reward, done, _, _ = env.step(act(seen))  # type: ignore[operator]
            paid += reward
            if done:
                seen, _ = env.reset()
        return paid / 300

    served = [served for _s, _r, served in ppo.train(Ours(), ppo.PpoSettings(steps=6_144), 0)][-1]
    ours = mean(lambda seen: int(served.probabilities(np.concatenate([seen, np.full(3, 1 / 3)])).argmax()))
    theirs_model = baselines.PPO("MlpPolicy", Steps(), seed=0, n_steps=2048, batch_size=64, ent_coef=0.01, device="cpu")
    theirs_model.learn(6_144)
    theirs = mean(lambda seen: int(theirs_model.predict(seen, deterministic=True)[0]))
    assert ours > 0.95
    assert ours >= theirs - 0.05


def test_weights_of_a_preference_are_what_estimates_are_weighed_with(env: ModelPool) -> None:
    env.reset(seed=2)
    weights = np.zeros((5, 4, 2))
    weights[0] = [4.0, 0.0]
    assert Estimated(weights, Preference.of(1))(env) == 0
    assert Estimated(weights, PRESETS["cheapest"])(env) == 4
