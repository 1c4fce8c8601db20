"""The engine installs alone: the wheel that `pip install .` makes holds it, and routes where Django is not."""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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
from training_app.engine import ArtifactError, Router
import training_app.engine
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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built here without a look at any network, and unpacked."""
    folder = tmp_path_factory.mktemp("wheel")
    build = (
        "import os, sys; from setuptools import build_meta; os.makedirs(sys.argv[1], exist_ok=True); "
        "print(build_meta.build_wheel(sys.argv[1]))"
    )
    source = folder / "source"  # setuptools writes beside what it builds
    copied = subprocess.run(["git", "ls-files", "training_app", "pyproject.toml", "README.md", "LICENSE"], cwd=ROOT,
                            capture_output=True, text=True, check=True).stdout.split()  # fmt: skip
    for name in copied:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes((ROOT / name).read_bytes())
    done = subprocess.run([sys.executable, "-c", build, str(folder)], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    made = next(folder.glob("*.whl"))
    with zipfile.ZipFile(made) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def test_it_holds_the_engine_alone_and_asks_for_little(wheel: Path) -> None:
    modules = {path.relative_to(wheel).parts[:2] for path in wheel.rglob("*.py")}
    assert modules == {("training_app", "engine")}
    metadata = next(wheel.glob("*.dist-info/METADATA")).read_text()
    needed = re.findall(r"^Requires-Dist: ([a-z]+)[^;\n]*$", metadata, re.MULTILINE)
    assert sorted(needed) == ["numpy", "safetensors"]


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
