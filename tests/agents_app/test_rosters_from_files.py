"""Agents in the files and texts that teams have of them."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from agents_app import pools, rosters
from agents_app.models import AgentSource, Pool, Stamp
from agents_app.pools import PoolError
from datasets_app.models import Query
from tests.agents_app.files.books import book

TEAMS = (("Pharmacy", "Prescriptions, refills and side effects"), ("Lab results", "Blood tests; what they mean"))
HEADER = ("Team", "What they do", "Owner")


def rows(delimiter: str, *, title: bool = False, quote: str = '"') -> str:
    lines = ["Our teams, spring 2026", ""] if title else []
    lines.append(delimiter.join(HEADER))
    lines += [delimiter.join(f"{quote}{cell}{quote}" for cell in (*team, "Ana")) for team in TEAMS]
    return "\r\n".join(lines) + "\r\n"


CARD = {
    "name": "Pharmacy",
    "description": "Prescriptions, refills and side effects",
    "url": "https://agents.example.com/pharmacy",
    "version": "1.0.0",
    "protocolVersion": "0.3.0",
    "capabilities": {"streaming": True},
    "skills": [{"id": "refill", "name": "Refill", "description": "Orders a refill", "tags": ["refill", "medicine"]}],
}
API = {
    "openapi": "3.1.0",
    "info": {"title": "Pharmacy", "description": "Prescriptions."},
    "paths": {"/refills": {"post": {"summary": "Order a refill", "tags": ["refill"]}, "parameters": []}},
}
TOOLS = [
    {"name": "order_refill", "description": "Orders a refill", "inputSchema": {"type": "object"}},
    {"name": "find_lab", "description": "Finds lab results", "inputSchema": {"type": "object"}},
]

#: name of the file → (its content, names of the agents, a word of the first one's description)
FILES: dict[str, tuple[bytes, tuple[str, ...], str]] = {
    "semicolon.csv": (rows(";").encode(), ("Pharmacy", "Lab results"), "refills"),
    "comma.csv": (rows(",").encode(), ("Pharmacy", "Lab results"), "refills"),
    "tab.tsv": (rows("\t").encode(), ("Pharmacy", "Lab results"), "refills"),
    "bar.txt": (rows("|").encode(), ("Pharmacy", "Lab results"), "refills"),
    "title.csv": (rows(";", title=True).encode(), ("Pharmacy", "Lab results"), "refills"),
    "windows.csv": (rows(";").replace("Ana", "Jörg").encode("cp1252"), ("Pharmacy", "Lab results"), "refills"),
    "excel.csv": (rows("\t").encode("utf-16"), ("Pharmacy", "Lab results"), "refills"),
    "book.xlsx": (book(HEADER, *((*team, "Ana") for team in TEAMS)), ("Pharmacy", "Lab results"), "refills"),
    "titled.xlsx": (
        book(("Our teams",), (), HEADER, *((*t, "Ana") for t in TEAMS)),
        ("Pharmacy", "Lab results"),
        "refills",
    ),
    "town.csv": (
        "Town hall;;;\r\nAs of 3 November;;;\r\n;;;\r\nLfd. Nr.;Fachbereich;Zuständig für;Kosten (€)\r\n"
        "P-01;Parking;fines, refills;0,02 €\r\nP-02;Permits;building;\r\nP-03;Waste;bins;\r\n;;;\r\nSource: main office;;;\r\n".encode(
            "cp1252"
        ),
        ("Parking", "Permits", "Waste"),
        "refills",
    ),
    "german.csv": (
        "Agenten;;;\r\n;;;\r\nBezeichnung;Beschreibung;Stichwörter;Kosten (€)\r\nBüro;refills;a, b;0,02\r\nBad;water;;\r\n".encode(
            "cp1252"
        ),
        ("Büro", "Bad"),
        "refills",
    ),
    "own_heading.csv": (
        b"Helper;Description;Tags\r\nParking;refills;fines\r\nPermits;building;\r\n",
        ("Parking", "Permits"),
        "refills",
    ),
    "odd.xlsx": (
        book(("Town hall",), (), ("#", "Desk", "Sorts of matters"), (1, "Parking", "refills"), (2, "Permits", "")),
        ("Parking", "Permits"),
        "refills",
    ),
    "codes.csv": (b"P-01;Parking;refills\nP-02;Permits;building\n", ("Parking", "Permits"), "refills"),
    "unnamed.csv": (b"Pharmacy;refills\nLab results;blood\n", ("Pharmacy", "Lab results"), "refills"),
    "card.json": (json.dumps(CARD, indent=2).encode(), ("Pharmacy",), "Orders a refill"),
    "cards.json": (json.dumps([CARD, {**CARD, "name": "Labs"}]).encode(), ("Pharmacy", "Labs"), "refill"),
    "openapi.json": (json.dumps(API, indent=2).encode(), ("Pharmacy",), "Order a refill"),
    "tools.json": (json.dumps({"tools": TOOLS}).encode(), ("order_refill", "find_lab"), "refill"),
    "answer.json": (
        json.dumps(
            {"jsonrpc": "2.0", "id": 1, "result": {"serverInfo": {"name": "Pharmacy"}, "tools": TOOLS}}
        ).encode(),
        ("Pharmacy",),
        "order_refill: Orders a refill",
    ),
    "functions.json": (
        json.dumps([{"type": "function", "function": {"name": "refill", "description": "Orders a refill"}}]).encode(),
        ("refill",),
        "Orders",
    ),
    "one.json": (
        json.dumps({"name": "Pharmacy", "description": "refills"}, indent=1).encode(),
        ("Pharmacy",),
        "refills",
    ),
}


def upload(name: str, content: bytes) -> Any:
    file = io.BytesIO(content)
    file.name = name  # type: ignore[attr-defined]
    return file


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_agents_is_read_as_its_team_means_it(db: None, name: str) -> None:
    content, names, word = FILES[name]
    made = pools.create_pool("Clinic")
    rosters.add_several(made, rosters.read_upload(upload(name, content)), actor=None)
    agents = list(made.agents.order_by("number"))
    assert tuple(agent.name for agent in agents) == names
    assert word in agents[0].description


def test_codes_in_a_column_of_ids_become_keys(db: None) -> None:
    made = pools.create_pool("Town")
    table = b"ID;Name;Description;Cost\nP 01;Parking;fines;0,02 EUR\n7;Permits;building;\n"
    rosters.add_several(made, rosters.read_upload(upload("a.csv", table)), actor=None)
    agents = made.agents.order_by("number")
    assert [(agent.key, agent.name, agent.cost) for agent in agents] == [
        ("p-01", "Parking", 0.02),
        ("permits", "Permits", 0.0),
    ]


TABLE = (
    "Team;What they do;Stichwörter;Beispielfragen;Latency;Owner\r\n"
    'Pharmacy;Refills;"pills\ndrops";"Where are my pills, please?\n- ""A refill""";120 ms;Ana\r\n'
    "Lab;Blood;;Is my blood fine? | Wie hoch ist mein Wert?;80;\r\n"
    "Desk;Visits;;;;\r\n"
).encode("cp1252")
PHARMACY, LAB = ["Where are my pills, please?", "A refill"], ["Is my blood fine?", "Wie hoch ist mein Wert?"]


def test_examples_in_a_table_are_those_of_cards_and_other_columns_are_named(db: None) -> None:
    listed = rosters.read_upload(upload("a.csv", TABLE))
    assert listed.unread == ("Latency", "Owner")
    made = pools.create_pool("Clinic")
    rosters.add_several(made, listed, actor=None)
    agents = list(made.agents.order_by("number"))
    assert [list(pools.card_examples(agent)) for agent in agents] == [PHARMACY, LAB, []]
    assert {source.described_in for source in AgentSource.objects.all()} == {"List of agents"}
    assert agents[0].keywords == ["pills", "drops"]
    assert set(Query.objects.values_list("text", "state")) == {(text, "unlabeled") for text in PHARMACY + LAB}


def test_examples_go_out_with_the_agents_and_come_back(db: None) -> None:
    made = pools.create_pool("Clinic")
    rosters.add_several(made, rosters.read_upload(upload("a.csv", TABLE)), actor=None)
    text = "".join(rosters.json_lines(made))
    again = pools.create_pool("Copy")
    rosters.add_several(again, rosters.read_upload(upload("agents.jsonl", text.encode())), actor=None)
    assert "".join(rosters.json_lines(again)) == text
    stamp = Stamp.current()
    assert (
        rosters.add_several(again, rosters.read_upload(upload("agents.jsonl", text.encode())), actor=None).created == 0
    )
    assert Stamp.current() == stamp, "the same list again changes nothing"
    fewer = text.replace('"A refill"', '"Tablets"')
    rosters.add_several(again, rosters.read_upload(upload("agents.jsonl", fewer.encode())), actor=None)
    assert list(pools.card_examples(again.agents.get(number=0))) == [PHARMACY[0], "Tablets"]


@pytest.mark.parametrize(
    "content", [TABLE, b"ID;Name;Description\n0;Pharmacy;refills\n4;Lab;blood\n", rows(";").encode()]
)
def test_what_a_table_says_is_the_same_as_text(content: bytes) -> None:
    listed = rosters.among(upload("a.csv", content))
    assert listed.names[0] == "Pharmacy"
    again = rosters.parse(listed.as_text())
    facts = [
        [(*agent.facts.values(), agent.key, agent.examples)[1:] for agent in one.agents] for one in (listed, again)
    ]
    assert [*again.lines, *((agent[0], agent[1]) for agent in facts[1])] == [(agent[0], agent[1]) for agent in facts[0]]
    assert again.lines or facts[0] == facts[1]
    assert all(old.id < 0 or old.id == new.id for old, new in zip(listed.agents, again.agents, strict=False))


@pytest.mark.parametrize(
    ("last", "agents"), [(";Total: 2;;", 2), (";Summe;2;", 2), (";Total care;the whole;", 3), (";Counts;;", 3)]
)
def test_a_row_that_sums_the_list_up_is_no_agent(db: None, last: str, agents: int) -> None:
    made = pools.create_pool("Clinic", actor=None)
    table = f"Nr;Agent;What it does;Owner\n1;Lab;blood tests;Ann\n2;X-ray;pictures;Ben\n{last}\n".encode()
    rosters.add_several(made, rosters.read_upload(upload("a.csv", table)), actor=None)
    assert made.agents.count() == agents


@pytest.mark.at_length
def test_pasted_cells_and_cards_are_read_alike(db: None) -> None:
    for number, text in enumerate((rows(";"), rows("\t"), json.dumps(CARD), json.dumps(CARD, indent=2))):
        made: Pool = pools.create_pool(f"Clinic {number}")
        rosters.add_several(made, rosters.parse(text), actor=None)
        assert made.agents.order_by("number")[0].name == "Pharmacy"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"version": "1.0", "servers": [1]}', "describes no agent"),
        (b'{"openapi": "3.1.0", "paths": {}}', "no title"),
        (b"Team;What they do\n;nothing\n", "Line 2 names no agent"),
        (b"Our teams;\n\nTeam;Cost\nLabs;1\nPharmacy;cheap\n", r"^Line 5: cost: must be a number \(cheap\)"),
        (b"Our teams;\n\nTeam;Cost\nLabs;1\nX-ray;1\nlabs;2\n", r"^Line 6: name: labs stands on line 4 already"),
        (b'{"tools": []}', "no tool"),
        (b"\x00\x01", "no text"),
    ],
)
def test_what_lists_no_agents_says_so(db: None, content: bytes, why: str) -> None:
    with pytest.raises(PoolError, match=why):
        rosters.read_upload(upload("agents", content))


@pytest.mark.parametrize(
    "header",
    [("Departamento", "Equipo ", "Qué hace", "Responsable"), ("Setor", "Equipa", "O que faz", "Responsável")],
)
def test_headings_may_be_spanish_or_portuguese(db: None, header: tuple[str, ...]) -> None:
    file = book(
        ("Listado 2026",), (), header, ("Viaje", "Vuelos  ", "Reservar vuelos", "Ana"), ("Viaje", "Hoteles", "", "Ana")
    )
    listed = rosters.read_upload(upload("equipos.xlsx", file))
    assert [(agent.name, agent.description) for agent in listed.agents] == [
        ("Vuelos", "Reservar vuelos"),
        ("Hoteles", ""),
    ]
    assert listed.unread == (header[0], header[3])


@pytest.mark.parametrize("heading", ["Stichwort", "Schlagworte", "Schlüsselwörter"])
def test_keywords_have_several_names_in_german(db: None, heading: str) -> None:
    file = f"Amt;Zuständigkeiten;{heading}\nBäder;Schwimmbäder;Becken, Sauna\nBücherei;Bücher;Ausweis\n".encode()
    listed = rosters.read_upload(upload("ämter.csv", file))
    assert [list(agent.keywords) for agent in listed.agents] == [["Becken", "Sauna"], ["Ausweis"]]
    assert [agent.description for agent in listed.agents] == ["Schwimmbäder", "Bücher"]


@pytest.mark.django_db
def test_a_command_makes_a_pool_of_a_list_and_adds_to_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    teams, more = tmp_path / "teams.csv", tmp_path / "more.csv"
    teams.write_text(rows(";", title=True), "cp1252")
    more.write_text("Team;What they do\nBilling;Invoices\n")
    call_command("import_agents", str(teams), pool="clinic", new="Clinic")
    assert "Made the pool clinic with 2 agents: Pharmacy, Lab results" in capsys.readouterr().out
    with pytest.raises(CommandError, match="already a pool"):
        call_command("import_agents", str(teams), pool="clinic", new="Clinic")
    pool = Pool.objects.get(slug="clinic")
    call_command("import_agents", str(more), pool="clinic")
    assert pool.agents.count() == 2
    call_command("import_agents", str(more), pool="clinic", apply=True)
    assert list(pool.agents.order_by("number").values_list("name", flat=True)) == ["Pharmacy", "Lab results", "Billing"]
    with pytest.raises(CommandError, match="one file"):
        call_command("import_agents", str(teams), str(more), pool="other", new="Other")
    with pytest.raises(CommandError):
        call_command("import_agents", str(tmp_path / "none.csv"), pool="other", new="Other")
    assert not Pool.objects.filter(slug="other").exists()


def test_the_command_names_what_it_reads_and_what_not(
    db: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pools.create_pool("Clinic", "clinic")
    path = tmp_path / "teams.csv"
    path.write_bytes(TABLE)
    call_command("import_agents", str(path), pool="clinic")
    out = capsys.readouterr().out
    assert (
        "  Pharmacy (examples: 2)\n  Lab (examples: 2)\n  Desk\nNot read, as agents have nothing like it: Latency, Owner\n"
        in out
    )


def test_a_table_without_ids_changes_the_agents_that_it_names(db: None) -> None:
    made = pools.create_pool("Clinic")
    rosters.add_several(made, rosters.read_upload(upload("a.csv", TABLE)), actor=None)
    again = b"Team;What they do;Cost\nPHARMACY;Refills and side effects;0,2\nX-ray;Pictures;\n"
    loaded = rosters.add_several(made, rosters.read_upload(upload("b.csv", again)), actor=None)
    assert (loaded.created, loaded.updated) == (1, 1)
    pharmacy = made.agents.get(number=0)
    assert (pharmacy.name, pharmacy.description, pharmacy.cost) == ("PHARMACY", "Refills and side effects", 0.2)
    assert pharmacy.keywords == ["pills", "drops"], "what the table leaves out stays"
    assert list(pools.card_examples(pharmacy)) == PHARMACY
    pools.retire(pharmacy, actor=None)
    with pytest.raises(PoolError, match="Agent 0 of this pool is called"):
        rosters.add_several(made, rosters.read_upload(upload("b.csv", again)), actor=None)
