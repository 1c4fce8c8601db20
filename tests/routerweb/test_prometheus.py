"""A real Prometheus with the configuration, the rules and the dashboard of `monitoring/`, beside a real server of two processes."""

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests import orchestration
from tests.prometheus_server import PLACE, Prometheus, reading
from tests.routerweb.test_metrics import OPS
from tests.routerweb.test_server import Server, prepared, python  # noqa: F401
from training_app.answering import meters

pytestmark = [pytest.mark.at_length, pytest.mark.process, pytest.mark.any_database]
DASHBOARD = json.loads((PLACE / "grafana.json").read_text("utf-8"))
#: What Grafana puts in the place of its variables.
VARIABLES = {"$pool": "support|other", "$__rate_interval": "1m", "$__range": "5m"}
#: Rows for every gauge that counts rows; and schedules as they are where a cluster looks at them.
ROWS = """
import django; django.setup()
from datetime import timedelta
from django.utils import timezone
from django_q.models import Schedule
from agents_app.models import Pool
from datasets_app.models import SplitGroup
from datasets_app.queries import adding
pool = Pool.objects.get()
group = SplitGroup.objects.create(pool=pool, key="made up", split="train")
adding.dataset_of(pool).queries.create(text="where is it", group=group)
Schedule.objects.update(next_run=timezone.now() + timedelta(days=1))
"""
EPISODES = """
import django; django.setup()
from agents_app.models import Pool
from orchestration_app.models import Episode
Episode.objects.create(pool=Pool.objects.get(), policy="one_shot", task="where is it", status="done", cost=1.25)
"""


@dataclass
class Watched(Prometheus):
    """A Prometheus and the server that it reads."""

    server: Server


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[Path, str]) -> Iterator[Watched]:  # noqa: F811
    folder = Path(shutil.copytree(prepared[0], tmp_path_factory.mktemp("prometheus") / "installation"))
    key = python(folder, "-c", OPS)
    python(folder, "-c", ROWS)
    if orchestration.INSTALLED:
        python(folder, "-c", EPISODES)
    server = Server(folder, prepared[1], METRICS="1", WEB_WORKERS="2")
    try:
        with reading(server.address, key, folder) as started:
            yield Watched(started.address, server)
    finally:
        os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait(10)


def test_it_reads_what_both_processes_have_answered(prometheus: Watched) -> None:
    told = [prometheus.server.route(("billing", "shipping", "refund the invoice")[n % 3]) for n in range(30)]
    assert prometheus.await_value("sum(routerweb_decisions_total)", 30) == 30
    assert prometheus.value('up{job="routerweb"}') == 1
    named = sum(len(answer["agents"]) for answer in told)
    assert prometheus.value("sum(routerweb_agent_decisions_total)") == named
    assert prometheus.value('routerweb_route_seconds_count{pool="support"}') == 30
    assert prometheus.value('routerweb_queries{pool="support", state="unlabeled"}') == 1
    if orchestration.INSTALLED:
        assert prometheus.value('routerweb_episodes{pool="support", status="done"}') == 1
        assert prometheus.value('routerweb_spend{pool="support"}') == 1.25
    assert prometheus.value('routerweb_jobs_waiting{cluster="train"}') == 0
    assert 0 < prometheus.value("histogram_quantile(0.99, sum by (le) (routerweb_route_seconds_bucket))") <= 1


def test_what_it_knows_of_a_metric_is_what_the_reference_says(prometheus: Watched) -> None:
    prometheus.server.route("billing")
    prometheus.await_value("count(routerweb_decisions_waiting)", 1)
    found = prometheus.get("metadata")
    described = {one.name: one for one in (*meters.COUNTED, *meters.read())}
    for name, told in found.items():
        if name.startswith("routerweb_"):
            meter = described[name.removesuffix("_total")]
            assert told == [{"type": meter.kind, "help": meter.says.rstrip("."), "unit": ""}]
    for meter in described.values():
        series = prometheus.get(
            "series", **{"match[]": meter.shown if meter.kind != "histogram" else f"{meter.name}_count"}
        )
        for labels in series:
            assert labels.keys() - {"__name__", "job", "instance"} == set(meter.labels)


def test_it_evaluates_every_rule(prometheus: Watched) -> None:
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    ours = yaml.safe_load((PLACE / "alerts.yml").read_text())["groups"][0]["rules"]
    assert [rule["name"] for rule in rules] == [rule["alert"] for rule in ours]
    until = time.monotonic() + 30
    while any(rule["health"] == "unknown" for rule in rules) and time.monotonic() < until:
        time.sleep(0.3)
        rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert {rule["health"] for rule in rules} == {"ok"}
    assert {rule["state"] for rule in rules} == {"inactive"}
    for rule in ours:
        prometheus.get("query", query=rule["expr"])


@pytest.mark.parametrize("expression", [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]])
def test_it_answers_what_the_dashboard_asks(expression: str, prometheus: Watched) -> None:
    for variable, value in VARIABLES.items():
        expression = expression.replace(variable, value)
    assert "$" not in expression
    prometheus.get("query", query=expression)
    known = {one.shown for one in (*meters.COUNTED, *meters.read())}
    named = {re.sub(r"_(bucket|sum|count)$", "", name) for name in re.findall(r"routerweb_\w+", expression)}
    assert named <= known
    # Nobody abstains and nobody has trained here; all else has been told at least once.
    prometheus.server.route("billing")
    prometheus.await_value('count(routerweb_decisions_total{stop_reason="stop"}) > bool 0', 1)
    seen = {re.sub(r"_(bucket|sum|count)$", "", name) for name in prometheus.get("label/__name__/values")}
    assert named - seen <= {"routerweb_abstentions_total", "routerweb_runs"}


def test_the_variables_of_the_dashboard_find_the_pools(prometheus: Watched) -> None:
    (asked,) = [one["query"] for one in DASHBOARD["templating"]["list"] if one["name"] == "pool"]
    metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", asked).groups()  # type: ignore[union-attr]
    prometheus.await_value(f"count({metric}) > bool 0", 1)
    assert prometheus.get(f"label/{label}/values", **{"match[]": metric}) == ["support"]
