"""Page: which sets of agents are allowed."""

from collections.abc import Callable

import pytest
from django.test import Client

from agents_app import allowed_sets, pools
from agents_app.models import Pool

pytestmark = pytest.mark.django_db
PAGE = "/p/support/settings/allowed-sets/"


@pytest.fixture(autouse=True)
def agents(pool: Pool) -> None:
    for name in ("Billing", "Refunds", "Fraud")[len(pools.roster(pool)) :]:
        pools.add_agent(pool, name, actor=None)


def rules(pool: Pool) -> dict:
    pool.refresh_from_db()
    return pool.allowed_sets


def test_rules_are_added_shown_and_removed(ops: Client, pool: Pool) -> None:
    assert "Every set of agents is allowed" in ops.get(PAGE).content.decode()
    assert ops.post(PAGE, {"do": "pair", "agent": 0, "kind": "requires", "other": 1}).status_code == 302
    assert ops.post(PAGE, {"do": "pair", "agent": 1, "kind": "excludes", "other": 2}).status_code == 302
    assert ops.post(PAGE, {"do": "group", "name": "desk", "members": [0, 2]}).status_code == 302
    assert ops.post(PAGE, {"do": "limits", "most": "2", "budget": "1.5"}).status_code == 302
    assert rules(pool) == {
        "requires": [[0, 1]], "excludes": [[1, 2]], "groups": [{"name": "desk", "agents": [0, 2]}], "most": 2, "budget": 1.5,
    }  # fmt: skip
    shown = ops.get(PAGE).content.decode()
    assert "is chosen only with" in shown
    assert "desk" in shown
    for do in ("remove-requires-0", "remove-excludes-0", "remove-groups-0"):
        assert ops.post(PAGE, {"do": do}).status_code == 302
    assert ops.post(PAGE, {"do": "limits", "most": "", "budget": ""}).status_code == 302
    pool.refresh_from_db()
    assert not allowed_sets.rules_of(pool, [])


def test_what_cannot_hold_is_said_beside_its_form_and_changes_nothing(ops: Client, pool: Pool) -> None:
    same = ops.post(PAGE, {"do": "pair", "agent": 0, "kind": "requires", "other": 0}).content.decode()
    assert "neither requires nor excludes itself" in same
    assert ops.post(PAGE, {"do": "group", "name": "one", "members": [0]}).status_code == 200
    assert ops.post(PAGE, {"do": "limits", "most": "-1"}).status_code == 200
    assert ops.post(PAGE, {"do": "remove-requires-x"}).status_code == 200
    assert rules(pool) == {}


def test_an_agent_that_can_never_be_chosen_is_named(ops: Client, pool: Pool) -> None:
    ops.post(PAGE, {"do": "pair", "agent": 0, "kind": "requires", "other": 1})
    ops.post(PAGE, {"do": "pair", "agent": 0, "kind": "excludes", "other": 1})
    assert "can never be chosen: it requires an agent that another rule excludes" in ops.get(PAGE).content.decode()


def test_a_retired_agent_that_others_require_is_named_before_and_after(ops: Client, pool: Pool) -> None:
    ops.post(PAGE, {"do": "pair", "agent": 0, "kind": "requires", "other": 1})
    ops.post(PAGE, {"do": "pair", "agent": 1, "kind": "requires", "other": 2})
    names = dict(pool.agents.values_list("number", "name"))
    preview = ops.get(f"/p/{pool.slug}/agents/2/retire/").content.decode()
    assert f"no route can choose {names[0]}, {names[1]} without it" in preview
    assert "without it" not in ops.get(f"/p/{pool.slug}/agents/0/retire/").content.decode()
    pools.retire(pool.agents.get(number=2), actor=None)
    shown = ops.get(PAGE).content.decode()
    assert f"{names[0]} can never be chosen: it requires {names[2]}, which is retired." in shown
    assert f"{names[1]} can never be chosen: it requires {names[2]}, which is retired." in shown


def test_others_may_not_see_it(client_of: Callable[[str], Client]) -> None:
    assert client_of("labeler").get(PAGE).status_code == 403
