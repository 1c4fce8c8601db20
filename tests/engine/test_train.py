from __future__ import annotations

import copy
import dataclasses
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.engine.synthetic import AGENTS, examples
from training_app.engine import finished_router
from training_app.engine import train as module
from training_app.engine.config import Config
from training_app.engine.data import artifact
from training_app.engine.data.artifact import ArtifactError
from training_app.engine.data.examples import Agent, Example
from training_app.engine.data.rows import rows_of
from training_app.engine.judging.baselines import BASELINES
from training_app.engine.progress import Progress
from training_app.engine.reading.sequences.sequence_fit import SequenceScorer
from training_app.engine.reading.text import single_words
from training_app.engine.routing.policy import load_policy
from training_app.engine.routing.router import Router
from training_app.engine.train import PHASES, TrainError, train

pytestmark = pytest.mark.computes_long

QUICK = {
    "encoder": "linear",
    "decision": "ddqn",
    "svm_c": 1.0,
    "folds": 2,
    "total_steps": 200,
    "epsilon_decay_steps": 100,
    "val_eval_freq": 20,
    "learning_rate": 0.01,
    "baselines": False,
}


def quick(**changes) -> Config:
    return Config.from_mapping({**QUICK, **changes})


def run(config: Config, agents=AGENTS, rows=None, checkpoint=None) -> list[Progress]:
    return list(train(config, agents, rows or examples(), checkpoint=checkpoint))


@pytest.fixture(scope="module")
def trained() -> list[Progress]:
    return run(quick(baselines=True, abstain_alpha=0.1))


@pytest.fixture(scope="module")
def router(trained: list[Progress]) -> Router:
    return Router.load(trained[-1].result.artifact)


class TestRun:
    @pytest.mark.at_length
    def test_progress_passes_through_every_phase_in_order(self, trained: list[Progress]) -> None:
        phases = list(dict.fromkeys(p.phase for p in trained))
        assert phases == list(PHASES)
        assert [p.result is not None for p in trained] == [False] * (len(trained) - 1) + [True]
        assert all(0 <= p.step <= p.total for p in trained)
        assert any(p.checkpoint for p in trained)

    def test_the_pool_is_learnt(self, trained: list[Progress]) -> None:
        card = trained[-1].result.scorecard
        assert card["metrics"]["jaccard"]["mean"] > 0.85
        assert card["measured_on"] == "test"
        assert card["best_baseline"] in ("svm", "logreg", "bayes", "threshold")
        assert card["baselines"]["random"]["difference"]["jaccard"]["low"] > 0
        assert set(card["timing"]) == {"scorer", "policy", "calibration", "baselines", "folds", "measure"}

    def test_the_scorecard_stands_in_the_artifact_without_times(self, trained: list[Progress]) -> None:
        result = trained[-1].result
        kept = artifact.read(result.artifact).metrics
        assert "timing" not in kept
        assert kept["metrics"]["jaccard"] == result.scorecard["metrics"]["jaccard"]
        assert [entry["step"] for entry in kept["log"]] == list(range(20, 201, 20))

    def test_its_commonest_words_are_those_of_the_training_queries(self, router: Router) -> None:
        words = router.reader.commonest_words(20)
        assert len(words) == 20
        assert set(words) <= {word for example in examples() for word in single_words(example.text.lower())}

    def test_errors_come_with_their_nearest_training_queries(self) -> None:
        rows = [*examples(), Example("odd", "refund my invoice please", frozenset({7}), None, "test")]
        card = run(quick(total_steps=60), rows=rows)[-1].result.scorecard
        (error,) = [e for e in card["errors"] if e["id"] == "odd"]
        assert error["required"] == [7]
        assert error["nearest"]
        assert any("refund" in near["text"] for near in error["nearest"])
        assert card["error_count"] >= 1

    @pytest.mark.at_length
    def test_the_same_seed_gives_the_same_bytes(self) -> None:
        one, two = (run(quick(total_steps=20))[-1].result.artifact for _ in range(2))
        assert one == two
        assert run(quick(total_steps=20, seed=1))[-1].result.artifact != one

    @pytest.mark.at_length
    def test_a_large_pool_is_measured_beside_its_policy_where_a_second_core_is_free(self, monkeypatch) -> None:
        monkeypatch.setattr(module, "MANY_ROWS", 20)
        order: list[str] = []
        decide, begun = module.decide, module.begun
        monkeypatch.setattr(module, "begun", lambda *given: order.append("baselines") or begun(*given))
        monkeypatch.setattr(module, "decide", lambda *given: order.append("policy") or decide(*given))

        def result(cores: int):
            monkeypatch.setattr(module, "cores", lambda: cores)
            progress = run(quick(total_steps=20, baselines=True, judging_folds=0))
            assert list(dict.fromkeys(p.phase for p in progress)) == [p for p in PHASES if p != "folds"]
            return progress[-1].result

        one, two = result(1), result(2)
        assert order == ["policy", "baselines", "policy"]
        assert one.artifact == two.artifact
        assert one.scorecard["baselines"] == two.scorecard["baselines"]

    @pytest.mark.parametrize(("held_out", "tried"), [(None, "there"), (np.arange(9), "")])
    def test_a_large_pool_does_not_ask_the_sentence_encoder_how_near_a_query_is(
        self, monkeypatch, held_out: np.ndarray | None, tried: str
    ) -> None:
        monkeypatch.setattr(finished_router.sentences, "installed", lambda: True)
        fit = SimpleNamespace(fitted=SimpleNamespace(kind="stack"), held_out=held_out)
        scores = SimpleNamespace(fit=fit)
        assert finished_router._encoder_for_nearness(Config(), scores) == tried  # type: ignore[arg-type]

    @pytest.mark.parametrize("which", [pytest.param(0, marks=pytest.mark.at_length), -1])
    def test_a_resumed_run_gives_the_same_bytes(self, which: int) -> None:
        whole = run(quick(total_steps=240, baselines=False))
        saved = [p.checkpoint for p in whole if p.checkpoint]
        assert len(saved) == 3  # after the scorer, and at steps 100 and 200
        resumed = run(quick(total_steps=240, baselines=False), checkpoint=saved[which])
        assert resumed[-1].result.artifact == whole[-1].result.artifact
        assert len(resumed) < len(whole)

    @pytest.mark.parametrize(
        "changes",
        [
            {"recipe": "tfidf", "min_replay_size": 64, "tfidf_max_features": 100, "reward_mode": "log"},
            pytest.param({"encoder": "sequence"}, marks=pytest.mark.at_length),
            pytest.param({"encoder": "stack"}, marks=pytest.mark.at_length),
            pytest.param({"shared_network": False, "cross_fitting": False}, marks=pytest.mark.at_length),
        ],
        ids=["published recipe", "sequence", "stack", "plain network"],
    )
    def test_every_recipe_and_encoder_goes_on_to_the_same_bytes(self, changes: dict, monkeypatch) -> None:
        monkeypatch.setattr(SequenceScorer, "schedule", lambda self, rows: (8, 6))
        config = quick(**{"total_steps": 120, **changes})
        whole = run(config)
        first, *_, last = (p.checkpoint for p in whole if p.checkpoint)
        for saved in (first, last):
            assert run(config, checkpoint=saved)[-1].result.artifact == whole[-1].result.artifact

    @pytest.mark.parametrize(
        "changes",
        [{"recipe": "tfidf"}, pytest.param({"encoder": "stack"}, marks=pytest.mark.at_length)],
        ids=["published recipe", "stack"],
    )
    @pytest.mark.at_length
    def test_closing_cancels_every_phase(self, changes: dict, monkeypatch) -> None:
        monkeypatch.setattr(SequenceScorer, "schedule", lambda self, rows: (8, 6))
        for phase in PHASES:
            steps = train(quick(total_steps=40, baselines=True, **changes), AGENTS, examples())
            assert next(p for p in steps if p.phase == phase)
            steps.close()
            assert next(steps, None) is None
            assert not [t for t in threading.enumerate() if t.name.startswith("train-")]

    def test_the_artifact_tells_the_whole_run(self, trained: list[Progress]) -> None:
        parts = artifact.read(trained[-1].result.artifact)
        config = quick(baselines=True, abstain_alpha=0.1)
        assert Config.from_mapping(parts.config["training"]) == config == Config.from_mapping(parts.metrics["config"])
        told = {p.step: p.metrics for p in trained if p.phase == "policy"}
        log = {entry["step"]: {k: v for k, v in entry.items() if k != "step"} for entry in parts.metrics["log"]}
        assert log == told
        best = parts.metrics["best_validation"]
        assert best["val_jaccard"] == max(entry["val_jaccard"] for entry in log.values())
        assert {"val_jaccard", "val_exact", "val_steps", "loss", "epsilon"} <= set(best)
        assert parts.metrics["measured_on"] == "test"
        assert set(parts.metrics["metrics"]) >= {"jaccard", "precision", "recall", "f1", "exact", "success"}

    def test_a_checkpoint_of_something_else_is_refused(self) -> None:
        saved = next(p.checkpoint for p in train(quick(), AGENTS, examples()) if p.checkpoint)
        with pytest.raises(TrainError, match="other settings or data"):
            run(quick(seed=3), checkpoint=saved)
        with pytest.raises(TrainError, match="other settings or data"):
            run(quick(), rows=examples()[:-1], checkpoint=saved)
        with pytest.raises(TrainError, match="cannot be read"):
            run(quick(), checkpoint=saved[:-10])

    def test_closing_cancels_and_leaves_no_thread(self) -> None:
        steps = train(quick(), AGENTS, examples())
        while next(steps).phase != "scorer":
            pass
        steps.close()
        assert not [t for t in threading.enumerate() if t.name.startswith("train-")]


class TestData:
    def test_what_is_missing_is_said(self) -> None:
        rows = examples()
        with pytest.raises(TrainError, match="no agent"):
            run(quick(), agents=())
        with pytest.raises(TrainError, match="0 labeled queries are in the train split"):
            run(quick(), rows=[dataclasses.replace(e, split="val") for e in rows])
        with pytest.raises(TrainError, match="0 labeled queries are in the val split"):
            run(quick(), rows=[e for e in rows if e.split != "val"])
        with pytest.raises(TrainError, match="at least 8"):
            run(quick(), rows=rows[:9])
        with pytest.raises(TrainError, match="requires agent 99"):
            run(quick(), rows=[*rows, Example("x", "x", frozenset({99}), None, "train")])
        with pytest.raises(TrainError, match="same text"):
            run(quick(), rows=[dataclasses.replace(e, text="same!") for e in rows])
        with pytest.raises(TrainError, match="speaks about any agent"):
            run(quick(), rows=[dataclasses.replace(e, required=frozenset(), asked=frozenset()) for e in rows])

    def test_an_agent_that_nobody_was_asked_about_is_left_out(self) -> None:
        known = frozenset(agent.id for agent in AGENTS)
        rows = [dataclasses.replace(e, asked=known) for e in examples()]
        result = run(quick(total_steps=20), agents=(*AGENTS, Agent(11, "New")), rows=rows)[-1].result
        assert [agent.id for agent in Router.load(result.artifact).agents] == [0, 3, 4, 7]
        assert "New" in result.scorecard["warnings"][0]
        assert result.scorecard["queries"] == 24

    def test_an_agent_of_one_query_is_warned_of_in_the_singular(self) -> None:
        rows = examples()
        first = next(e.id for e in rows if e.split == "train" and 7 in e.required)
        rows = [e if e.id == first else dataclasses.replace(e, required=e.required - {7}) for e in rows]
        name = next(agent.name for agent in AGENTS if agent.id == 7)
        warnings = run(quick(total_steps=20), rows=rows)[-1].result.scorecard["warnings"]
        assert f"Only 1 query of the train split requires {name}: label more of them." in warnings

    def test_partly_asked_rows_leave_the_figures_of_sets(self) -> None:
        rows = examples()
        rows = [dataclasses.replace(e, asked=e.required | {0}) if i % 10 == 4 else e for i, e in enumerate(rows)]
        card = run(quick(total_steps=20), rows=rows)[-1].result.scorecard
        whole = sum(rows[i].asked in (None, {0, 3, 4, 7}) for i in range(4, 120, 5))
        assert (card["queries"], card["partly_asked"]) == (whole, 24 - whole)
        assert 0 < whole < 24
        assert card["by_agent"][0]["queries"] == 24 > card["by_agent"][1]["queries"]

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(lambda e: dataclasses.replace(e, required=frozenset()), id="all empty"),
            pytest.param(lambda e: dataclasses.replace(e, required=e.required - {7}), id="an agent without positives"),
            pytest.param(
                lambda e: dataclasses.replace(e, required=e.required or frozenset({0})),
                id="no empty set",
                marks=pytest.mark.at_length,
            ),
            pytest.param(
                lambda e: dataclasses.replace(e, required=frozenset({0, 3, 4, 7})),
                id="always all",
                marks=pytest.mark.at_length,
            ),
        ],
    )
    def test_lopsided_labels_train(self, change) -> None:
        rows = [change(e) for e in examples()]
        result = run(quick(total_steps=300), rows=rows)[-1].result
        route = Router.load(result.artifact).route("refund my invoice")
        assert all(np.isfinite(p) for p in route.scores.values())
        if not any(e.required for e in rows):
            assert route.agents == ()
        if all(len(e.required) == 4 for e in rows):
            assert set(route.agents) == {0, 3, 4, 7}

    def test_a_tiny_pool_trains_without_a_test_split(self) -> None:
        rows = [e for e in examples(26) if e.split != "test"]
        rows = [dataclasses.replace(e, required=e.required & {0, 3}) for e in rows][:20]
        result = run(quick(total_steps=40), agents=AGENTS[:2], rows=rows)[-1].result
        assert result.scorecard["measured_on"] == "val"
        assert "no test split" in " ".join(result.scorecard["warnings"])

    def test_a_single_agent_trains(self) -> None:
        rows = [dataclasses.replace(e, required=e.required & {0}) for e in examples()]
        result = run(quick(total_steps=60), agents=AGENTS[:1], rows=rows)[-1].result
        assert result.scorecard["metrics"]["jaccard"]["mean"] > 0.7


class TestSettings:
    def test_limits_hold_in_the_answer(self) -> None:
        router = Router.load(run(quick(total_steps=40, min_agents=1, max_agents=2))[-1].result.artifact)
        routes = router.route_batch([e.text for e in examples(40)])
        assert {len(route.agents) for route in routes} <= {1, 2}
        assert {route.stop_reason for route in routes if len(route.agents) == 2} == {"max_agents"}

    @pytest.mark.parametrize(("goal", "name"), [("recall", "recall"), ("size", "set_size")])
    def test_an_operating_point_is_met_on_validation(self, goal: str, name: str) -> None:
        config = quick(total_steps=100, goal=goal, recall_floor=1.0, average_agents=0.8)
        router = Router.load(run(config)[-1].result.artifact)
        val = [e for e in examples() if e.split == "val"]
        chosen = router.selections([e.text for e in val])
        if goal == "size":
            assert chosen.sum(axis=1).mean() <= 0.8
        else:
            required = np.array([[a.id in e.required for a in AGENTS] for e in val])
            assert not (required & ~chosen).any()

    @pytest.mark.at_length
    def test_the_published_recipe_trains_and_serves(self) -> None:
        config = quick(
            recipe="tfidf",
            reward_mode="jaccard",
            gamma=0.99,
            total_steps=1500,
            min_replay_size=100,
            epsilon_decay_steps=700,
            learning_rate=0.003,
            tau=0.0,
            target_update_freq=50,
            val_eval_freq=250,
            tfidf_max_features=200,
        )
        result = run(config)[-1].result
        router = Router.load(result.artifact)
        assert result.scorecard["metrics"]["jaccard"]["mean"] > 0.35
        texts = [e.text for e in examples(30)]
        assert router.route_batch(texts) == [Router.load(result.artifact).route(t) for t in texts]

    @pytest.mark.parametrize(
        "changes", [{"all_actions": False}, {"cross_fitting": False}, {"label_free": False}, {"shared_network": False}]
    )
    def test_ablations_train(self, changes: dict) -> None:
        result = run(quick(total_steps=20, **changes))[-1].result
        assert Router.load(result.artifact).route("x").steps >= 1


class TestRouter:
    texts = [e.text for e in examples(60, seed=9)] + ["", "😀", "x " * 3000]

    def test_a_batch_says_what_single_routes_say(self, router: Router) -> None:
        for available in (None, [0, 4, 99], []):
            batch = router.route_batch(self.texts, available)
            fresh = copy.copy(router)
            fresh.reader._remembered = {}
            assert batch == [fresh.route(text, available) for text in self.texts]
            assert batch == [fresh.route(text, available) for text in self.texts]  # remembered, not read again
        assert router.route_batch([]) == []

    def test_answers_mean_what_they_say(self, router: Router) -> None:
        route = router.route("refund my invoice and track my package")
        assert set(route.agents) == {0, 3}
        assert set(route.scores) == {0, 3, 4, 7}
        assert min(route.scores[0], route.scores[3]) > 0.5 > max(route.scores[4], route.scores[7])
        assert 0 < route.confidence < 1
        assert route.steps == 3
        assert route.stop_reason in ("stop", "abstained")

    def test_unavailable_agents_are_neither_selected_nor_scored(self, router: Router) -> None:
        route = router.route("refund my invoice and track my package", available=[0, 4, 7])
        assert 3 not in route.agents
        assert set(route.scores) == {0, 4, 7}
        assert router.route("refund", available=[]).stop_reason == "none"

    def test_none_and_abstained_differ(self, router: Router) -> None:
        sure = dataclasses.replace(router.calibration, abstain_below=0.0)
        never = dataclasses.replace(router.calibration, abstain_below=1.0)
        router_of = {}
        for name, calibration in (("sure", sure), ("never", never)):
            copy = Router.__new__(Router)
            copy.__dict__.update({**router.__dict__, "calibration": calibration})
            router_of[name] = copy
        none = router_of["sure"].route("sing me a song 5")
        assert (none.agents, none.stop_reason, none.abstained) == ((), "none", False)
        away = router_of["never"].route("refund my invoice")
        assert (away.agents, away.stop_reason, away.abstained) == ((0,), "abstained", True)

    def test_the_rule_that_answers_is_the_one_that_the_scorecard_names(self, trained: list[Progress]) -> None:
        result = trained[-1].result
        router = Router.load(result.artifact)
        assert router.explain("refund my invoice").rule == router.rule == result.scorecard["decision"]["rule"]

    def test_an_explanation_retells_the_route(self, router: Router) -> None:
        found = router.explain("refund my invoice and track my package", available=[0, 3, 4])
        assert found.route.agents == tuple(s["chosen"] for s in found.steps if s["chosen"] is not None)
        assert found.steps[-1]["chosen"] is None
        assert len(found.steps) == found.route.steps
        for step in found.steps:
            assert set(step["q"]) | set(step["masked"]) == {0, 3, 4, 7}
            best = max(step["q"], key=step["q"].get)
            assert step["chosen"] in (best, None)
            assert (step["q"][best] > step["stop"]) == (step["chosen"] is not None)
        assert 7 in found.steps[0]["masked"]
        assert set(found.features) == {0, 3, 4}
        assert any("refund" in name or "invoice" in name for name, _ in found.features[0])

    def test_threads_share_it(self, router: Router) -> None:
        expected = [router.route(text).agents for text in self.texts]
        wrong: list[str] = []

        def work() -> None:
            wrong.extend(t for t, e in zip(self.texts, expected, strict=True) if router.route(t).agents != e)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []

    def test_parts_that_do_not_fit_are_refused(self, trained: list[Progress]) -> None:
        parts = artifact.read(trained[-1].result.artifact)
        for change in (
            {"agents": parts.config["agents"][:-1]},
            {"policy": {"kind": "other"}},
            {"scorer": {"kind": "pickle"}},
            {"calibration": {}},
        ):
            with pytest.raises(ArtifactError, match="do not fit together"):
                Router.from_artifact(dataclasses.replace(parts, config={**parts.config, **change}))

    def test_it_comes_back_from_a_directory(self, trained: list[Progress], router: Router, tmp_path: Path) -> None:
        artifact.write(trained[-1].result.artifact, tmp_path / "model")
        again = Router.load(tmp_path / "model")
        assert again.agents == router.agents
        assert again.route_batch(self.texts) == router.route_batch(self.texts)


def test_serving_imports_neither_torch_nor_scikit_learn() -> None:
    modules = (
        "data.artifact data.examples data.metrics reading.text reading.stack reading.sequences.sequence reading.embedding "
        "routing.router routing.calibration routing.policy routing.env judging.scorecard judging.analysis config llm"
    )
    code = (
        f"import sys\nfor name in {modules.split()!r}: __import__('training_app.engine.' + name)\n"
        "print([m for m in ('torch', 'sklearn', 'scipy', 'django') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------------------------------------------- a plain classifier


@pytest.mark.at_length
@pytest.mark.parametrize("name", ["svm", "logreg"])
def test_a_classifier_as_a_model_is_the_baseline_with_a_threshold_of_more_rows(name: str) -> None:
    rows = examples(300, seed=4)
    last = run(quick(recipe="classifier", classifier=name, baselines=True), rows=rows)[-1].result
    router = Router.load(last.artifact)
    assert router.policy.kind == "threshold"
    split = {s: rows_of([e for e in rows if e.split == s], AGENTS) for s in ("train", "val", "test")}
    baseline = BASELINES[name](AGENTS, split["train"], split["val"], 0)
    assert (router.selections(split["test"].texts) == baseline.select(split["test"].texts)).mean() > 0.95
    assert last.scorecard["baselines"][name]["difference"]["jaccard"]["mean"] > -0.02
    assert last.scorecard["best_validation"]["val_jaccard"] > 0.8
    assert last.scorecard["encoder"]["encoder"] == name


def test_a_classifier_routes_explains_and_keeps_its_limits() -> None:
    router = Router.load(run(quick(recipe="classifier", max_agents=1, goal="recall"))[-1].result.artifact)
    text = "refund my invoice and where is my parcel"
    route = router.route(text)
    assert (len(route.agents), route.stop_reason, route.steps) == (1, "max_agents", 1)
    assert router.route_batch([text])[0].agents == route.agents
    explained = router.explain(text)
    assert explained.steps[0]["chosen"] == route.agents[0]
    assert router.route(text, available=[4, 7]).agents != route.agents


@pytest.mark.parametrize("recipe", ["classifier", "scores"])
def test_a_quick_router_never_says_nobody_of_a_language_that_it_cannot_read(recipe: str) -> None:
    router = Router.load(run(quick(recipe=recipe, sentences=False, tidy=False))[-1].result.artifact)
    for text in (
        "Я потерял карту и хочу вернуть деньги",
        "我的包裹丢了",
        "Ich wurde zweimal belastet und mein Paket ist weg",
    ):
        assert router.route(text).abstained, text
    assert not router.route("refund my invoice and where is my parcel").abstained


@pytest.mark.parametrize(("cost", "worth", "refused"), [(1.0, 1.0, True), (1.0, 5.0, False), (0.3, 1.0, False)])
def test_a_run_that_would_answer_nobody_says_why_before_it_trains(cost: float, worth: float, refused: bool) -> None:
    priced = [dataclasses.replace(agent, cost=cost) for agent in AGENTS]
    steps = train(quick(goal="value", query_value=worth), priced, examples())
    if not refused:
        assert next(iter(steps)).phase
        return
    with pytest.raises(
        TrainError, match=r"cost as much as the query is worth \(2 in the middle, against query_value 1\)"
    ):
        next(iter(steps))


@pytest.mark.at_length
def test_a_router_that_learnt_value_answers_from_its_file_one_by_one_as_in_a_batch() -> None:
    priced = [dataclasses.replace(agent, cost=0.05 if agent.id < 4 else 0.6) for agent in AGENTS]
    config = quick(goal="value", decision="ddqn", total_steps=400, epsilon_decay_steps=200)
    result = run(config, agents=priced, rows=examples(300))[-1].result
    router = Router.load(result.artifact)
    assert router.policy.costs.tolist() == pytest.approx([0.05, 0.05, 0.6, 0.6])
    texts = [example.text for example in examples(60, seed=5)]
    batch = router.route_batch(texts)
    assert [router.route(text).agents for text in texts] == [route.agents for route in batch]
    assert sum(len(route.agents) for route in batch) > 30
    explained = router.explain(texts[0]).steps
    assert len(explained) == batch[0].steps
    assert all(np.isfinite(list(step["q"].values())).all() for step in explained)


def test_thresholds_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="no list of thresholds"):
        load_policy({"kind": "threshold"}, {})
