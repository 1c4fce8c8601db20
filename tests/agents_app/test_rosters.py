"""Agents as people have them: pasted lines, a file, and the way back out."""

import io
import json

import pytest

from agents_app import pools, rosters
from agents_app.models import Pool
from agents_app.pools import PoolError


def test_lines_are_name_and_description() -> None:
    assert rosters.parse_lines("Billing: invoices: all\n\n  Account \nShipping :") == [
        ("Billing", "invoices: all"),
        ("Account", ""),
        ("Shipping", ""),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Billing\n: lost", "Line 2 has no name"),
        ("Billing\n\nbilling: again", "Lines 1 and 3 both name “billing”"),
        ("x" * 121, "Line 1: the name is longer"),
        ("\n".join(f"Agent {n}" for n in range(1001)), "More than 1000 agents"),
    ],
)
def test_a_bad_line_is_named(text: str, said: str) -> None:
    with pytest.raises(PoolError, match=said):
        rosters.parse_lines(text)


def test_an_upload_goes_out_as_it_came_in(pool: Pool) -> None:
    text = "".join(rosters.json_lines(pool))
    again = pools.create_pool("Copy")
    assert rosters.add_several(again, [], rosters.read_upload(io.BytesIO(text.encode())), actor=None) == 3
    assert "".join(rosters.json_lines(again)) == text
    assert json.loads(text.splitlines()[0]) == {
        "id": 0,
        "name": "Billing",
        "code": "BI",
        "description": "All about billing",
        "keywords": [],
        "cost": 0.0,
    }


def test_a_bad_upload_names_its_line(db: None) -> None:
    with pytest.raises(PoolError, match="line 2, id: must be a whole number") as refused:
        rosters.read_upload(io.BytesIO(b'{"id": 0, "name": "Billing"}\n{"id": "x", "name": "Account"}\n'))
    assert refused.value.field == "file"


def test_several_are_added_all_or_none(pool: Pool) -> None:
    with pytest.raises(PoolError, match="“Billing”: Agent 0"):
        rosters.add_several(pool, [("Returns", ""), ("Billing", "")], actor=None)
    assert pool.agents.count() == 3
    with pytest.raises(PoolError):
        rosters.pool_with_agents("New", "", [("A", ""), ("a", "")], actor=None)
    assert Pool.objects.count() == 1
