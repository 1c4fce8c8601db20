"""The client's adapters, each in its framework. Those live in an environment of their own, which `make adapters` makes; without it
these tests are skipped, or fail where REQUIRE_ADAPTERS=1."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.client import with_keys
from tests.client.adapters import at_work

pytestmark = pytest.mark.any_database
ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-adapters" / "bin" / "python"


@pytest.mark.at_length
@pytest.mark.parametrize("name", at_work.FRAMEWORKS)
def test_an_adapter_works_in_its_framework(name: str, tmp_path: Path) -> None:
    python = Path(os.environ.get("ADAPTERS_PYTHON", PYTHON))
    if not python.exists():
        reason = "The frameworks are not installed: `make adapters` does it."
        if os.environ.get("REQUIRE_ADAPTERS") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    environment["EXPORTED_MODEL"] = str(with_keys.write(tmp_path / "model.zip"))
    done = subprocess.run(
        [python, "-W", "ignore", at_work.__file__, name], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )  # fmt: skip
    if done.returncode == at_work.ABSENT:
        pytest.skip(f"{name} is not installed there: {done.stdout.strip()}")
    assert done.returncode == 0, done.stderr[-3000:]


def test_each_adapter_is_tried_and_documented() -> None:
    files = {path.stem for path in (ROOT / "client/src/routerweb_client/adapters").glob("[a-z]*.py")}
    assert files == set(at_work.FRAMEWORKS)
    assert files == set(re.findall(r"routerweb_client\.adapters\.(\w+)", (ROOT / "docs/frameworks.md").read_text()))
