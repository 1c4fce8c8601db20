"""What containers run: health as a proxy's peer asks for it, and a compose file whose commands and settings exist."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command, get_commands
from django.core.management.base import CommandError

from routerweb import env, health
from tests import orchestration
from training_app.management.commands import up

pytestmark = pytest.mark.any_database
ROOT = Path(__file__).parent.parent
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
OURS = {name: service for name, service in COMPOSE["services"].items() if name != "db"}


class Answering(BaseHTTPRequestHandler):
    """Answers as a site behind a TLS proxy: to a known host over a secure connection, else with an error or a redirect."""

    status = "ok"
    hosts = ("routes.example.com", "health.example.com", "127.0.0.1")

    def do_GET(self) -> None:
        code = 200 if self.status in ("ok", "degraded") else 503
        if self.headers["Host"] not in self.hosts:
            code = 400
        if self.headers["X-Forwarded-Proto"] != "https" or self.status == "redirecting":
            code = 301
        body = json.dumps({"status": self.status}).encode() if code in (200, 503) else b"<h1>no</h1>"
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Answering]]:
    handler = type("Handler", (Answering,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        monkeypatch.setenv("PORT", str(server.server_address[1]))
        monkeypatch.setenv("ALLOWED_HOSTS", "routes.example.com")
        yield handler
        server.shutdown()


@pytest.mark.parametrize("hosts", ["routes.example.com,other.example.org", ".example.com", "*"])
def test_health_is_asked_by_a_name_that_the_site_answers_to(site: Any, hosts: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("ALLOWED_HOSTS", hosts)
    assert health.main() == 0


@pytest.mark.parametrize(("status", "code"), [("ok", 0), ("degraded", 0), ("unavailable", 1)])
def test_a_process_that_answers_from_memory_is_healthy(site: Any, status: str, code: int) -> None:
    site.status = status
    assert health.main() == code


def test_a_site_that_redirects_says_what_is_missing(site: Any, capsys: Any) -> None:
    site.status = "redirecting"
    assert health.main() == 1
    assert "BEHIND_TLS_PROXY" in capsys.readouterr().out


def test_nothing_that_listens_is_unhealthy(site: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("PORT", "1")
    assert health.main() == 1


def test_the_parts_of_an_installation_start_their_own_processes() -> None:
    assert set(up.commands(["web"])) == {"web server"}
    assert set(up.commands(["jobs"])) == {"job cluster"}
    assert set(up.commands(["training"])) == {"training cluster"}
    assert set(up.commands(["worker"])) == set(up.commands(list(up.parts()))) - {"web server"}
    assert len(up.commands(list(up.parts()))) == 3 + orchestration.INSTALLED


@orchestration.needed
def test_episodes_have_a_process_of_their_own() -> None:
    assert {name: words[-1] for name, (words, _more) in up.commands(["episodes"]).items()} == {
        "episode runner": "run_episodes"
    }


def test_a_part_that_does_not_exist_is_named() -> None:
    with pytest.raises(CommandError, match="Unknown part trainer"):
        call_command("up", "trainer")


@pytest.mark.parametrize("folder", [".", "missing"])
def test_a_database_that_was_never_migrated_starts_nothing_and_says_what_to_do(tmp_path: Path, folder: str) -> None:
    environment = {
        **os.environ, "SECRET_KEY": "s", "PLAIN_HTTP": "1", "DATA_DIR": str(tmp_path / folder), "DATABASE_URL": "",
        "DJANGO_SETTINGS_MODULE": "routerweb.settings",
    }  # fmt: skip
    ended = subprocess.run(
        [sys.executable, "manage.py", "up"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
    assert (ended.returncode, "python manage.py migrate" in ended.stderr) == (1, True)


@pytest.mark.parametrize("name", OURS)
def test_a_service_runs_a_command_that_exists(name: str) -> None:
    python, manage, command, *words = OURS[name]["command"]
    assert (python, manage) == ("python", "manage.py")
    assert command in get_commands()
    if command == "up" and (name != "episodes" or orchestration.INSTALLED):
        assert set(words) <= set(up.parts())


@pytest.mark.parametrize("name", OURS)
def test_a_service_waits_for_the_migration_and_may_not_write_to_its_image(name: str) -> None:
    waits_for = {"db": "service_healthy"} if name == "migrate" else {"migrate": "service_completed_successfully"}
    assert {other: how["condition"] for other, how in OURS[name]["depends_on"].items()} == waits_for
    assert OURS[name]["read_only"]
    assert OURS[name]["cap_drop"] == ["ALL"]


@pytest.mark.parametrize(("service", "part"), [("worker", "jobs"), ("trainer", "training"), ("episodes", "episodes")])
def test_a_worker_is_healthy_while_it_does_something(service: str, part: str) -> None:
    assert OURS[service]["healthcheck"]["test"] == ["CMD", "python", "manage.py", "worker_alive", part]
    assert "worker_alive" in get_commands()


def test_the_compose_file_passes_settings_that_exist_and_holds_no_secret() -> None:
    passed = OURS["web"]["environment"]
    assert set(passed) <= set(env.DOCUMENTED)
    for name, value in passed.items():
        if any(word in name for word in ("KEY", "PASSWORD", "SECRET", "URL")):
            assert re.search(r"\$\{\w+(:\?[^}]+|:-)\}", value), f"{name} has a value of its own"


def test_the_image_runs_as_nobody_in_particular() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER")]
    assert users == ["10001:10001"]
    last = max(i for i, line in enumerate(lines) if line.startswith(("COPY", "RUN")))
    assert lines.index("USER 10001:10001") > last
    assert any("python" in line and "routerweb.health" in line for line in lines if line.startswith("HEALTHCHECK"))
