"""How packages are installed: with uv as pip would, never with the GPU packages of PyTorch unless pip wants them too."""

import os
import subprocess
import sys
from pathlib import Path

import django
import pytest

from deploy import packages
from tests.waiting import until

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


class Installing:
    """Installs with stand-ins for uv and pip into an environment without pip; `calls` are what they were called with."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._calls = folder, folder / "calls"
        (folder / "venv" / "bin").mkdir(parents=True)
        (folder / "venv" / "lib" / "python3.11" / "site-packages").mkdir(parents=True)
        self._python, self._uv = folder / "venv" / "bin" / "python", folder / "uv"
        self._python.write_text(f"""#!/bin/sh
case "$*" in
*"config list") ;;
*"pip --version") [ -e {folder}/has-pip ] ;;
*ensurepip*) touch {folder}/has-pip; echo "$*" >> {self._calls} ;;
*) echo "$*" >> {self._calls} ;;
esac
""")

    def install(self, plan: str, *, status: int = 0, no_uv: str = "") -> None:
        """`plan` is what uv would install, `status` with which it ends."""
        self._uv.write_text(
            f'#!/bin/sh\ncase "$*" in *--dry-run*) echo "{plan}"; exit {status};; esac\necho "uv $*" >> {self._calls}\n'
        )
        for script in (self._uv, self._python):
            script.chmod(0o755)
        words = [sys.executable, packages.__file__, str(self._folder / "venv"), "-r", "requirements.txt"]
        environment = {**os.environ, "PATH": f"{self._folder}:{os.environ['PATH']}", "NO_UV": no_uv}
        assert subprocess.run(words, env=environment, check=False).returncode == 0

    @property
    def calls(self) -> list[str]:
        return self._calls.read_text().splitlines()


@pytest.fixture
def installing(tmp_path: Path) -> Installing:
    return Installing(tmp_path)


ENSUREPIP = "-m ensurepip --upgrade --default-pip"
PIP = "-m pip install --progress-bar off -r requirements.txt"


def test_uv_installs_and_what_a_start_needs_is_compiled(installing: Installing) -> None:
    installing.install(" + torch==2.13.0+cpu")
    until(lambda: len(installing.calls) == 2, "the compilation")
    uv, compiling = installing.calls
    assert uv.startswith("uv pip install --python ")
    assert uv.endswith("/venv/bin/python pip -r requirements.txt --quiet"), "a pip is there for what is installed later"
    assert compiling.startswith("-m compileall -qq /")
    assert "/site-packages/django/db " in compiling


def test_what_a_start_needs_is_installed() -> None:
    installed = Path(django.__file__).parents[1]
    assert [name for name in packages.AT_START if not (installed / name).is_dir()] == []


@pytest.mark.parametrize("gpu", ["nvidia-cublas-cu12==12.8", "cuda-toolkit==13.0", "triton==3.6.0"])
def test_pip_decides_where_uv_would_bring_gpu_packages(installing: Installing, gpu: str) -> None:
    installing.install(f" + {gpu}")
    assert installing.calls == [ENSUREPIP, PIP]


@pytest.mark.parametrize(("status", "no_uv"), [(1, ""), (0, "1")])
def test_pip_installs_where_uv_cannot_or_must_not(installing: Installing, status: int, no_uv: str) -> None:
    installing.install(" + torch==2.13.0+cpu", status=status, no_uv=no_uv)
    assert installing.calls == [ENSUREPIP, PIP]
