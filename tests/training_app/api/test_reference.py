"""The API's page of reference names every call with what it takes and answers."""

import json

import pytest

from training_app.api import reference
from training_app.api.schema import document


@pytest.mark.any_database
def test_every_call_stands_on_the_page() -> None:
    page, described = reference.page(), json.loads(document())
    calls = [(method, path, one) for path, methods in described["paths"].items() for method, one in methods.items()]
    assert [path for method, path, _one in calls if f"`{method.upper()} {path}`" not in page] == []
    assert page.count("\n### ") == len(calls)
    route = page.split("`POST /api/route/`", 1)[1].split("\n### ", 1)[0]
    for field in ("query", "messages", "only", "threshold", "operating_point"):
        assert f"| `{field}` |" in route
    assert (
        "| `only` | list of integer or string | Ids or keys of the agents that may be chosen. Without it, all agents may be. |"
        in route
    )
    assert "`no_model`" in route
    assert "object at 0x" not in page
