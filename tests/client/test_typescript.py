"""The JavaScript client by its own tests, in Node; with the AI SDK and the TypeScript compiler where `make clients` installed them."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.any_database, pytest.mark.at_length]
ROOT = Path(__file__).parents[2]
MODULES = ROOT / ".node-clients" / "node_modules"
#: Lines of the adapter.
LINES = 60


def run(folder: Path, *words: str) -> None:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    if shutil.which("node") is None:
        _lacking("Node is not installed.")
    folder = tmp_path / "client"
    shutil.copytree(ROOT / "client" / "typescript", folder, ignore=shutil.ignore_patterns("node_modules"))
    if MODULES.exists():
        (folder / "node_modules").symlink_to(os.environ.get("NODE_MODULES", MODULES))
    elif os.environ.get("REQUIRE_CLIENTS") == "1":
        pytest.fail("The AI SDK is not installed: `make clients` does it.")
    return folder


def _lacking(what: str) -> None:
    """Skips a test for what this machine lacks; where everything is required (as in CI) it fails."""
    if os.environ.get("REQUIRE_CLIENTS") == "1":
        pytest.fail(what)
    pytest.skip(what)  # `make test` is to run without Node; CI asks for it


def test_the_client_and_its_adapter(package: Path) -> None:
    run(package, "node", "--test")
    assert len((package / "ai.js").read_text().splitlines()) <= LINES


def test_the_declarations_compile(package: Path) -> None:
    compiler = package / "node_modules" / ".bin" / "tsc"
    if not compiler.exists():
        _lacking("TypeScript is not installed: `make clients` does it.")
    options = (
        "--noEmit",
        "--strict",
        "--target",
        "es2022",
        "--module",
        "nodenext",
        "--lib",
        "es2023,dom",
        "--skipLibCheck",
    )
    run(package, str(compiler), *options, "test/types.ts")
