"""The alert rules and the dashboard: each asks for metrics that are there, and Prometheus' own tool takes them where there is one."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

pytestmark = pytest.mark.any_database
ROOT = Path(__file__).parent.parent
PLACE = ROOT / "monitoring"
RULES = yaml.safe_load((PLACE / "alerts.yml").read_text("utf-8"))["groups"][0]["rules"]
DASHBOARD = json.loads((PLACE / "grafana.json").read_text("utf-8"))
EXPRESSIONS = [rule["expr"] for rule in RULES] + [t["expr"] for panel in DASHBOARD["panels"] for t in panel["targets"]]


def documented() -> dict[str, set[str]]:
    """Metric → its labels, as docs/operations.md lists them."""
    text = (ROOT / "docs" / "operations.md").read_text("utf-8").split("## Metrics", 1)[1]
    named = re.findall(r"`(routerweb_\w+)(?:\{([^}]*)\})?`", text)
    return {name: set(labels.split(", ")) if labels else set() for name, labels in named}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_asks_for_what_is_there(expression: str) -> None:
    known = documented()
    asked_for = re.findall(r"(routerweb_\w+?)(?:_bucket)?(?:\{([^}]*)\})?(?=[\s)\[>]|$)", expression)
    assert len(asked_for) == expression.count("routerweb_")
    assert asked_for or expression.startswith("up{")
    for name, labels in asked_for:
        assert name in known, name
        assert set(re.findall(r"(\w+)\s*=", labels)) <= known[name]


def test_each_alert_says_what_it_is_and_what_to_do() -> None:
    for rule in RULES:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert {"summary", "description"} == rule["annotations"].keys()
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_takes_the_rules_and_they_fire_as_they_should() -> None:
    for words in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"]):
        ended = subprocess.run(["promtool", *words], cwd=PLACE, capture_output=True, text=True, timeout=120)
        assert ended.returncode == 0, ended.stdout + ended.stderr
