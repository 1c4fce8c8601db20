"""The direct estimate: category means, what a query adds to them, and the benchmark that measures it."""

import json
from pathlib import Path

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from orchestration_app.engine.backends import benchmark, direct
from orchestration_app.engine.backends.direct import Outcomes

SMALL, LARGE = "small", "large"
EASY, HARD = ("parcel", "refund", "address", "label"), ("tensor", "proof", "lemma", "kernel")


def outcomes(count: int, seed: int) -> Outcomes:
    """Two backends: the large one succeeds, the small one on texts with easy words alone; one category says nothing of it."""
    rng = np.random.Generator(np.random.PCG64(seed))
    texts, categories, success = [], [], []
    for row in range(count):
        hard = bool(rng.random() < 0.5)
        words = rng.choice(HARD if hard else EASY, 3)
        texts.append(f"Say whether this holds.\n\nquery {row} about {' '.join(words)}")
        categories.append("both" if rng.random() < 0.7 else "other")
        success.append([float(rng.random() < (0.1 if hard else 0.9)), float(rng.random() < 0.95)])
    cost = np.array([[0.1, 1.0]] * count)
    return Outcomes(texts, categories, np.array(success), cost, (SMALL, LARGE))


@pytest.fixture(scope="module")
def fitted() -> direct.DirectEstimate:
    return direct.fit(outcomes(300, 1), outcomes(100, 2), meaning=False)


def test_a_query_tells_who_will_do(fitted: direct.DirectEstimate) -> None:
    success, dollars = fitted.estimate(["about parcel refund label", "about lemma proof tensor"], ["both", "both"])
    assert success[0, 0] > 0.7
    assert success[1, 0] < 0.3
    assert success[:, 1].min() > 0.8
    assert dollars == pytest.approx(np.array([[0.1, 1.0]] * 2))


def test_an_unknown_category_is_that_of_the_likeliest_query(fitted: direct.DirectEstimate) -> None:
    success, _ = fitted.estimate(["about lemma proof tensor"] * 2, [None, "never seen"])
    assert success[:, 0].max() < 0.45
    assert np.array_equal(success[0], success[1])


def test_what_all_texts_share_is_left_out(fitted: direct.DirectEstimate) -> None:
    assert fitted.gist("Say whether this holds.\n\nquery about parcel") == "query about parcel"
    assert fitted.gist("Say whether this holds.") == "Say whether this holds."


def test_many_and_one_get_the_same(fitted: direct.DirectEstimate) -> None:
    rows = outcomes(20, 3)
    together = fitted.estimate(rows.texts, rows.categories)[0]
    each = [
        fitted.estimate([text], [category])[0][0] for text, category in zip(rows.texts, rows.categories, strict=True)
    ]
    assert np.allclose(together, np.stack(each))


def test_parts_come_back_whole(fitted: direct.DirectEstimate) -> None:
    again = direct.DirectEstimate.from_parts(json.loads(json.dumps(fitted.config())), fitted.tensors())
    rows = outcomes(20, 4)
    assert np.array_equal(
        again.estimate(rows.texts, rows.categories)[0], fitted.estimate(rows.texts, rows.categories)[0]
    )


def test_a_neighbour_may_mean_the_opposite() -> None:
    """Twins that differ in one word: a backend that overlooks it fails on exactly one of the two."""
    rng = np.random.Generator(np.random.PCG64(0))
    texts, success = [], []
    for pair in range(120):
        stem = " ".join(f"w{rng.integers(4000)}" for _ in range(12))
        first = float(rng.random() < 0.5)
        texts += [f"{stem} because it is larger {pair}", f"{stem} because it is smaller {pair}"]
        success += [[first], [1 - first]]
    rows = Outcomes(texts, ["twins"] * 240, np.array(success), np.ones((240, 1)), ("one",))
    found = direct.fit(rows.take(np.arange(0, 200)), meaning=False)
    half = rows.take(np.arange(200, 240, 2))
    seen = direct.fit(rows.take(np.r_[np.arange(200), np.arange(201, 240, 2)]), meaning=False)
    told = seen.estimate(half.texts, half.categories)[0][:, 0]
    assert np.corrcoef(told, half.success[:, 0])[0, 1] > 0.8
    assert found.categories["twins"].neighbour[0, 0] < -0.5


def test_from_which_likeness_a_neighbour_counts_is_learnt() -> None:
    """Texts that share half of their words say nothing of one another here; twins say all."""
    rng = np.random.Generator(np.random.PCG64(1))
    stems = [" ".join(f"w{n}" for n in rng.integers(400, size=12)) for _ in range(150)]
    rows = []
    for stem in stems:
        half = " ".join([*stem.split()[:6], *(f"v{n}" for n in rng.integers(400, size=6))])
        first = float(rng.random() < 0.5)
        rows += [(stem, first), (stem + " too", first), (half, float(rng.random() < 0.5))]
    texts, success = zip(*rows, strict=True)
    some = Outcomes(texts, ["x"] * len(rows), np.array(success)[:, None], np.ones((len(rows), 1)), ("one",))
    start, width = direct.fit(some, meaning=False).categories["x"].alike
    assert 0.5 <= start <= 0.7, "twins are more alike than 0.7"
    assert width == direct.WIDTH


def test_an_artifact_that_does_not_say_from_where_neighbours_count_is_read_as_before(
    fitted: direct.DirectEstimate,
) -> None:
    config = fitted.config()
    del config["alike"]
    again = direct.DirectEstimate.from_parts(config, fitted.tensors())
    assert {part.alike for part in again.categories.values()} == {direct.BEFORE}


def write(folder: Path, name: str, rows: Outcomes) -> None:
    lines = [
        json.dumps({
            "id": str(i), "text": text, "category": category,
            "outcomes": [
                {"backend": b, "success": rows.success[i, k], "cost": rows.cost[i, k]} for k, b in enumerate(rows.backends)
            ],
        })
        for i, (text, category) in enumerate(zip(rows.texts, rows.categories, strict=True))
    ]  # fmt: skip
    (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(direct.sentences, "installed", lambda: False)
    for name, count, seed in (("train", 200, 1), ("val", 80, 2), ("test", 80, 3)):
        write(tmp_path, name, outcomes(count, seed))
    return tmp_path


def test_the_command_writes_the_figures_under_their_names(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("benchmark_backends", str(folder), json=str(folder / "figures.json"), plot=str(folder / "plot.svg"))
    routers = json.loads((folder / "figures.json").read_text())["routers"]
    assert set(routers["routerweb"]) == {"aiq", "best_quality", "cost_at_95", "cost_at_100"}
    assert routers["routerweb"]["aiq"] > routers["by category"]["aiq"] > 0.5
    assert routers["routerweb"]["cost_at_95"] < 0.8
    assert routers["oracle"]["aiq"] >= routers["routerweb"]["aiq"]
    assert routers["single backends"]["cost_at_95"] == 1.0
    assert "routerweb" in capsys.readouterr().out
    assert (folder / "plot.svg").read_text().startswith("<svg")


def test_noise_costs_and_the_time_of_a_choice_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("benchmark_backends", str(folder), noise=True)
    assert "noise 0.3" in capsys.readouterr().out
    assert [row["backends"] for row in benchmark.decision_times((3, 5), rounds=20)] == [3, 5]


def test_a_bad_row_is_named_with_its_line(folder: Path) -> None:
    (folder / "val.jsonl").write_text('{"text": "x", "outcomes": [{"backend": "small"}]}\n')
    with pytest.raises(CommandError, match=r"val\.jsonl, line 1"):
        call_command("benchmark_backends", str(folder))
    (folder / "val.jsonl").write_text('{"text": "x", "outcomes": [{"backend": "tiny", "success": 1, "cost": 1}]}\n')
    with pytest.raises(CommandError, match="tiny"):
        call_command("benchmark_backends", str(folder))
