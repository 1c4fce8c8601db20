"""Clients that generators make of the API's description: whole, typed, and understood by a running server.

The generators live in environments of their own, which `make clients` makes; without them these tests are skipped, or fail where
REQUIRE_CLIENTS=1.
"""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.generated_clients import every_call, typescript
from tests.routerweb.test_server import Server, prepared, python  # noqa: F401
from training_app.api.schema import document

pytestmark = [pytest.mark.process, pytest.mark.any_database, pytest.mark.at_length]
ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
PYTHON_TOOLS = ROOT / ".venv-clients" / "bin"
NODE_MODULES = ROOT / ".node-clients" / "node_modules"
DOCUMENT = json.loads(document())
OPERATIONS = {one["operationId"]: one for path in DOCUMENT["paths"].values() for one in path.values()}
KEY = """
import django
django.setup()
from django.contrib.auth.models import Group, User
from agents_app import keys
from agents_app.models import Pool
person = User.objects.create_user("labeler", is_staff=True)
person.groups.add(Group.objects.get_or_create(name="labeler")[0])
print(keys.create_key("everything", Pool.objects.all(), ["route", "ops", "label"], labels_as=person)[1])
"""


@pytest.fixture(scope="module", autouse=True)
def tools() -> None:
    missing = [
        place for place in (PYTHON_TOOLS / "openapi-python-client", NODE_MODULES / ".bin" / "tsc") if not place.exists()
    ]
    if missing:
        reason = f"{missing[0].relative_to(ROOT)} is not there: `make clients` installs it."
        if os.environ.get("REQUIRE_CLIENTS") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The description in a folder where programs of Node find their packages."""
    made = tmp_path_factory.mktemp("clients")
    (made / "schema.json").write_bytes(document())
    (made / "node_modules").symlink_to(NODE_MODULES)
    (made / "package.json").write_text('{"type": "module"}')
    return made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, prepared: tuple[Path, str]) -> Iterator[Server]:  # noqa: F811
    installation = Path(shutil.copytree(prepared[0], tmp_path_factory.mktemp("generated") / "installation"))
    key = python(installation, "-c", KEY)
    started = Server(installation, key, DDQN_ROUTER_POOLS="support", ARD_POOLS="support")
    yield started
    os.killpg(started.process.pid, signal.SIGKILL)
    started.process.wait(10)


def done(folder: Path, *words: str | Path, **more: str) -> str:
    """What a program prints that ends well."""
    environment = {**os.environ, "PATH": f"{PYTHON_TOOLS}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1", **more}
    ended = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, f"{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}"
    return ended.stdout


def test_spectral_finds_nothing(folder: Path) -> None:
    done(
        folder,
        "node_modules/.bin/spectral",
        "lint",
        "schema.json",
        "--ruleset",
        HERE / "ruleset.yaml",
        "--fail-severity",
        "warn",
    )


def test_the_python_client_is_whole_and_each_of_its_calls_is_understood(folder: Path, server: Server) -> None:
    done(
        folder, "openapi-python-client", "generate", "--path", "schema.json", "--output-path", "made", "--meta", "none",
        "--fail-on-warning", "--overwrite",
    )  # fmt: skip
    told = done(folder, "python", every_call.__file__, "schema.json", server.address, server.key)
    answers: dict[str, dict[str, Any]] = json.loads(told)
    assert answers.keys() == OPERATIONS.keys()
    assert {name for name, one in answers.items() if not one["typed"] or one["type"] == "NoneType"} == set()
    assert {name: one["status"] for name, one in answers.items() if not one["documented"]} == {}
    assert answers["route"] == {"status": 200, "type": "Answer", "typed": True, "documented": True}


def test_the_typescript_client_compiles_and_each_of_its_calls_is_understood(folder: Path, server: Server) -> None:
    done(
        folder, "node_modules/.bin/openapi-typescript", "schema.json", "--default-non-nullable=false", "-o", "schema.ts"
    )
    (folder / "calls.ts").write_text(typescript.program(DOCUMENT))
    done(
        folder, "node_modules/.bin/tsc", "--strict", "--noUncheckedIndexedAccess", "--target", "es2022", "--module", "nodenext",
        "--types", "node", "--outDir", "compiled", "calls.ts",
    )  # fmt: skip
    statuses = json.loads(done(folder, "node", "compiled/calls.js", server.address, server.key))
    assert statuses.keys() == OPERATIONS.keys()
    assert {name: one for name, one in statuses.items() if str(one) not in OPERATIONS[name]["responses"]} == {}
