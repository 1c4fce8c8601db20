"""How packages are installed: with uv as pip would, never with the GPU packages of PyTorch unless pip wants them too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy import packages

pytestmark = pytest.mark.any_database
LISTED = """\
:env:.extra-index-url='https://own.example/simple'
:env:.cert='/etc/own.pem'
global.find-links='/opt/wheels /srv/wheels'
global.extra-index-url='file:///opt/pypi'
install.constraint='/etc/constraints.txt'
freeze.all='true'
"""


def test_uv_is_told_what_pip_is_told() -> None:
    pip = packages.pip_settings(LISTED)
    assert pip["extra-index-url"] == "https://own.example/simple", "the environment outranks a file"
    assert packages.for_uv(pip, {"UV_INDEX": "file:///mine", "HOME": "/root"}) == {
        "UV_INDEX": "file:///mine",  # what is said of uv itself stays
        "UV_FIND_LINKS": "/opt/wheels,/srv/wheels",
        "UV_CONSTRAINT": "/etc/constraints.txt",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_HTTP_TIMEOUT": "180",
        "SSL_CERT_FILE": "/etc/own.pem",
        "HOME": "/root",
    }


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs with stand-ins for uv and pip; returns which of them installed. `plan` is what uv would install."""
    calls = tmp_path / "calls"
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    python = tmp_path / "venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\n[ "$3 $4" = "config list" ] && exit 0\necho pip >> {calls}\n')
    uv = tmp_path / "uv"

    def install(plan: str, *, status: int = 0, no_uv: str = "") -> list[str]:
        uv.write_text(f'#!/bin/sh\ncase "$*" in *--dry-run*) echo "{plan}"; exit {status};; esac\necho uv >> {calls}\n')
        for script in (uv, python):
            script.chmod(0o755)
        calls.write_text("")
        words = [sys.executable, packages.__file__, str(tmp_path / "venv"), "-r", "requirements.txt"]
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "NO_UV": no_uv}
        assert subprocess.run(words, env=environment, check=False).returncode == 0
        return calls.read_text().split()

    return install


def test_uv_installs(installed) -> None:
    assert installed(" + torch==2.13.0+cpu") == ["uv"]


@pytest.mark.parametrize("gpu", ["nvidia-cublas-cu12==12.8", "cuda-toolkit==13.0", "triton==3.6.0"])
def test_pip_decides_where_uv_would_bring_gpu_packages(installed, gpu: str) -> None:
    assert installed(f" + {gpu}") == ["pip"]


def test_pip_installs_where_uv_cannot_or_must_not(installed) -> None:
    assert installed("No solution found", status=1) == ["pip"]
    assert installed(" + torch==2.13.0+cpu", no_uv="1") == ["pip"]
