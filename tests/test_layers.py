"""The import contracts name every module, and make no exceptions; functions that do not fit a screen are few, each with its reason."""

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("routerweb", "agents_app", "datasets_app", "training_app", "orchestration_app")
LONGEST, FEW = 60, 10  # lines of a function, and functions that may be longer
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


def test_functions_that_do_not_fit_a_screen_are_few_and_say_why() -> None:
    functions = {name: reason for package in PACKAGES for name, reason in long_functions(ROOT / package)}
    assert [name for name, reason in functions.items() if not reason.startswith("# Over 60 lines. ")] == []
    assert 0 < len(functions) <= FEW


def long_functions(folder: Path) -> Iterator[tuple[str, str]]:
    """Each function of over LONGEST lines in a folder, and the line above it."""
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _lines(node) > LONGEST:
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                yield f"{path.name}:{node.name}", lines[first - 2].strip()


def _lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1
