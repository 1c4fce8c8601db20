"""Every snippet of the documentation is run, or stands in a list with the reason why it is not.

They are run as they are shown, in the folder of an installation and against its server, with its address and key in the place of those
that are shown.
"""

import asyncio
import contextlib
import hashlib
import hmac
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from datasets_app.demo.generate import main as generate_demo
from orchestration_app.engine.orchestrating.policy import Orchestrator, fresh_network
from orchestration_app.engine.orchestrating.reading import Reader
from tests.client.test_client import SOURCE
from tests.routerweb.test_server import Server, environment, prepared  # noqa: F401
from tests.test_snippets import SNIPPETS
from tests.training_app import trained
from training_app.engine.config import Config

pytestmark = [pytest.mark.process, pytest.mark.any_database]
ROOT = Path(__file__).parent.parent

FRAMEWORK = "is run inside its framework by tests/client/test_adapters.py"
#: How a snippet that is not run here begins → where it is run, or why nowhere.
ELSEWHERE = {
    "make run": "make run is what an installation begins with: its steps are in test_end_to_end, its targets looked up below",
    "export DATABASE_URL=": "sets up another machine",
    "cat > .env <<END": "needs a container engine; tests/test_deployment.py checks what compose.yaml would run",
    "kubectl create secret": "needs a cluster; tests/test_chart.py renders and checks what Helm would install",
    "make image": "needs a container engine",
    "manage.py create_api_key prometheus": "needs Prometheus; where it is, tests/routerweb/test_prometheus.py has it read ours",
    "pip install": "installs packages; CI does by make adapters",
    "make wheel": "tests/test_wheel.py builds the wheel, installs it and starts its demo",
    "python manage.py load_pool my-data": "test_snippets walks the tutorial",
    "python manage.py label --pool support --base-url": "needs an LLM; tests/training_app/llm_only walks it beside a local server",
    "python manage.py dataset_split": "test_snippets walks the tutorial",
    "python manage.py evaluate": "fails where a model is not good enough; tests/training_app/versions/test_cases.py runs it",
    "- name: Must-pass cases": "is a step of GitHub's; tests/training_app/versions/test_cases.py runs its last command",
    "python manage.py route": "test_snippets walks the tutorial",
    "python manage.py personal_data": "asks before it erases people; tests/training_app/personal/test_personal_data.py runs it",
    "python manage.py import_agents": "its hosts are examples; tests/agents_app/sources run the command against servers",
    'curl -H "Authorization: Bearer $ROUTERWEB_KEY" http://127.0.0.1:8000/api/models/support-1/cases/': (
        "needs a key of the scope ops; tests/training_app/versions/test_cases.py asks this address"
    ),
    "openapi-python-client generate": "is run by tests/generated_clients, in the environments of `make clients`",
    "SELECT SpanAttributes": "needs ClickHouse, filled by a collector",
    "from routerweb_client.adapters.langgraph": FRAMEWORK,
    "from routerweb_client.adapters.openai_agents": FRAMEWORK,
    "from routerweb_client.adapters.llama_index": FRAMEWORK,
    "from routerweb_client.adapters.ag2": FRAMEWORK,
    "from routerweb_client.adapters import outcomes": FRAMEWORK,
    "from routerweb_client.adapters.google_adk": FRAMEWORK,
    "from routerweb_client.adapters.agent_framework": FRAMEWORK,
    "from routerweb_client.adapters.crewai": FRAMEWORK,
    "from routerweb_client.adapters.litellm": FRAMEWORK,
}
#: JSON is held to be JSON by test_snippets; what is no program is no snippet.
PROGRAMS = [(page, language, text) for page, language, text in SNIPPETS if language not in ("json", "text")]
RUN = [one for one in PROGRAMS if not one[2].startswith(tuple(ELSEWHERE))]


def named(page: str, language: str, text: str) -> str:
    return f"{page}: {text.splitlines()[0][:60]}"


def kind(language: str, *, curl: bool = False) -> list[Any]:
    found = [(page, text) for page, lang, text in RUN if lang == language and text.startswith("curl") == curl]
    return [pytest.param(page, text, id=named(page, language, text)) for page, text in found]


def test_every_snippet_is_of_a_kind_that_is_run() -> None:
    assert {language for _page, language, _text in RUN} == {"sh", "python", "yaml"}
    assert [begins for begins in ELSEWHERE if not any(text.startswith(begins) for _p, _l, text in PROGRAMS)] == []
    assert len(RUN) >= 15


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[Path, str]) -> Iterator[Server]:  # noqa: F811
    place = Path(shutil.copytree(prepared[0], tmp_path_factory.mktemp("snippets") / "installation"))
    started = Server(place, prepared[1], ARD_POOLS="support")
    yield started
    os.killpg(started.process.pid, signal.SIGKILL)
    started.process.wait(10)


def here(text: str, server: Server) -> str:
    """A snippet with this server's address, key and pool."""
    shown = ("http://127.0.0.1:8000", "https://routes.example.com")
    for address in shown:
        text = text.replace(address, server.address)
    return text.replace("rw_…", server.key).replace('"helpdesk"', '"support"')


@pytest.mark.at_length
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize(("page", "text"), kind("sh", curl=True))
def test_curl(page: str, text: str, server: Server) -> None:
    """It is answered, and where the page shows an answer it has the fields of ours."""
    ended = subprocess.run(
        ["bash", "-euc", here(text, server).replace("curl ", "curl --silent --show-error --fail-with-body ", 1)],
        env={**os.environ, "ROUTERWEB_KEY": server.key, "KEY": server.key}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    answer = json.loads(ended.stdout)
    place = SNIPPETS.index((page, "sh", text))
    follows = SNIPPETS[place + 1 : place + 2]
    if follows and follows[0][:2] == (page, "json"):
        assert set(json.loads(follows[0][2])) == set(answer)


def test_an_answer_is_compared_with_what_a_page_shows() -> None:
    after = [SNIPPETS[n + 1][1] for n, (_page, _language, text) in enumerate(SNIPPETS[:-1]) if text.startswith("curl")]
    assert after.count("json") >= 2


def orchestrator() -> bytes:
    """The artifact of an orchestrator of three agents that has learnt nothing."""
    network = fresh_network(3, 4, np.random.default_rng(0), one_shot=False)
    return Orchestrator(trained.AGENTS, Reader(3), network, repeats=1).to_artifact().to_bytes()


def executed(text: str, **names: Any) -> tuple[dict[str, Any], str]:
    """The names that a Python snippet leaves behind, and what it printed; one that awaits is run on a loop."""
    said = io.StringIO()
    if "async with" in text:
        text = f"async def snippet():\n{textwrap.indent(text, '    ')}\n    return dict(locals())\n"
    with contextlib.redirect_stdout(said):
        exec(compile(text, "snippet", "exec"), names)
        if "snippet" in names:
            names = asyncio.run(names["snippet"]())
    return names, said.getvalue()


@pytest.mark.at_length
@pytest.mark.parametrize(("page", "text"), kind("python"))
def test_python(page: str, text: str, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(server.folder / "model.zip", tmp_path / "support-3.zip")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(SOURCE))
    if "orchestrator.zip" in text:
        (tmp_path / "orchestrator.zip").write_bytes(orchestrator())
    found, said = executed(here(text, server))
    if "genuine" in found:
        stamp = str(int(time.time()))
        signed = hmac.new(b"secret", f"{stamp}.{{}}".encode(), hashlib.sha256).hexdigest()
        headers = {"Routerweb-Timestamp": stamp, "Routerweb-Signature": f"v1={signed}"}
        assert found["genuine"](headers, b"{}", "secret")
        assert not found["genuine"](headers, b"{} ", "secret")
    assert bool(said.strip()) == ("print(" in text)


#: What makes a command of the documentation short enough, and its words fit this installation.
SHORTER = {
    "../my-router": "my-router", "--train --promote": "", "--pool my-router": "--pool support", "DIR": "queries",
    "total_steps=200000": "total_steps=200", "epsilon_decay_steps=100000": "epsilon_decay_steps=100",
    "val_eval_freq=5000": "val_eval_freq=100", "min_replay_size=1000": "min_replay_size=50",
    "hidden_layers=256,128": "hidden_layers=16",
}  # fmt: skip


@pytest.mark.at_length
@pytest.mark.parametrize(("page", "text"), kind("sh"))
def test_commands(page: str, text: str, tmp_path: Path, prepared: tuple[Path, str]) -> None:  # noqa: F811
    place = Path(shutil.copytree(prepared[0], tmp_path / "installation"))
    generate_demo([str(place / "queries")])
    (place / "my-router" / "data").mkdir(parents=True)
    (place / "my-router" / "config.yaml").write_text(PEER)
    (place / "my-router" / "data" / "tasks.jsonl").write_text('{"text": "a refund", "required_agents": [0]}\n')
    given = environment(place, SCIM="1", OMP_NUM_THREADS="1")
    first = (
        "\n".join(
            (
                "manage create_api_key webshop --pool support --scope route",
                "manage scim_token okta",
                "manage invite_user ana@example.com --role labeler",
            )
        )
        + "\n"
    )
    for shown, shorter in SHORTER.items():
        text = text.replace(shown, shorter)
    text = re.sub(r"^(.*?)python manage\.py", r"\1manage", text, flags=re.MULTILINE)
    text = re.sub(r"^python ", "here ", text, flags=re.MULTILINE)
    shell = f'here() {{ "{sys.executable}" -W ignore "$@"; }}\nmanage() {{ here "{ROOT}/manage.py" "$@"; }}\n'
    ended = subprocess.run(
        ["bash", "-euc", shell + first + text], cwd=place, env=given, capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


PEER = """
agents:
  - {id: 0, name: Billing, description: Refunds}
dataset:
  input: ./data/tasks.jsonl
training:
  seed: 7
"""


@pytest.mark.parametrize(("page", "text"), kind("yaml"))
def test_yaml(page: str, text: str, tmp_path: Path) -> None:
    said = yaml.safe_load(text)
    if "service" in said:  # of an OpenTelemetry collector: what a pipeline names is declared above it
        used = [(part, name) for pipe in said["service"]["pipelines"].values() for part in pipe for name in pipe[part]]
        assert {part for part, _name in used} == said.keys() - {"service"}
        assert all(name in said[part] for part, name in used)
    elif "scrape_configs" not in said:
        assert Config.from_mapping(said)
    elif promtool := shutil.which("promtool"):
        (tmp_path / "prometheus.yml").write_text(text)
        ended = subprocess.run(
            [promtool, "check", "config", tmp_path / "prometheus.yml"], capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_target_of_make_that_is_named_is_there() -> None:
    shown = {
        name
        for _page, language, text in SNIPPETS
        if language == "sh"
        for name in re.findall(r"^make ([\w-]+)", text, re.M)
    }
    there = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert shown
    assert shown <= there
