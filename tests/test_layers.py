"""The import contracts name every module, and make no exceptions."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("routerweb", "agents_app", "datasets_app", "training_app", "orchestration_app")
LINTER = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]


def test_every_module_has_its_layer() -> None:
    contract = next(one for one in LINTER["contracts"] if one["name"] == "Imports run one way")
    named = [module.strip() for layer in contract["layers"] for module in layer.split("|")]
    modules = {
        f"{package}.{path.stem}"
        for package in PACKAGES
        for path in (ROOT / package).iterdir()
        if path.suffix == ".py" or (path / "__init__.py").exists()
        if path.stem not in ("__init__", "migrations")
    }
    assert sorted(named) == sorted(modules)


def test_no_import_is_excepted() -> None:
    assert [one["name"] for one in LINTER["contracts"] if "ignore_imports" in one] == []
