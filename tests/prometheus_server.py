"""A real Prometheus that reads a real server of ours, with the configuration of `monitoring/`."""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.on_postgresql import free_port

PLACE = Path(__file__).parents[1] / "monitoring"
RULES = "alerts.yml"


@dataclass
class Prometheus:
    """A server that answers at `address`."""

    address: str

    def get(self, path: str, **parameters: str) -> Any:
        answer = httpx.get(f"{self.address}/api/v1/{path}", params=parameters, timeout=30)
        assert answer.status_code == 200, f"{parameters}: {answer.text}"
        assert answer.json()["status"] == "success"
        return answer.json()["data"]

    def value(self, expression: str) -> float:
        """The one value of an expression; 0 where there is none."""
        result = self.get("query", query=expression)["result"]
        assert len(result) <= 1, result
        return float(result[0]["value"][1]) if result else 0.0

    def await_value(self, expression: str, wanted: float) -> float:
        until = time.monotonic() + 60
        while (value := self.value(expression)) != wanted and time.monotonic() < until:
            time.sleep(0.3)
        return value

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        return {one["labels"]["alertname"] for one in self.get("alerts")["alerts"] if one["state"] == "firing"}


@contextlib.contextmanager
def reading(address: str, key: str, folder: Path, rules: str | None = None) -> Iterator[Prometheus]:
    """A Prometheus that reads the server at `address` (http://…) with this key once a second, keeps its data in `folder`, and follows
    the rules of `monitoring/`, or the text of others. Skips the test where it is not installed, unless REQUIRE_PROMETHEUS=1."""
    command = shutil.which("prometheus")
    if command is None:
        if os.environ.get("REQUIRE_PROMETHEUS") == "1":
            pytest.fail("Prometheus is not installed, and REQUIRE_PROMETHEUS=1.")
        pytest.skip("Prometheus is not installed.")
    place = folder / "monitoring"
    shutil.copytree(PLACE, place)
    (place / "key").write_text(key)
    if rules is not None:
        (place / RULES).write_text(rules)
    ours = (place / "prometheus.yml").read_text()
    assert "127.0.0.1:8000" in ours
    changed = ours.replace("127.0.0.1:8000", address.removeprefix("http://")).replace("_interval: 15s", "_interval: 1s")
    (place / "prometheus.yml").write_text(changed)
    port = free_port()
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(
            [command, "--config.file=prometheus.yml", f"--storage.tsdb.path={folder / 'tsdb'}",
             f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"],
            cwd=place, stdout=log, stderr=log,
        )  # fmt: skip
    started = Prometheus(f"http://127.0.0.1:{port}")
    try:
        for _ in range(300):
            try:
                if httpx.get(f"{started.address}/-/ready", timeout=5).status_code == 200:
                    break
            except httpx.TransportError:
                assert process.poll() is None, (folder / "prometheus.log").read_text()
            time.sleep(0.1)
        yield started
    finally:
        process.terminate()
        process.wait(30)
