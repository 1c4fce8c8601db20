"""The table of measures is complete, and nothing else lists measures by hand."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from training_app.engine import config
from training_app.engine.data import metrics
from training_app.engine.measures import COMPARED, GOALS, HEADLINE, MEASURES, PRIMARY, SHARES

ROOT = Path(__file__).parents[2]
#: Files that name several measures for another reason than to list them, and which one.
EXEMPT = {
    "training_app/api/examples.py": "an answer as an example",
    "training_app/engine/config.py": "what a promise counts as wrong, which is not every measure",
    "training_app/engine/judging/next_labels.py": "what more labels are said to bring: two measures whose laws were tried",
    "training_app/rollout/live_figures.py": "how far two sets agree, in one sentence of its page",
    "training_app/versions/fair_sample.py": "the same",
}
#: Names that are hardly ever anything else. Precision and recall are of agents and of "none of these", too.
TELLING = {"jaccard", "f1", "exact", "success", "set_size"}


def test_a_measure_says_everything_that_is_shown_of_it() -> None:
    for name, measure in MEASURES.items():
        assert name == measure.name
        assert measure.label, name
        assert measure.meaning.endswith("."), name
    assert set(HEADLINE) <= set(COMPARED) & set(SHARES), "tables show a lead beside a headline figure"
    assert PRIMARY in HEADLINE


@pytest.mark.parametrize("name", MEASURES)
def test_shares_lie_between_0_and_1_and_only_they(name: str) -> None:
    rng = np.random.default_rng(0)
    values = metrics.per_query(rng.random((500, 4)) < 0.7, rng.random((500, 4)) < 0.3)[name]
    assert values.min() >= 0
    assert (values.max() <= 1) == MEASURES[name].bounded


def test_a_run_can_have_every_goal() -> None:
    for goal in GOALS:
        assert config.Config.from_mapping({"goal": goal}).goal == goal
    for name, measure in MEASURES.items():
        assert (name in GOALS) == (measure.expected is not None)


def listed_by_hand(tree: ast.AST) -> list[int]:
    """Lines of tuples, lists, sets and dicts that spell two measures or more."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            items: list[ast.expr | None] = list(node.keys)
        elif isinstance(node, ast.Tuple | ast.List | ast.Set):
            # Also rows of (name, label).
            items = [
                inner
                for one in node.elts
                for inner in ([one.elts[0]] if isinstance(one, ast.Tuple) and one.elts else [one])
            ]
        else:
            continue
        if len({one.value for one in items if isinstance(one, ast.Constant) and one.value in TELLING}) > 1:
            lines.append(node.lineno)
    return lines


@pytest.mark.parametrize("package", ["agents_app", "datasets_app", "training_app"])
def test_nothing_else_lists_measures_by_hand(package: str) -> None:
    found = {
        str(path.relative_to(ROOT)): lines
        for path in sorted((ROOT / package).rglob("*.py"))
        if not {"orchestrating", "orchestration", "migrations"} & set(path.parts)
        and "orchestrator" not in path.name
        and path != ROOT / "training_app" / "engine" / "measures.py"
        and (lines := listed_by_hand(ast.parse(path.read_text())))
    }
    assert set(found) <= set(EXEMPT), found
    for name in EXEMPT:
        if name.startswith(package):
            assert name in found, f"{name} is exempt for nothing"
