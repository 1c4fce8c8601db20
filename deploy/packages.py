"""Installs packages into a virtual environment: `python deploy/packages.py VENV -r requirements.txt`. Standard library only.

With uv where it is installed or can be had from the index, which takes a quarter of pip's time; else with pip, which NO_UV=1 asks for.
uv reads no pip.conf, so it is told what pip's configuration says: indexes, folders of wheels, constraints, certificates. Where uv
would bring the GPU packages of PyTorch, pip decides, as it may know of a CPU build that uv was not told of.
"""

import ast
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


def find_uv(python: Path) -> list[str] | None:
    """The words that call uv, installed into the environment where the index has it; None without it."""
    if path := shutil.which("uv"):
        return [path]
    words = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary=:all:", "uv"]
    if subprocess.run(words, check=False, capture_output=True).returncode:  # noqa: S603
        return None
    return [str(python), "-m", "uv"]


def with_uv(python: Path, words: Sequence[str]) -> bool:
    """Install with uv; whether that was done."""
    uv = None if os.environ.get("NO_UV") else find_uv(python)
    if uv is None:
        return False
    listed = subprocess.run([str(python), "-m", "pip", "config", "list"], check=False, capture_output=True, text=True)  # noqa: S603
    environment = for_uv(pip_settings(listed.stdout), os.environ)
    install = [*uv, "pip", "install", "--python", str(python), *words]
    plan = subprocess.run([*install, "--dry-run"], check=False, capture_output=True, text=True, env=environment)  # noqa: S603
    if plan.returncode or GPU.search(plan.stdout + plan.stderr):
        return False
    return subprocess.run([*install, "--quiet"], check=False, env=environment).returncode == 0  # noqa: S603


def main(venv: str, *words: str) -> int:
    python = Path(venv).absolute() / "bin" / "python"
    if with_uv(python, words):
        return 0
    pip = [str(python), "-m", "pip", "install", "--progress-bar", "off", *words]
    return subprocess.run(pip, check=False).returncode  # noqa: S603


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
