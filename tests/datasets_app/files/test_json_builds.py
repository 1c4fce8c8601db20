"""JSON of any build goes in: the same four labeled queries as a table by column or by row, and as labels by text or texts by label."""

import io
import json

import pytest

from agents_app.files.json_records import records_in
from datasets_app.files import looking, tables
from tests.datasets_app.files.test_as_people_have_them import AGENTS
from training_app.engine.data.examples import Row, RowError

BILLING, ACCOUNT = (agent.id for agent in AGENTS[:2])
NAMES = {agent.id: agent.name for agent in AGENTS}
QUERIES: dict[str, frozenset[int]] = {
    "I was charged twice this month": frozenset({BILLING}),
    "my invoice is wrong and I cannot log in": frozenset({BILLING, ACCOUNT}),
    "what a lovely day it is": frozenset(),
    "我忘记了密码怎么办": frozenset({ACCOUNT}),
}
LABELED = {text: [NAMES[agent] for agent in sorted(agents)] for text, agents in QUERIES.items()}
CELLS = [[text, "; ".join(names) or "none"] for text, names in LABELED.items()]
BY_LABEL = {NAMES[agent]: [text for text, agents in QUERIES.items() if agent in agents] for agent in (BILLING, ACCOUNT)}
BUILDS = {
    "labels by text": LABELED,
    "one label by text": {text: (names or ["none"])[0] for text, names in LABELED.items()},
    "texts by label": BY_LABEL,
    "texts by label, deeper": {"nlu": {"version": "3.1", "intents": BY_LABEL}},
    "columns": {"query": list(LABELED), "team": [cell for _text, cell in CELLS]},
    "columns by row number": {
        name: {str(i): row[place] for i, row in enumerate(CELLS)} for place, name in enumerate(("Query", "Team"))
    },
    "names and rows": {"columns": ["query", "team"], "index": [0, 1, 2, 3], "data": CELLS},
    "rows with a header": {"range": "A1:B5", "values": [["Query", "Team"], *CELLS]},
    "a list of rows": CELLS,
    "a list of rows with a header": [["Query", "Team"], *CELLS],
    "texts and their categories": [
        [text, {"cats": {name: float(name in names) for name in NAMES.values()}}] for text, names in LABELED.items()
    ],
}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("build", BUILDS)
def test_every_query_goes_in_with_its_label(build: str, indent: int | None) -> None:
    content = json.dumps(BUILDS[build], indent=indent).encode()
    looked = looking.look(io.BytesIO(content), "queries.json", AGENTS)
    rows = list(tables.rows(io.BytesIO(content), looked.reading, AGENTS))
    assert [row for row in rows if isinstance(row, RowError)] == []
    expected = dict(QUERIES)
    if build == "one label by text":
        expected = {text: frozenset(sorted(agents)[:1]) for text, agents in QUERIES.items()}
    if build.startswith("texts by label"):
        expected = {text: agents for text, agents in QUERIES.items() if agents}
    assert {row.text: row.required for row in rows if isinstance(row, Row)} == expected


@pytest.mark.parametrize(
    "record",
    [
        {"text": "hello there", "meta": {"a": ["x", "y"], "b": ["z"]}},
        {"text": "hello there", "entities": [[0, 3, "X"], [4, 5, "Y"]]},
        {"text": "hello there", "label": ["Billing"]},
        {"subject": "my invoice", "from": "somebody", "priority": "high"},
        {"id": "7", "text": "hello", "scores": {"a": {"p": 1}, "b": {"p": 0}}},
    ],
)
def test_an_object_that_is_one_record_stays_one(record: dict[str, object]) -> None:
    assert records_in(record) == [record]


def test_columns_of_unequal_length_are_no_table() -> None:
    columns = {"text": ["one query", "another query"], "label": ["Billing"]}
    assert records_in(columns) == [columns]
