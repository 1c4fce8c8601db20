"""What difficulty, category and need of a tool add to the direct estimate, and labels that a language model gives."""

import httpx
import numpy as np
import pytest

from orchestration_app.engine.backends import chooser, query_labels
from orchestration_app.engine.backends.chooser import BackendChooser, Called, ChooserConfig
from training_app.engine.data.examples import Agent
from training_app.engine.judging.llm_baseline import LanguageModel
from training_app.engine.progress import Result

WORDS = [f"{a}{b}" for a in "bcdfghklmnprstvw" for b in ("ale", "ort", "ind", "eck")]


def calls(count: int, seed: int = 0, *, category: bool = True, tools: bool = False) -> list[Called]:
    """Backend 1 fails at code, 2 at maths. Texts of a category share a dozen words of their own."""
    rng = np.random.Generator(np.random.PCG64(seed))
    found = []
    for row in range(count):
        kind, backend = int(rng.integers(2)), int(rng.integers(1, 3))
        own = rng.choice(WORDS[kind * 32 : kind * 32 + 32], 3, replace=False)
        success = bool(rng.random() < (0.2 if backend == kind + 1 else 0.85))
        name = ("code", "maths")[kind] if category else ""
        text = f"{' '.join(own)} {row}"
        found.append(Called(text, 0, backend, success, 0.01, category=name, tool=bool(kind) if tools else None))
    return found


def trained(some: list[Called], **settings: object) -> Result:
    config = ChooserConfig(sentences=False, **settings)  # type: ignore[arg-type]
    steps = list(chooser.train(config, [Agent(0, "Support")], [], calls=some))
    assert steps[-1].result is not None
    return steps[-1].result


def test_categories_decide_and_are_shown() -> None:
    some = calls(700, tools=True)
    ended = trained(some)
    card = ended.scorecard["estimator"]
    assert card["category"]["names"] == ["code", "maths"]
    assert card["category"]["accuracy"] > 0.9
    assert abs(card["category"]["confidence"] - card["category"]["accuracy"]) < 0.1
    assert card["tool"]["accuracy"] > 0.9
    assert card["scale"] > 0
    without = trained(some, estimator=False).scorecard
    assert "estimator" not in without
    assert ended.scorecard["metrics"]["fit"]["mean"] > without["metrics"]["fit"]["mean"]
    served = BackendChooser.load(ended.artifact)
    code, maths = (served.estimate(" ".join(WORDS[at : at + 3]), 0) for at in (0, 32))
    assert code[2] > code[1]
    assert maths[1] > maths[2]


def test_a_version_is_the_same_once_it_was_stored() -> None:
    ended = trained(calls(300))
    first, again = (BackendChooser.load(ended.artifact).estimate("bale bort", 0) for _ in range(2))
    assert first == again
    heads = BackendChooser.load(ended.artifact).heads
    assert heads is not None
    assert heads.added(["x"], ["no such agent"]).tolist() == [[0.0, 0.0]]


def test_what_says_nothing_adds_nothing() -> None:
    rng = np.random.Generator(np.random.PCG64(1))
    some = [
        Called(
            f"{' '.join(rng.choice(WORDS, 3))} {row}",
            0,
            row % 2 + 1,
            bool(rng.random() < 0.6),
            0.01,
            category=str(row % 3),
        )
        for row in range(600)
    ]
    card = trained(some).scorecard
    assert card["baselines"]["by_backend"]["difference"]["fit"]["mean"] > -0.01


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ('{"complexity": 0.3, "category": "code", "tool": true}', query_labels.QueryLabels(0.3, "code", True)),
        ('Well: {"complexity": 7, "category": "poems", "tool": false}', query_labels.QueryLabels(1.0, "other", False)),
        ('{"complexity": true, "category": "code", "tool": true}', None),
        ('{"complexity": NaN, "category": "code", "tool": true}', None),
        ('{"complexity": 0.3, "category": 1, "tool": true}', None),
        ('[{"complexity": 0.3}]', None),
        ("no", None),
    ],
)
def test_an_answer_is_checked(answer: str, wanted: query_labels.QueryLabels | None) -> None:
    assert query_labels.read(answer, ["code"]) == wanted


def test_a_language_model_labels_some_and_the_run_learns_from_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answer(self: httpx.Client, address: str, **what: object) -> httpx.Response:
        said = str(what["json"]) if "json" in what else str(what)
        asked.append(said)
        kind = any(word in said for word in WORDS[32:])
        content = f'{{"complexity": 0.5, "category": "{("code", "maths")[kind]}", "tool": {str(kind).lower()}}}'
        return httpx.Response(
            200, json={"choices": [{"message": {"content": content}}]}, request=httpx.Request("POST", "http://llm.test")
        )

    monkeypatch.setattr("training_app.engine.llm.Client._post", lambda self, body, headers: answer(self, "", json=body))
    config = ChooserConfig(sentences=False, llm_labels=200)
    model = LanguageModel("http://llm.test", "m")
    steps = list(chooser.train(config, [Agent(0, "Support")], [], calls=calls(600, category=False), llm=model))
    assert steps[-1].result is not None
    card = steps[-1].result.scorecard["estimator"]
    assert len(asked) == card["labeled_by_llm"] == 200
    served = BackendChooser.load(steps[-1].result.artifact)
    assert served.heads is not None
    assert served.heads.categories == ("code", "maths")
    none = list(chooser.train(config, [], [], calls=calls(300)))
    assert any("LLM_MODEL" in step.message for step in none)
