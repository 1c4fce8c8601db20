from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from benchmarks.growth import plot, pools, run


def test_a_pool_has_the_size_that_was_asked_for() -> None:
    agents, examples = pools.pool(2_000, 30)
    count = {split: sum(e.split == split for e in examples) for split in ("train", "val", "test")}
    assert count == {"train": 2_000, "val": 200, "test": 200}
    assert [agent.id for agent in agents] == list(range(30))
    sizes = [len(e.required) for e in examples]
    assert set(sizes) == {0, 1, 2, 3, 4}
    times = [sum(a in e.required for e in examples) for a in range(30)]
    assert min(times) > 0
    assert times[0] > 5 * times[-1]
    # A text tells by its words whom it needs: each required agent has one of its own in it.
    own = {agent.id: set(agent.description.split()) | set(agent.keywords) for agent in agents}
    said = sum(bool(own[a] & set(e.text.replace(",", "").split())) for e in examples for a in e.required)
    assert said > 0.2 * sum(sizes)


def test_the_same_seed_makes_the_same_pool() -> None:
    assert pools.pool(200, 5, seed=1) == pools.pool(200, 5, seed=1)
    assert pools.pool(200, 5, seed=1) != pools.pool(200, 5, seed=2)


def test_more_queries_bring_more_words() -> None:
    def words(count: int) -> int:
        return len({word for e in pools.pool(count, 5)[1] for word in e.text.split()})

    assert words(4_000) > 2 * words(1_000)


def point(queries: int, agents: int) -> dict:
    return {
        "queries": queries,
        "agents": agents,
        "settings": {},
        "encoder": "linear",
        "jaccard": 0.9,
        "baselines": {"random": 0.1, "svm": 0.85} if agents < 200 else {},
        "cpu_seconds": queries / 50,
        "phases": {"scorer": 3.0, "policy": 4.0},
        "peak_mb": 1234.5,
        "artifact_mb": 2.0,
        "route_us_p50": 50.0 + agents,
        "route_us_p99": 190.0,
    }


POINTS = [point(q, a) for q, a in run.grid()]


def test_the_table_has_every_point() -> None:
    lines = plot.table(POINTS).splitlines()
    assert len(lines) == 2 + len(POINTS)
    assert lines[2].startswith("| 5 | 10,000 | linear | 0.900 | 0.850 | 200 |")
    assert lines[-1].startswith("| 200 | 100,000 | linear | 0.900 | – |")


def test_the_plot_draws_both_ways_to_grow_and_says_every_value() -> None:
    root = ET.fromstring(plot.svg(POINTS))
    lines = [node for node in root.iter() if node.tag.endswith("polyline")]
    assert [len(line.get("points", "").split()) for line in lines] == [5, 5, 5, 5, 5, 5, 5, 5]
    texts = [node.text for node in root.iter() if node.tag.endswith("text")]
    assert {"2,000", "1,234", "250", "190"} <= set(texts)
    # Time grows with queries alone here: to the right it goes up, that is, towards smaller y.
    first, last = (float(lines[0].get("points", "").split()[i].split(",")[1]) for i in (0, -1))
    assert last < first
    assert "prefers-color-scheme: dark" in plot.svg(POINTS)


def test_points_that_were_measured_are_not_measured_again(tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "points.jsonl").write_text("".join(json.dumps(p) + "\n" for p in POINTS))
    monkeypatch.setattr("sys.argv", ["run", str(tmp_path)])
    monkeypatch.setattr(run.subprocess, "run", lambda *_, **__: pytest.fail("measured again"))
    assert run.main() == 0
    assert (tmp_path / "growth.md").read_text().count("\n") == 2 + len(POINTS)
    assert (tmp_path / "growth.svg").read_text().startswith("<svg")
