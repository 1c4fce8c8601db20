"""The written texts can be read, and what they are measured on holds none of them."""

import json
from pathlib import Path

import pytest

from benchmarks.written import texts
from benchmarks.written.__main__ import new_ones, pairs
from tests.engine.synthetic import AGENTS, examples
from training_app.engine.data.folders import read_folder

POOLS = sorted(path.stem for path in texts.HERE.glob("*.txt"))


@pytest.mark.parametrize("pool", POOLS)
def test_each_agent_has_texts_and_none_stands_twice(pool: str) -> None:
    found = texts.written(pool)
    assert len({example.text for example in found}) == len(found)
    agents = {agent for example in found for agent in example.required}
    assert agents == set(range(len(agents)))
    assert min(sum(agent in example.required for example in found) for agent in agents) >= 5


def test_a_line_without_agents_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "HERE", tmp_path)
    for line in ("no colon", "1 x: a text", "1:", ": a text"):
        (tmp_path / "one.txt").write_text(f"1: fine\n{line}\n")
        with pytest.raises(ValueError, match=r"one\.txt, line 2"):
            texts.written("one")


@pytest.mark.at_length
def test_both_routers_are_measured_and_copies_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / "agents.jsonl").write_text("".join(json.dumps({"id": a.id, "name": a.name}) + "\n" for a in AGENTS))
    rows = examples(60)
    for split in ("train", "val", "test"):
        lines = [json.dumps({"text": e.text, "required_agents": sorted(e.required)}) for e in rows if e.split == split]
        (folder / f"{split}.jsonl").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(texts, "HERE", tmp_path)
    (tmp_path / "one.txt").write_text(f"0: {rows[0].text.upper()}\n0: quite another\n")
    assert [example.text for example in new_ones(read_folder(folder), "one")] == ["quite another"]
    quick = {"encoder": "fast", "decision": "threshold", "sentences": "false"}
    (both,) = pairs(tmp_path, "one", 20, [0], quick)
    assert all(0 < jaccard <= 1 for jaccard in both)
