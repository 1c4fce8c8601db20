"""The tables and the curve of the orchestrator's benchmark, from made-up figures."""

import xml.etree.ElementTree as ET
from typing import Any

import pytest

from benchmarks import orchestrator


def seed(shift: float) -> dict[str, Any]:
    def row(price: float) -> dict[str, Any]:
        ours = {"reward": 0.6 + shift - price, "success": 0.9, "cost": 4 - 4 * price, "steps": 3.0}
        best = {"reward": 0.7 - price, "success": 0.95, "cost": 3.9 - 4 * price, "steps": 3.5}
        log = [{"step": step, "val_reward": shift + step / 100} for step in (10, 20)]
        baselines = {"random": {**ours, "reward": -0.5}}
        return {"ours": ours, "optimum": best, "cpu": 5.0, "baselines": baselines, "log": log}

    return {"router_cpu": 3.0, "prices": {str(price): row(price) for price in orchestrator.PRICES}}


def test_leads_are_over_seeds_and_the_curve_has_every_price() -> None:
    found = orchestrator.summary([seed(0.0), seed(0.1)])
    lead = found["baselines"]["random"]["lead"]["reward"]
    assert lead["mean"] == pytest.approx(1.05)
    assert lead["low"] < 1.0 < 1.1 < lead["high"]
    assert found["cpu_seconds"] == 8.0
    assert [point["price"] for point in found["curve"]] == list(orchestrator.PRICES)
    assert found["share_of_optimum"] == pytest.approx([0.5 / 0.6, 1.0])
    assert "| random | -0.500 |" in orchestrator.table(found)
    assert [(one["step"], one["val_reward"]["mean"]) for one in found["convergence"]] == [
        (10, pytest.approx(0.15)),
        (20, pytest.approx(0.25)),
    ]


def test_the_curve_is_drawn_with_a_point_for_each_price() -> None:
    drawn = ET.fromstring(orchestrator.svg(orchestrator.summary([seed(0.0)])["curve"]))
    circles = [element for element in drawn.iter() if element.tag.endswith("circle")]
    assert len(circles) == 2 * len(orchestrator.PRICES)
    words = [element.text for element in drawn.iter() if element.tag.endswith("text")]
    assert {"0.02", "0.5"} <= set(words)
