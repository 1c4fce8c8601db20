"""The page of sizes follows from its costs."""

from pathlib import Path

import pytest

from benchmarks.scale import sizes

pytestmark = pytest.mark.any_database


def test_the_page_is_what_the_costs_say() -> None:
    made = "python -m benchmarks.scale.sizes > docs/scale.md makes it anew"
    assert (Path(__file__).parents[2] / "docs" / "scale.md").read_text("utf-8") == sizes.page(), made


@pytest.mark.parametrize(("routes", "ms", "count"), [(1, 1.0, 2), (1_000, 1.0, 2), (1_001, 1.0, 3), (10_000, 2.5, 50)])
def test_cores_are_half_busy_and_one_may_be_lost(routes: int, ms: float, count: int) -> None:
    assert sizes.processes(routes, ms) == count
