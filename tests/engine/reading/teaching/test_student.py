"""The student: texts without labels teach what the slow scorer makes of them, weighed by how sure it is, and nothing is gold."""

import json
from pathlib import Path

import numpy as np
import pytest

from tests.engine.synthetic import AGENTS, PHRASES, examples
from training_app.engine.config import Config
from training_app.engine.data.arrays import FloatArray
from training_app.engine.data.examples import group_key
from training_app.engine.data.folders import read_folder
from training_app.engine.data.rows import Rows, rows_of
from training_app.engine.reading import encoders
from training_app.engine.reading.beside import Beside
from training_app.engine.reading.encoders import fit_encoder
from training_app.engine.reading.fused_fit import described
from training_app.engine.reading.scorers import cross_fit, load_scorer
from training_app.engine.reading.teaching import student
from training_app.engine.reading.tidying.tidied import tidied

TAUGHT = described(AGENTS)


def test_a_text_counts_as_the_slow_scorer_is_sure_of_it() -> None:
    said = student.guessed(["a", "b"], np.array([[0.0, 9.0], [-9.0, 1.0]], np.float32))
    assert said.required.tolist() == [[False, True], [False, True]]
    assert said.weights[0, 0] == 0
    assert said.weights[0, 1] == pytest.approx(student.WEIGHT, abs=1e-3)
    assert said.weights[1, 1] < said.weights[1, 0]


def test_the_student_learns_words_that_stand_in_no_label() -> None:
    """The slow scorer knows what "zorbing" is; the labels do not hold the word."""

    def knows(rows: Rows, texts: list[str], seed: int) -> FloatArray:
        return np.array([[9.0 if "zorbing" in t and a == 3 else -9.0 for a in range(4)] for t in texts], np.float32)

    rows = rows_of(examples(60), AGENTS)
    unlabeled = [f"zorbing {said}" for said in PHRASES[7]] + [f"quite another thing {i}" for i in range(20)]
    scorer = student.StudentScorer(unlabeled, knows, TAUGHT)
    fitted = scorer.fit(rows.texts, rows.required, rows.asked, seed=0)
    assert fitted.kind == "linear"
    assert fitted.logits(["zorbing"])[0].argmax() == 3
    again = load_scorer("linear", fitted.config(), fitted.tensors())
    assert np.array_equal(again.logits(rows.texts), fitted.logits(rows.texts))
    same = scorer.fit(rows.texts, rows.required, rows.asked, seed=0)
    assert np.array_equal(same.logits(rows.texts), fitted.logits(rows.texts))


def test_in_a_fold_the_slow_scorer_has_not_seen_the_rows_outside_it() -> None:
    rows = rows_of(examples(60), AGENTS)
    seen: list[set[str]] = []

    def watched(inside: Rows, texts: list[str], seed: int) -> FloatArray:
        seen.append(set(inside.texts))
        return np.zeros((len(texts), 4), np.float32)

    groups = [group_key(text) for text in rows.texts]
    scorer = student.StudentScorer(["one more"], watched, TAUGHT)
    cross_fit(scorer, rows, groups, seed=0)
    assert len(seen) == 4
    inside, whole = seen[:3], seen[3]
    assert whole == set(rows.texts)
    assert all(part < whole for part in inside)
    assert not set.intersection(*inside) - set.union(*inside)
    assert set.union(*(whole - part for part in inside)) == whole


def test_a_report_says_what_the_texts_brought_and_a_setting_leaves_them_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoders, "SEQUENCE_ROWS", 1_000)
    rows, val = (rows_of([e for e in examples(80) if e.split == s], AGENTS) for s in ("train", "val"))
    groups = [group_key(text) for text in rows.texts]
    texts = [e.text for e in examples(200, seed=5)]
    config = Config.from_mapping({"folds": 3, "svm_c": 1.0, "sentences": False})
    report = fit_encoder(config, rows, groups, val, agents=AGENTS, beside=Beside(texts), progress=lambda *_: None)[1]
    assert report["student"]["texts"] == len({tidied(text) for text in texts}) < len(texts)
    assert report["student"]["taught_by"] == ["n-grams"]
    assert {"jaccard", "against"} <= set(report["student"]["brought"])
    few = fit_encoder(config, rows, groups, val, agents=AGENTS, beside=Beside(texts[:9]), progress=lambda *_: None)[1]
    assert "student" not in few


def test_a_folder_keeps_the_texts_of_unlabeled_training_rows(tmp_path: Path) -> None:
    (tmp_path / "agents.jsonl").write_text(json.dumps({"id": 0, "name": "Billing"}) + "\n")
    rows = [{"text": "one", "required_agents": [0]}, {"text": "two", "required_agents": None}, {"text": "three"}]
    (tmp_path / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "val.jsonl").write_text(json.dumps({"text": "four"}) + "\n")
    folder = read_folder(tmp_path)
    assert folder.texts == ("two", "three")
    assert (len(folder.train), folder.unlabeled) == (1, 3)
