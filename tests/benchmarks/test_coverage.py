"""Every interval that a scorecard holds is vouched for by a row of docs/certainty.md."""

import re
from typing import Any

import numpy as np
import pytest

from benchmarks import coverage
from tests.engine.synthetic import AGENTS, examples
from training_app.engine.config import Config
from training_app.engine.train import train

pytestmark = pytest.mark.any_database


def intervals_in(value: Any, path: str = "") -> set[str]:
    """Paths of a scorecard where an interval stands; places in lists are left out."""
    if isinstance(value, dict):
        if {"low", "high"} <= set(value):
            return {path}
        return set().union(*(intervals_in(inner, f"{path}.{name}".strip(".")) for name, inner in value.items()))
    if isinstance(value, list):
        return set().union(*(intervals_in(inner, path) for inner in value), set())
    return set()


def test_no_interval_of_a_scorecard_is_without_its_row(card: dict[str, Any]) -> None:
    names = " ".join(row.name for row in coverage.ROWS)
    paths = intervals_in(card)
    assert len(paths) > 20
    for path in paths:
        rows = [row for pattern, row in coverage.RELEASED.items() if re.fullmatch(pattern, path)]
        assert rows, f"{path} is shown with an interval that docs/certainty.md does not vouch for"
        assert rows[0] in names or rows[0].startswith("("), rows[0]


def test_every_row_stands_in_the_docs_with_its_figures() -> None:
    text = coverage.DOCS.read_text("utf-8")
    for row in coverage.ROWS:
        assert re.search(rf"\| {re.escape(row.name)} \| {re.escape(row.method)} \|( [\d.]+| not shown)", text), row.name


@pytest.mark.parametrize("row", coverage.ROWS, ids=lambda row: row.name)
def test_a_row_can_be_drawn_and_mostly_holds(row: coverage.Row) -> None:
    rng = np.random.default_rng(0)
    held = [one for one in (row.draw(rng, 100) for _ in range(60)) if one is not None]
    assert len(held) > 30
    assert np.mean(held) > 0.8


@pytest.fixture(scope="module")
def card() -> dict[str, Any]:
    settings = {"encoder": "linear", "svm_c": 1.0, "folds": 2, "baselines": True}
    steps = {"total_steps": 100, "epsilon_decay_steps": 50, "learning_rate": 0.01}
    *_, last = train(Config.from_mapping({**settings, **steps}), AGENTS, examples(300))
    assert last.result is not None
    return last.result.scorecard
