"""The alert rules and the dashboard: each asks for metrics that are there, and Prometheus' own tool takes them where there is one."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests import orchestration
from training_app.answering import meters
from training_app.answering.meters import Meter

pytestmark = [pytest.mark.any_database, orchestration.needed]  # the documents and the dashboard name its metrics too
ROOT = Path(__file__).parent.parent
PLACE = ROOT / "monitoring"
RULES = yaml.safe_load((PLACE / "alerts.yml").read_text("utf-8"))["groups"][0]["rules"]
DASHBOARD = json.loads((PLACE / "grafana.json").read_text("utf-8"))
EXPRESSIONS = [rule["expr"] for rule in RULES] + [t["expr"] for panel in DASHBOARD["panels"] for t in panel["targets"]]


METERS = (*meters.COUNTED, *meters.read())


def test_the_reference_is_made_from_the_code() -> None:
    made = "python -m training_app.answering.meters > docs/metrics.md makes it anew"
    assert (ROOT / "docs" / "metrics.md").read_text("utf-8") == meters.reference(), made


@pytest.mark.parametrize("meter", METERS, ids=lambda meter: meter.name)
def test_a_metric_has_a_unit_a_meaning_and_labels_that_are_told(meter: Meter) -> None:
    assert meter.unit
    assert meter.says.endswith(".")
    assert set(meter.labels) <= meters.LABELS.keys()


def test_nothing_is_told_that_is_no_meter() -> None:
    """Whoever speaks to prometheus-client gives it names of meters alone, so that the reference has every one."""
    rooms = [ROOT / room for room in ("routerweb", "agents_app", "datasets_app", "training_app", "orchestration_app")]
    texts = {path: path.read_text("utf-8") for room in rooms for path in room.rglob("*.py")}
    speak = {path for path, text in texts.items() if re.search(r"^\s*(from|import) prometheus_client", text, re.M)}
    assert {path.name for path in speak} == {"metrics.py", "gauges.py", "serving.py"}
    assert not [path for path in speak if '"routerweb_' in texts[path]]
    assert {one for one in vars(meters).values() if isinstance(one, Meter)} == {*meters.COUNTED, *meters.OWN_READ}


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_asks_for_what_is_there(expression: str) -> None:
    known = {one.shown: set(one.labels) for one in METERS}
    asked_for = re.findall(r"(routerweb_\w+?)(?:_bucket)?(?:\{([^}]*)\})?(?=[\s)\[>]|$)", expression)
    assert len(asked_for) == expression.count("routerweb_")
    assert asked_for or expression.startswith("up{")
    for name, labels in asked_for:
        assert name in known, name
        assert set(re.findall(r"(\w+)\s*=", labels)) <= known[name]


def test_each_alert_says_what_it_is_and_what_to_do() -> None:
    for rule in RULES:
        assert rule["labels"]["severity"] in ("page", "ticket")
        assert {"summary", "description", "runbook"} == rule["annotations"].keys()
        page, _, section = rule["annotations"]["runbook"].partition("#")
        headings = re.findall(r"^## (\w+)$", (ROOT / page).read_text("utf-8"), re.M)
        assert section in {heading.lower() for heading in headings}
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])


def test_promtool_takes_the_rules_and_they_fire_as_they_should() -> None:
    if shutil.which("promtool") is None:
        if os.environ.get("REQUIRE_PROMETHEUS") == "1":
            pytest.fail("promtool is not installed, and REQUIRE_PROMETHEUS=1.")
        pytest.skip("promtool is not installed.")
    for words in (["check", "rules", "alerts.yml"], ["test", "rules", "alerts.test.yml"]):
        ended = subprocess.run(["promtool", *words], cwd=PLACE, capture_output=True, text=True, timeout=120)
        assert ended.returncode == 0, ended.stdout + ended.stderr


def test_each_alert_is_shown_firing() -> None:
    shown = yaml.safe_load((PLACE / "alerts.test.yml").read_text("utf-8"))["tests"]
    fired = {one["alertname"] for test in shown for one in test["alert_rule_test"] if one["exp_alerts"]}
    assert fired == {rule["alert"] for rule in RULES}
