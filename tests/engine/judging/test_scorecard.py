from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from tests.engine.synthetic import AGENTS, examples
from training_app.engine.config import Config
from training_app.engine.data.examples import Example
from training_app.engine.data.rows import rows_of
from training_app.engine.judging import scorecard
from training_app.engine.progress import Result
from training_app.engine.routing import calibration
from training_app.engine.routing.router import Router
from training_app.engine.train import train


@pytest.fixture(scope="module")
def result() -> Result:
    settings = {"encoder": "linear", "svm_c": 1.0, "folds": 2, "baselines": False, "abstain_alpha": 0.1}
    steps = {"total_steps": 100, "epsilon_decay_steps": 50, "learning_rate": 0.01}
    *_, last = train(Config.from_mapping({**settings, **steps}), AGENTS, examples(300))
    assert last.result is not None
    return last.result


@pytest.fixture(scope="module")
def card(result: Result) -> dict[str, Any]:
    return result.scorecard


@pytest.mark.at_length
def test_false_abstention_is_measured_at_every_level(card: dict[str, Any], result: Result) -> None:
    found = card["abstention"]
    assert [at["alpha"] for at in found["at"]] == list(calibration.ALPHAS)
    levels = [at["level"] for at in found["at"]]
    assert levels == sorted(levels)
    # The level in force is that of its α.
    assert found["level"] == pytest.approx(levels[-1])
    router = Router.load(result.artifact)
    test = [e for e in examples(300) if e.split == "test"]
    sure = np.array([route.confidence for route in router.route_batch([e.text for e in test])])
    needs = np.array([bool(e.required) for e in test])
    assert found["rate"] == pytest.approx((sure < levels[-1]).mean())
    assert found["false_abstention"] == pytest.approx((sure[needs] < levels[-1]).mean())
    assert found["at"][0]["false_abstention"] <= found["at"][-1]["false_abstention"]


def test_abstention_counts_what_it_keeps_from_being_misrouted() -> None:
    class Fixed:
        calibration = calibration.Calibration(1.0, 0.0, calibration.SET_PRIOR, abstain_below=0.5)

    confidence = np.array([0.1, 0.9, 0.2, 0.8, 0.3])
    required = np.array([[1], [1], [0], [0], [0]], bool)
    right = np.array([False, True, False, False, True])
    nobody = np.zeros(5, bool)
    found = scorecard.abstention(Fixed(), confidence, required, right, {0.05: 0.25}, nobody)  # type: ignore[arg-type]
    assert found["rate"] == 0.6
    assert found["false_abstention"] == 0.5
    assert found["misrouted_caught"] == 0.5
    assert found["exact_answered"] == 0.5
    assert found["at"][0]["alpha"] == 0.05
    assert found["at"][0]["rate"] == 0.4
    assert found["strangers"]["rate"] == 0
    strange = np.array([False, True, False, True, False])
    found = scorecard.abstention(Fixed(), confidence, required, right, {0.05: 0.25}, strange)  # type: ignore[arg-type]
    assert (found["rate"], found["false_abstention"]) == (1.0, 1.0)
    assert (found["strangers"]["rate"], found["strangers"]["misrouted_caught"]) == (0.4, 0.5)
    assert found["at"][0]["rate"] == 0.4


@pytest.mark.at_length
def test_calibration_stands_beside_what_a_perfect_scorer_would_show(card: dict[str, Any]) -> None:
    found = card["calibration"]
    for name in ("ece", "ece_before", "ece_confidence"):
        assert 0 < found[f"{name}_floor"] < 0.5


def test_robustness_says_how_good_the_answers_are_as_well(result: Result) -> None:
    router = Router.load(result.artifact)
    test = [e for e in examples(300) if e.split == "test"]
    rows = rows_of(test, AGENTS)
    answers = scorecard.perturbed(router, rows.texts)
    found = scorecard.robustness_jaccard(answers, rows.required)
    assert set(found) == {"clean", *scorecard.PERTURBATIONS}
    assert found == result.scorecard["robustness_jaccard"]
    assert found["clean"] == pytest.approx(result.scorecard["metrics"]["jaccard"]["mean"])
    # What does not flip costs nothing; what flips costs at most what flipped.
    for name, flips in scorecard.robustness(answers).items():
        assert abs(found["clean"] - found[name]) <= flips + 1e-9
    assert scorecard.robustness_jaccard(scorecard.perturbed(router, []), rows.required[:0]) == {}


@pytest.mark.at_length
@pytest.mark.parametrize("rule", ["bayes", "threshold"])
def test_the_rule_that_answers_is_no_baseline_of_itself(rule: str) -> None:
    settings = {"encoder": "linear", "svm_c": 1.0, "folds": 2, "baselines": True, "decision": rule}
    *_, last = train(Config.from_mapping(settings), AGENTS, examples(300))
    assert last.result is not None
    assert Router.load(last.result.artifact).policy.kind == rule
    card = last.result.scorecard
    assert rule in card["baselines"]
    assert card["best_baseline"] != rule


#: Prints the nearest queries of mistakes: texts whose words have many counts, so that sums of shares tie but for their last digit.
NEAREST = """
import random
from training_app.engine.data.examples import Example
from training_app.engine.judging import scorecard
rng = random.Random(0)
words = [f"w{n}" for n in range(40)]
rows = [Example(str(n), " ".join(rng.sample(words, 8)), frozenset({0})) for n in range(80)]
wrong = [(Example(f"x{n}", " ".join(rng.sample(words, 20)), frozenset({0})), {0}, {1}) for n in range(40)]
print([[near["id"] for near in error["nearest"]] for error in scorecard.errors(rows, wrong)])
"""


@pytest.mark.at_length
def test_mistakes_name_the_same_nearest_queries_in_every_process() -> None:
    def printed(seed: int) -> str:
        command = [sys.executable, "-c", NEAREST]
        return subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": str(seed)}, capture_output=True, text=True, check=True
        ).stdout

    assert len({printed(seed) for seed in range(6)}) == 1


def test_the_languages_of_tested_queries_are_counted() -> None:
    texts = ["where is my parcel", "wo ist mein Paket", "and what is it to you", "42"]
    found = scorecard.spoken([Example(text, text, frozenset()) for text in texts])
    assert found == {"queries": 4, "languages": {"en": 2, "de": 1}}
