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
FILES = ROOT / "client/src/routerweb_client/adapters"
#: Where a framework is installed that cannot be in one environment with the others.
ELSEWHERE = {"crewai": ".venv-crewai", "litellm": ".venv-litellm"}
#: The frameworks ask nobody for prices, tell nobody that they run, and print no pictures.
QUIET = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true"}
#: Lines of a whole adapter.
LINES = 60


@pytest.mark.at_length
@pytest.mark.parametrize("name", at_work.FRAMEWORKS)
def test_an_adapter_works_in_its_framework(name: str, tmp_path: Path) -> None:
    python = ROOT / ELSEWHERE.get(name, ".venv-adapters") / "bin" / "python"
    if not python.exists():
        reason = f"{name} is not installed: `make {'litellm' if name == 'litellm' else 'adapters'}` does it."
        if os.environ.get("REQUIRE_ADAPTERS") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", **QUIET}
    environment["EXPORTED_MODEL"] = str(with_keys.write(tmp_path / "model.zip"))
    done = subprocess.run(
        [python, "-W", "ignore", at_work.__file__, name], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )  # fmt: skip
    if (
        done.returncode == at_work.ABSENT
    ):  # pip found no release for this Python: no fault of the adapter's, also where all are asked for
        pytest.skip(f"{name} is not installed there: {done.stdout.strip()}")
    assert done.returncode == 0, done.stderr[-3000:]


def test_each_adapter_is_tried_documented_and_short() -> None:
    files = {path.stem for path in FILES.glob("[a-z]*.py")}
    assert files == set(at_work.FRAMEWORKS)
    assert files == set(re.findall(r"routerweb_client\.adapters\.(\w+)", (ROOT / "docs/frameworks.md").read_text()))
    lengths = {path.name: len(path.read_text().splitlines()) for path in FILES.glob("[a-z]*.py")}
    assert max(lengths.values()) <= LINES, lengths
