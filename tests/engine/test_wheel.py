"""The engine installs alone: the wheel that `pip install ./engine` makes holds it, and routes where Django is not."""

import json
import os
import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.client import with_keys

ROOT = Path(__file__).parents[2]

#: No Django, and nothing of the checkout: only the wheel's folder, and the packages that it says it depends on.
ROUTE = """
import importlib.abc, json, sys

class Nothing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("django", "torch", "sklearn", "scipy", "httpx", "datasets_app", "agents_app"):
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Nothing())
sys.path.insert(0, sys.argv[1])
from routerweb import ArtifactError, Router
import routerweb, training_app.engine
assert routerweb.Router is training_app.engine.Router
assert not hasattr(routerweb, "settings")
assert training_app.engine.__file__.startswith(sys.argv[1])
router = Router.load(sys.argv[2])
text = "refund my invoice and where is my parcel"
route = router.route(text)
assert router.route_batch([text])[0].agents == route.agents == router.explain(text).route.agents
try:
    Router.load(b"no artifact")
except ArtifactError as error:
    print(json.dumps([[agent.name for agent in router.agents], list(route.agents), str(error) != ""]))
"""


def built(folder: Path, *parts: str, below: str = ".") -> Path:
    """A wheel of these parts of the checkout, built without a look at any network, and unpacked."""
    build = (
        "import os, sys; from setuptools import build_meta; os.makedirs(sys.argv[1], exist_ok=True); "
        "print(build_meta.build_wheel(sys.argv[1]))"
    )
    source = folder / "source"  # setuptools writes beside what it builds
    copied = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *parts], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout.split()  # fmt: skip
    for name in copied:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    done = subprocess.run(
        [sys.executable, "-c", build, str(folder)], cwd=source / below, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    made = next(folder.glob("*.whl"))
    with zipfile.ZipFile(made) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The engine's wheel."""
    return built(
        tmp_path_factory.mktemp("wheel"),
        "training_app",
        "orchestration_app",
        "routerweb",
        "engine",
        below="engine",
    )


def required(installed: Path, extra: str) -> set[str]:
    """What a wheel asks for, with an extra of its own."""
    lines = Parser().parsestr(next(installed.glob("*.dist-info/METADATA")).read_text()).get_all("Requires-Dist") or []
    found = [Requirement(line) for line in lines]
    return {str(one).partition(";")[0] for one in found if one.marker is None or one.marker.evaluate({"extra": extra})}


def linked(names: set[str], place: Path) -> None:
    """Links to the installed packages of these names, and to all that they ask for."""
    left, seen = {Requirement(name).name for name in names}, set()
    while left:
        name = left.pop()
        seen.add(name)
        package = distribution(name)
        for top in {path.parts[0] for path in package.files or () if path.parts[0] not in ("..", "__pycache__")}:
            if not (place / top).exists():
                (place / top).symlink_to(package.locate_file(top))
        needs = [Requirement(line) for line in package.requires or ()]
        left |= {one.name for one in needs if one.marker is None or one.marker.evaluate({"extra": ""})} - seen


def test_it_holds_the_engine_alone_and_asks_for_little(wheel: Path) -> None:
    modules = {path.relative_to(wheel).parts[:2] for path in wheel.rglob("*.py")}
    assert modules == {("training_app", "engine"), ("orchestration_app", "engine"), ("routerweb", "__init__.py")}
    metadata = next(wheel.glob("*.dist-info/METADATA")).read_text()
    needed = re.findall(r"^Requires-Dist: ([a-z]+)[^;\n]*$", metadata, re.MULTILINE)
    assert sorted(needed) == ["numpy", "safetensors", "threadpoolctl"]


def test_it_routes_without_django(wheel: Path, tmp_path: Path) -> None:
    from tests.training_app import trained

    (tmp_path / "model.zip").write_bytes(trained.result().artifact)
    done = subprocess.run(
        [sys.executable, "-I", "-c", ROUTE, str(wheel), str(tmp_path / "model.zip")],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    names, agents, told = json.loads(done.stdout)
    assert names == ["Billing", "Shipping", "Technical"]
    assert set(agents) == {0, 1}
    assert told


ANSWER_ALONE = """
import json, sys
sys.path[:0] = sys.argv[1:4]
from routerweb_client import Client
client = Client("http://127.0.0.1:9", "k", fallback=sys.argv[4], timeout=1.0, retries=0)
answer = client.route("refund my invoice", only=["billing", "shipping"])
from training_app.engine.reading import sentences  # what the default model reads with
assert sentences.embed(["refund my invoice"]).shape == (1, 512)
print(json.dumps([answer.local, answer.agent_keys]))
"""


@pytest.mark.at_length
def test_the_client_with_its_extra_answers_where_nothing_else_is_installed(wheel: Path, tmp_path: Path) -> None:
    client = built(tmp_path / "client", "client", below="client")
    needed = required(client, "local")
    assert "routerweb-engine[sentences]" in needed
    beside = tmp_path / "beside"
    beside.mkdir()
    linked((needed | required(wheel, "sentences")) - {"routerweb-engine[sentences]"}, beside)
    model = with_keys.write(tmp_path / "model.zip")
    done = subprocess.run(  # -S: without the packages of this environment
        [sys.executable, "-I", "-S", "-c", ANSWER_ALONE, str(wheel), str(client), str(beside), str(model)],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == [True, ["billing"]]


THREADS = """
import json, sys
sys.path.insert(0, sys.argv[1])
import numpy
from threadpoolctl import threadpool_info, threadpool_limits
threadpool_limits(limits=2, user_api="blas")
from routerweb import Router
Router.load(sys.argv[2])
print(json.dumps([one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]))
"""


@pytest.mark.at_length
@pytest.mark.parametrize(("given", "threads"), [({}, 1), ({"OPENBLAS_NUM_THREADS": "2"}, 2)])
def test_a_router_uses_one_blas_thread_unless_told_otherwise(given, threads, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    model = with_keys.write(tmp_path / "model.zip")
    done = subprocess.run(
        [sys.executable, "-c", THREADS, str(ROOT), str(model)], env=environment | given, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert set(json.loads(done.stdout)) == {threads}
