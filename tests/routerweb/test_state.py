"""What a process keeps in memory has a name and a bound."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

from routerweb import state
from tests import orchestration

ROOT = Path(__file__).parents[2]
CONTAINERS = {
    "dict", "list", "set", "deque", "defaultdict", "OrderedDict", "Counter", "WeakSet", "WeakValueDictionary", "WeakKeyDictionary",
}  # fmt: skip
#: Filled while modules are imported, and never after.
FILLED_AT_IMPORT = {
    "agents_app.navigation.FINDS", "routerweb.env.DOCUMENTED", "routerweb.settings.ALLOWED_HOSTS",
    "routerweb.settings.CSRF_TRUSTED_ORIGINS", "routerweb.settings.SECRET_KEY_FALLBACKS",
}  # fmt: skip


def containers(path: Path) -> list[str]:
    """The variables of a module that begin empty, and so are filled later."""
    found = []
    for node in ast.parse(path.read_text()).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        value = getattr(node, "value", None)
        empty = (isinstance(value, ast.Dict) and not value.keys) or (isinstance(value, ast.List) and not value.elts)
        called = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else ""
        if empty or called in CONTAINERS:
            found += [target.id for target in targets if isinstance(target, ast.Name)]
    return found


@pytest.mark.at_length
@pytest.mark.django_db  # the application is imported, which reads the stamp of the site
def test_every_container_of_a_module_has_a_name() -> None:
    unnamed = set()
    for package in state.PACKAGES:
        if package == "orchestration_app" and not orchestration.INSTALLED:
            continue
        for path in (ROOT / package).rglob("*.py"):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            for variable in containers(path):
                if not isinstance(getattr(import_module(module), variable), frozenset | tuple):
                    unnamed.add(f"{module}.{variable}")
    assert unnamed - state.named() == FILLED_AT_IMPORT


def test_a_report_counts_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from datasets_app.labels import peers

    monkeypatch.setattr(peers, "_noted", {(1, 2): None, (1, 3): None})
    rows = {name: (size, bound) for name, size, bound in state.report()}
    assert rows["Labels shown to others, not yet written"] == (2, peers.NOTED_AT_MOST)
    size, bound = rows["Results of functions"]
    assert isinstance(bound, int)
    assert 0 <= size <= bound
