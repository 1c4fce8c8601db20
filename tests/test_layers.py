"""The import contracts name every module, and make no exceptions."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("routerweb", "agents_app", "datasets_app", "training_app", "orchestration_app")
LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]


def test_every_module_has_its_layer() -> None:
    contract = next(one for one in LINTER["contracts"] if one["name"] == "Imports run one way")
    named = {module.strip() for layer in contract["layers"] for module in layer.split("|")}
    whole = {module for package in PACKAGES for module in modules_in(package)}
    # A package may have its modules in layers of their own.
    divided = {package for package in whole - named if set(modules_in(package)) & named}
    assert sorted(named) == sorted(
        (whole - divided) | {module for package in divided for module in modules_in(package)}
    )


def modules_in(package: str) -> list[str]:
    """The modules and packages directly within a package, apart from migrations; of a module none."""
    folder = ROOT / package.replace(".", "/")
    return [
        f"{package}.{path.stem}"
        for path in (folder.iterdir() if folder.is_dir() else ())
        if path.suffix == ".py" or (path / "__init__.py").exists()
        if path.stem not in ("__init__", "migrations")
    ]


def test_no_import_is_excepted() -> None:
    assert [one["name"] for one in LINTER["contracts"] if "ignore_imports" in one] == []
