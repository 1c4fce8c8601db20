"""The benchmark on a folder of recorded outputs, from files to figures; runs of the kind orchestrator."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from orchestration_app.engine.orchestrating.environment import RecordedWorld, read_paths
from orchestration_app.engine.orchestrating.loop import drive, episode
from orchestration_app.engine.orchestrating.policy import Orchestrator
from orchestration_app.engine.orchestrating.scorecard import convergence
from orchestration_app.engine.orchestrating.support import AGENTS, support_examples, support_pool, write_support
from orchestration_app.engine.orchestrating.turns import Limits, Result
from orchestration_app.engine.orchestrator_benchmark import Conductor, benchmark, table
from orchestration_app.engine.orchestrator_config import OrchestratorConfig
from orchestration_app.engine.train_orchestrator import TrainError, train
from tests import llm_server
from training_app.engine.data.examples import Agent, Example
from training_app.engine.judging.llm_baseline import LanguageModel
from training_app.engine.progress import Result as Trained

pytestmark = [pytest.mark.any_database, pytest.mark.computes_long]
WORDS = ("invoice refund charge", "camera speaker hub", "parcel delivery return")


def folder(path: Path) -> Path:
    """Three agents, each needed where a word of its own is in the text; recordings say what was missing, which nobody may read."""
    rng = np.random.default_rng(0)
    agents = [{"id": i, "name": f"Agent {i}", "description": words} for i, words in enumerate(WORDS)]
    (path / "agents.jsonl").write_text("\n".join(map(json.dumps, agents)))
    number = 0
    for split, count in (("train", 90), ("val", 40), ("test", 40)):
        rows = []
        for _ in range(count):
            required = sorted(rng.choice(3, size=int(rng.integers(1, 4)), replace=False).tolist())
            words = [str(rng.choice(WORDS[a].split())) for a in required]
            trajectory = [
                {"agent": a, "output": f"{w} done {number}", "remaining_gap": "SECRET", "is_last": a == required[-1]}
                for a, w in zip(required, words, strict=True)
            ]
            number += 1
            text = f"please see to {' and '.join(words)} of case {number}"
            rows.append({"id": str(number), "text": text, "required_agents": required, "trajectory": trajectory})
        (path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.mark.at_length
def test_the_benchmark_has_the_figures_of_every_router(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    settings = ["encoder=linear", "updates=4", "val_eval_freq=2", "episodes=16"]
    call_command("benchmark_orchestrator", str(folder(tmp_path)), seeds=1, json=str(out), set=settings, verbosity=0)
    found = json.loads(out.read_text())
    assert set(found["routers"]) == {"orchestrator", "one_shot", "greedy_step", "fixed_order", "random"}
    assert [at["step"] for at in found["convergence"]] == [2, 4]
    assert found["convergence"][0]["val_reward"]["low"] is None  # one seed has no interval
    for row in found["routers"].values():
        assert all(isinstance(row[name], float) for name in ("f1", "jaccard", "success", "steps", "cost"))
    ours, theirs = found["routers"]["orchestrator"], found["routers"]["one_shot"]
    assert ours["f1"] > 0.9
    assert ours["f1"] >= theirs["f1"] - 0.02
    assert found["routers"]["fixed_order"]["success"] == 1.0
    assert found["routers"]["random"]["f1"] < ours["f1"] - 0.2


def test_convergence_has_an_interval_over_seeds() -> None:
    logs = [[{"step": 2, "val_reward": worth}, {"step": 4, "val_reward": 0.9}] for worth in (0.1, 0.3, 0.2)]
    first, second = convergence(
        [*logs, [{"step": 2, "val_reward": 0.2}, {"step": 4, "val_reward": 0.9}, {"step": 6, "val_reward": 1}]]
    )
    assert (first["step"], second["step"]) == (2, 4)
    assert first["val_reward"]["mean"] == pytest.approx(0.2)
    # Student's t of three degrees of freedom: 0.2 plus and minus 3.182 x 0.0816 / 2.
    assert first["val_reward"]["low"] == pytest.approx(0.2 - 3.182 * np.std([0.1, 0.3, 0.2, 0.2], ddof=1) / 2, abs=1e-3)
    assert second["val_reward"]["mean"] == pytest.approx(0.9)
    assert convergence([]) == []


@pytest.mark.at_length
def test_a_language_model_orchestrates_some_of_the_test_tasks(
    tmp_path: Path, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Refused calls are made again, answers that are of no use end an episode, and a refused key leaves the row out."""
    place = str(folder(tmp_path))
    quick = {"encoder": "linear", "updates": 0, "imitate": False}
    with llm_server.Server() as server:
        model = LanguageModel(server.url, "big", "sk-test")
        server.retry_after = "0"
        server.fault = lambda text, nth: {0: "429", 2: "not json", 3: "wrong id"}.get(nth % 5, "")
        found = benchmark(place, settings=quick, llm=Conductor(model, 6))
        row = found["routers"]["llm"]
        assert (row["model"], row["tasks"], found["warnings"]) == ("big", 6, [])
        assert set(row["orchestrator_lead"]) == {"f1", "jaccard", "success"}
        assert row["orchestrator"]["steps"] > 0
        assert any(line.startswith("llm ") for line in table(found))
        assert set(server.keys) == {"Bearer sk-test"}
        asked = len(server.bodies)
        assert asked >= 6
        server.refuse_key = True
        found = benchmark(place, settings=quick, llm=Conductor(model, 6))
    assert "llm" not in found["routers"]
    assert "refused the key" in found["warnings"][0]
    settings.LLM_MODEL = ""
    call_command("benchmark_orchestrator", place, llm_tasks=6, set=["encoder=linear", "updates=0", "imitate=false"])
    assert "name it in LLM_MODEL" in capsys.readouterr().out


def test_what_was_missing_is_never_read(tmp_path: Path) -> None:
    agents = [Agent(i, f"Agent {i}") for i in range(3)]
    paths = read_paths(folder(tmp_path) / "train.jsonl", agents)
    assert "SECRET" not in repr(paths)
    assert all(call.cost == 1.0 for path in paths for call in path.calls)


def test_an_agent_that_is_not_needed_answers_as_well(tmp_path: Path) -> None:
    """What it said to another task: an output does not tell by being empty that its agent is not needed."""
    agents = [Agent(i, f"Agent {i}") for i in range(3)]
    paths = read_paths(folder(tmp_path) / "train.jsonl", agents)
    world = RecordedWorld.of(agents, paths)
    for path in paths[:30]:
        for agent in agents:
            said = world.call(path.task, [], agent.id)
            assert said.output.strip()
            assert said == world.call(path.task, [], agent.id)
    path = next(path for path in paths if path.required == {0})
    assert world.score(path.task, [world.call(path.task, [], 0)]) == 1.0
    assert world.score(path.task, [world.call(path.task, [], a) for a in (0, 1)]) == pytest.approx(2 / 3)


def test_a_folder_that_cannot_be_measured_is_refused(tmp_path: Path) -> None:
    place = folder(tmp_path)
    with pytest.raises(CommandError, match="seeds"):
        call_command("benchmark_orchestrator", str(place), seeds=0)
    with pytest.raises(CommandError, match="learner"):
        call_command("benchmark_orchestrator", str(place), set=["learner=magic"])
    (place / "test.jsonl").write_text('{"text": "a", "required_agents": [0], "trajectory": [{"output": "no agent"}]}')
    with pytest.raises(CommandError, match=r"test\.jsonl, line 1"):
        call_command("benchmark_orchestrator", str(place))


@pytest.mark.at_length
def test_a_run_of_the_kind_orchestrator_learns_the_simulated_desk() -> None:
    config = OrchestratorConfig.from_mapping(
        {
            "simulated": "support",
            "encoder": "linear",
            "updates": 2,
            "val_eval_freq": 1,
            "baselines": False,
            "max_steps": 7,
        }
    )
    examples = support_examples(support_pool(), {"train": 200, "val": 80, "test": 60}, 3)
    result: Trained | None = None
    phases = []
    for progress in train(config, AGENTS, examples):
        phases.append(progress.phase)
        result = progress.result or result
    assert result is not None
    assert {"scorer", "imitation", "policy", "measure"} <= set(phases)
    card = result.scorecard
    assert (card["queries"], card["measured_on"]) == (60, "test")
    assert set(card["metrics"]) == {"reward", "success", "score", "cost", "seconds", "steps"}
    assert sum(agent["calls"] for agent in card["utilisation"]) == pytest.approx(1)
    orchestrator = Orchestrator.load(result.artifact)
    ended = drive(episode(orchestrator, examples[0].text, Limits(budget=9.0)), lambda request: Result("said", cost=0.1))
    assert ended.calls > 0
    # The imitation of the playbook is far above the one-shot set, which calls no triage.
    assert orchestrator.version_info["kept"] != "one_shot"


def test_a_simulated_pool_must_be_the_pool() -> None:
    config = OrchestratorConfig.from_mapping({"simulated": "support"})
    with pytest.raises(TrainError, match="other agents"):
        next(train(config, AGENTS[:2], []))


def test_the_demo_folder_is_the_same_every_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write_support(tmp_path / name)
    for file in ("agents", "train", "val", "test"):
        assert (tmp_path / "one" / f"{file}.jsonl").read_bytes() == (tmp_path / "two" / f"{file}.jsonl").read_bytes()


def measured(
    config: OrchestratorConfig, examples: Sequence[Example], llm: LanguageModel | None = None
) -> dict[str, Any]:
    """The scorecard of a run."""
    *_earlier, last = train(config, AGENTS, examples, llm=llm)
    assert last.result is not None
    return last.result.scorecard


@pytest.mark.at_length
def test_a_language_model_walks_some_of_the_measured_tasks() -> None:
    settings = {
        "simulated": "support", "updates": 0, "explore": 0, "encoder": "linear", "baselines": False, "imitate": False,
        "llm_tasks": 5,
    }  # fmt: skip
    config = OrchestratorConfig.from_mapping(settings)
    examples = support_examples(support_pool(), {"train": 40, "val": 20, "test": 10}, 3)
    with llm_server.Server() as server:
        model = LanguageModel(server.url, "big", "sk-test")
        card = measured(config, examples, model)
        row = card["baselines"]["llm"]
        assert (row["queries"], row["model"]) == (5, "big")
        assert len(set(server.asked)) == 5
        server.refuse_key = True
        card = measured(config, examples, model)
        assert "refused the key" in card["warnings"][0]
        assert "llm" not in card["baselines"]
    card = measured(config, examples)
    assert "LLM_MODEL" in card["warnings"][0]
