"""Agents as people have them: pasted lines, a file, and the way back out."""

import io
import json

import pytest

from agents_app import pools, rosters
from agents_app.models import Pool
from agents_app.pools import PoolError


def test_lines_are_name_and_description() -> None:
    listed = rosters.parse("Billing: invoices: all\n\n  Account \nShipping :")
    lines, agents = list(listed.lines), listed.agents
    assert lines == [("Billing", "invoices: all"), ("Account", ""), ("Shipping", "")]
    assert agents == ()


@pytest.mark.parametrize(
    ("line", "name", "description"),
    [
        ("Events - readings, signings", "Events", "readings, signings"),
        ("Events – readings - and signings", "Events", "readings - and signings"),
        ("Gifts; what to give a child", "Gifts", "what to give a child"),
        ("返品：返品と返金", "返品", "返品と返金"),
        ("Travel - EU", "Travel - EU", ""),
        ("Travel - EU: trips and hotels", "Travel - EU", "trips and hotels"),
        ("E-mail and chat", "E-mail and chat", ""),
        (
            "Whoever looks after what was lost - and found again",
            "Whoever looks after what was lost - and found again",
            "",
        ),
    ],
)
def test_a_dash_or_semicolon_stands_for_a_colon_behind_a_short_name(line: str, name: str, description: str) -> None:
    assert rosters.parse(line).lines == ((name, description),)


def test_a_name_that_looks_divided_comes_back_whole() -> None:
    listed = rosters.Listed((("Events - readings and more", ""), ("Billing", "invoices")))
    assert rosters.parse(listed.as_text()) == listed


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
        rosters.parse(text)


def test_an_upload_goes_out_as_it_came_in(pool: Pool) -> None:
    text = "".join(rosters.json_lines(pool))
    again = pools.create_pool("Copy")
    assert rosters.add_several(again, rosters.read_upload(io.BytesIO(text.encode())), actor=None).created == 3
    assert "".join(rosters.json_lines(again)) == text
    assert json.loads(text.splitlines()[0]) == {
        "id": 0,
        "key": "billing",
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
        rosters.add_several(pool, rosters.Listed((("Returns", ""), ("Billing", ""))), actor=None)
    assert pool.agents.count() == 3
    with pytest.raises(PoolError):
        rosters.pool_with_agents("New", "", rosters.Listed((("A", ""), ("a", ""))), actor=None)
    assert Pool.objects.count() == 1


JSONL = '{"name": "Billing", "description": "invoices", "keywords": ["refund"]}\n{"name": "Account"}'
LISTED = '[{"name": "Billing", "description": "invoices", "keywords": ["refund"]}, {"name": "Account"}]'
YAML = "- name: Billing\n  description: invoices\n  keywords: [refund]\n- name: Account\n"
NESTED = "agents:\n  Billing:\n    description: invoices\n    keywords: [refund]\n  Account: {}\n"


@pytest.mark.parametrize("text", [JSONL, LISTED, YAML, NESTED, "\ufeff" + YAML])
def test_pasted_json_and_yaml_are_agents(pool: Pool, text: str) -> None:
    made = pools.create_pool("Fresh")
    rosters.add_several(made, rosters.parse(text), actor=None)
    assert [(a.number, a.name, a.description, a.keywords) for a in made.agents.order_by("number")] == [
        (0, "Billing", "invoices", ["refund"]),
        (1, "Account", "", []),
    ]


def test_cells_of_a_spreadsheet_are_name_and_description() -> None:
    listed = rosters.parse("Billing\tinvoices, refunds\nAccount\tlog-in\n")
    lines, agents = list(listed.lines), listed.agents
    assert lines == []
    assert [(a.name, a.description) for a in agents] == [("Billing", "invoices, refunds"), ("Account", "log-in")]


def test_new_ones_get_the_next_ids(pool: Pool) -> None:
    before = pool.next_agent_number
    assert rosters.add_several(pool, rosters.parse('{"name": "Quite new"}\n{"name": "Newer"}'), actor=None).created == 2
    added = pool.agents.filter(number__gte=before).order_by("number")
    assert [agent.name for agent in added] == ["Quite new", "Newer"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- name: [", "neither YAML nor JSON"),
        ("[1, 2", "neither YAML nor JSON"),
        ("agents: &a [x]\nother:\n  more: *a", "References"),
        ("- name: A\n  id: 0\n- name: a\n  id: 1", "stands on line"),
        ('{"name": ""}', "name"),
    ],
)
def test_what_cannot_be_read_says_so(text: str, said: str) -> None:
    with pytest.raises(PoolError, match=said):
        rosters.parse(text)
