"""The table of what each part of the policy brings."""

import json
from pathlib import Path

import pytest

from benchmarks import ablations
from tests.engine.synthetic import AGENTS, examples


@pytest.mark.at_length
def test_every_part_has_a_line_and_the_whole_leads_itself_by_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agents.jsonl").write_text("".join(json.dumps({"id": a.id, "name": a.name}) + "\n" for a in AGENTS))
    for split in ("train", "val", "test"):
        rows = [
            {"id": e.id, "text": e.text, "required_agents": sorted(e.required)} for e in examples() if e.split == split
        ]
        (tmp_path / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    some = dict(list(ablations.PARTS.items())[:2])
    monkeypatch.setattr(ablations, "PARTS", some)
    head, rule, *lines = ablations.table(tmp_path, 2, {"total_steps": "40", "val_eval_freq": "20"})
    assert head.startswith("| | test jaccard |")
    assert rule.count("---") == 5
    assert [line.split("|")[1].strip() for line in lines] == [*some, "one threshold", "Bayes' best set"]
    assert "+0.0000 (+0.0000 to +0.0000)" in lines[0]
    assert "–" not in lines[1]
    assert lines[-1].endswith("| – | – |")
