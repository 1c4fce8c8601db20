"""Learning curves: subsets lie within each other, labels are counted, and what is drawn is what was measured."""

import json
from pathlib import Path

import pytest

from tests.engine.synthetic import AGENTS, examples
from tests.thorough import EVERYTHING
from training_app.engine.benchmark import BenchmarkError, curve, main
from training_app.engine.data.examples import Row
from training_app.engine.data.files import write_rows
from training_app.engine.judging.learning_curve import interval, svg, table, write_subset


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pool")
    agents = [{"id": a.id, "name": a.name, "description": a.description} for a in AGENTS]
    (path / "agents.jsonl").write_text("".join(json.dumps(a) + "\n" for a in agents))
    for split in ("train", "val", "test"):
        rows = [Row(0, e.id, e.text, e.required) for e in examples(200) if e.split == split]
        with (path / f"{split}.jsonl").open("wb") as stream:
            write_rows(rows, "jsonl", stream)
    return path


def _ids(path: Path, *, labeled: bool | None = None) -> list[str]:
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [r["id"] for r in rows if labeled is None or (r.get("required_agents") is not None) == labeled]


def test_a_fifth_is_validation_and_the_larger_subset_holds_the_smaller(folder: Path, tmp_path: Path) -> None:
    for labels in (50, 100):
        write_subset(folder, tmp_path / str(labels), labels, draw=3)
    for labels, val in ((50, 10), (100, 20)):
        assert len(_ids(tmp_path / str(labels) / "val.jsonl")) == val
        assert len(_ids(tmp_path / str(labels) / "train.jsonl")) == labels - val
    for name in ("train.jsonl", "val.jsonl"):
        assert set(_ids(tmp_path / "50" / name)) < set(_ids(tmp_path / "100" / name))
    assert (tmp_path / "50" / "test.jsonl").read_bytes() == (folder / "test.jsonl").read_bytes()


def test_the_other_texts_stay_without_their_labels(folder: Path, tmp_path: Path) -> None:
    write_subset(folder, tmp_path, 50, draw=0, unlabeled=True)
    train = tmp_path / "train.jsonl"
    assert len(_ids(train, labeled=True)) == 40
    assert sorted(_ids(train) + _ids(tmp_path / "val.jsonl")) == sorted(_ids(folder / "train.jsonl"))


@pytest.mark.at_length
def test_a_curve_has_every_router_at_every_size(folder: Path, tmp_path: Path) -> None:
    draws = 2 if EVERYTHING else 1  # a process of its own for each router, size and draw
    found = curve(folder, [20, 60], draws, ["svm", "constant"], {})
    for name in ("svm", "constant"):
        assert {size: len(p["jaccard"]) for size, p in found["routers"][name].items()} == {"20": draws, "60": draws}
    lines = list(table(found))
    assert lines[2].split()[0] == "svm"
    drawn = svg(found)
    assert drawn.count("<polyline") == 2
    assert drawn.count("<circle") == 4


def test_few_subsets_have_wide_intervals_and_one_has_none() -> None:
    assert interval([0.5, 0.7]) == pytest.approx((0.6, 0.6 - 1.27062, 0.6 + 1.27062), abs=1e-5)  # 12.7062 · 0.1
    assert interval([0.5]) == (0.5, 0.5, 0.5)
    one = {"sizes": [20], "subsets": 1, "routers": {"svm": {"20": {"jaccard": [0.5]}}}}
    assert list(table(one))[2].split() == ["svm", "0.500"]


def test_what_cannot_be_drawn_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BenchmarkError, match="the folder has 120 labeled"):
        curve(folder, [5000], 1, ["constant"], {})
    assert main([str(folder), "--curve", "many", "--routers", "constant"]) == 1
    assert "numbers of labels" in capsys.readouterr().err
