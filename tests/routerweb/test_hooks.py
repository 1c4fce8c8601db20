"""Each hook is typed, says when it is called, is called by the product, and is registered where the product is put together."""

import ast
import inspect
from pathlib import Path

import pytest

from routerweb import hooks

ROOT = Path(__file__).parents[2]
HOOKS = {name: value for name, value in vars(hooks).items() if isinstance(value, hooks.Hook)}
PACKAGES = ("routerweb", "agents_app", "datasets_app", "training_app", "orchestration_app")
SOURCES = {path: path.read_text() for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
#: Hooks that nothing in the product implements: for extensions alone.
FOR_OTHERS: set[str] = set()


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_is_typed_and_says_when_it_is_called(name: str) -> None:
    definition = next(
        node
        for node in ast.parse(inspect.getsource(hooks)).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    )
    assert all(argument.annotation for argument in (*definition.args.posonlyargs, *definition.args.args)), (
        "an argument has no type"
    )
    assert definition.returns is not None, "what it returns has no type"
    said = ast.get_docstring(definition) or ""
    assert said.startswith("Called "), "its docstring does not say when it is called"


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_is_called_and_registered(name: str) -> None:
    assert any(f"hooks.{name}(" in source for source in SOURCES.values()), "nothing calls it"
    registered = [path for path, source in SOURCES.items() if f"hooks.{name}.register(" in source]
    assert registered or name in FOR_OTHERS, "nothing implements it"
    assert {path.name for path in registered} <= {"apps.py"}, "hooks are registered in AppConfig.ready"


def test_an_implementation_is_called_once_however_often_it_is_registered() -> None:
    @hooks.Hook
    def asked(number: int) -> int:
        """Called in this test."""
        raise NotImplementedError

    def double(number: int) -> int:
        return 2 * number

    asked.register(double)
    asked.register(double)
    assert asked(4) == [8]
