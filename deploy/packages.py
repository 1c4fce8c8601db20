"""Installs packages into a virtual environment: `python deploy/packages.py VENV -r requirements.txt`. Standard library only.

With uv where it is installed or can be had from the index, which takes a quarter of pip's time; else with pip, which NO_UV=1 asks for.
uv reads no pip.conf, so it is told what pip's configuration says: indexes, folders of wheels, constraints, certificates. Where uv
would bring the GPU packages of PyTorch, pip decides, as it may know of a CPU build that uv was not told of.
"""

import ast
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

#: What PyTorch's plain build brings on Linux: gigabytes.
GPU = re.compile(r"^\s*\+? ?(nvidia-|cuda-|triton==)", re.MULTILINE)
#: pip's settings and uv's variables that say the same; several values are divided by spaces in both, but for links.
SAME = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "constraint": "UV_CONSTRAINT",
}

#: Packages that a start imports most of; those first that the web server alone imports, as `up` begins with the others.
AT_START = (
    "rest_framework", "unfold", "drf_spectacular", "jinja2", "markdown", "requests", "urllib3", "prometheus_client", "granian",
    "django/contrib/admin", "django/contrib/auth", "django/views", "django/template", "django/forms", "django/db", "psycopg",
    "cryptography", "httpx", "httpcore", "django/core", "django/utils",
)  # fmt: skip


def pip_settings(listed: str) -> dict[str, str]:
    """What `pip config list` says, by name; the environment outranks files, and a command's section the global one."""
    settings: dict[str, tuple[int, str]] = {}
    for line in listed.splitlines():
        key, equals, value = line.partition("=")
        section, _dot, name = key.strip().rpartition(".")
        rank = {"global": 0, "install": 1, ":env:": 2}.get(section)
        if equals and rank is not None and rank >= settings.get(name, (0, ""))[0]:
            settings[name] = (rank, " ".join(str(ast.literal_eval(value)).split()))
    return {name: value for name, (_rank, value) in settings.items()}


def for_uv(pip: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which uv finds what pip would find. What it says of uv already stays."""
    variables = {variable: pip[name] for name, variable in SAME.items() if pip.get(name)}
    if "UV_FIND_LINKS" in variables:
        variables["UV_FIND_LINKS"] = variables["UV_FIND_LINKS"].replace(" ", ",")
    if pip.get("cert"):
        variables["SSL_CERT_FILE"] = pip["cert"]
    # As pip does: of all indexes the highest version, so that 2.13.0+cpu is taken before 2.13.0.
    return {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_HTTP_TIMEOUT": "180", **variables, **environment}


def pip_for(python: Path) -> list[str]:
    """The words that call pip for this environment: its own pip, or the one of the Python that runs this, which is there at once."""
    own = [str(python), "-m", "pip"]
    if subprocess.run([*own, "--version"], check=False, capture_output=True).returncode == 0:  # noqa: S603
        return own
    try:
        version = importlib.metadata.version("pip").split(".")
    except importlib.metadata.PackageNotFoundError:
        version = ["0"]
    if [int(part) for part in version[:2] if part.isdecimal()] >= [22, 3]:  # the first that knows --python
        return [sys.executable, "-m", "pip", "--python", str(python)]
    make_pip(python)
    return own


def make_pip(python: Path) -> None:
    """Give the environment a pip of its own, the one that Python brings, unless it has one."""
    words = [str(python), "-m", "ensurepip", "--upgrade", "--default-pip"]
    if subprocess.run(words, check=False, stdout=subprocess.DEVNULL).returncode:  # noqa: S603
        sys.exit("Python has no pip to install packages with. On Debian and Ubuntu: apt-get install python3-venv")


def find_uv(python: Path, pip: Sequence[str]) -> str | None:
    """The path of uv, installed into the environment where the index has it; None without it."""
    own = python.with_name("uv")
    words = [*pip, "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", "uv"]
    if path := shutil.which("uv") or shutil.which(own):
        return path
    subprocess.run(words, check=False, capture_output=True)  # noqa: S603
    return shutil.which(own)


def with_uv(python: Path, words: Sequence[str]) -> bool:
    """Install with uv, and pip too for whatever is installed later; whether that was done."""
    if os.environ.get("NO_UV"):
        return False
    pip = pip_for(python)
    with subprocess.Popen([*pip, "config", "list"], stdout=subprocess.PIPE, text=True) as listing:  # noqa: S603
        uv = find_uv(python, pip)
        listed, _ = listing.communicate()
    if uv is None:
        return False
    environment = for_uv(pip_settings(listed), os.environ)
    install = [uv, "pip", "install", "--python", str(python), "pip", *words]
    plan = subprocess.run([*install, "--dry-run"], check=False, capture_output=True, text=True, env=environment)  # noqa: S603
    if plan.returncode or GPU.search(plan.stdout + plan.stderr):
        return False
    if subprocess.run([*install, "--quiet"], check=False, env=environment).returncode:  # noqa: S603
        return False
    compile_packages(python)
    return True


def compile_packages(python: Path) -> None:
    """Write the bytecode of AT_START beside what comes next. uv writes none, so the first processes would each compile it alone."""
    for folder in python.parents[1].glob("lib/python3*/site-packages"):
        words = [str(python), "-m", "compileall", "-qq", *(str(folder / name) for name in AT_START)]
        subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603


def main(venv: str, *words: str) -> int:
    python = Path(venv).absolute() / "bin" / "python"
    if with_uv(python, words):
        return 0
    make_pip(python)
    pip = [str(python), "-m", "pip", "install", "--progress-bar", "off", *words]
    return subprocess.run(pip, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
