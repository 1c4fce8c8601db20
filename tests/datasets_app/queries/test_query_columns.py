"""Every column of a query goes round: into the database from files and calls, back into files, found, sorted and shown."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.db import models
from django.db.models import Q
from django.urls import reverse

from agents_app.models import Pool
from datasets_app.files import exports, imports
from datasets_app.models import Query
from datasets_app.pages import browse, transfer_forms
from datasets_app.queries import adding, query_columns
from datasets_app.queries.query_columns import BadValue, Entry, QueryColumn
from routerweb import holds
from tests.clients import signed_in

pytestmark = pytest.mark.django_db
ENTERED = [column.name for column, _entry in query_columns.entries()]


def test_every_column_is_told_apart_and_in_the_database() -> None:
    names = [column.name for column in query_columns.COLUMNS]
    assert len(set(names)) == len(names)
    assert not set(names) & set(browse.RELATIONS)
    for column in query_columns.COLUMNS:
        Query.objects.order_by(column.lookup).exists()
        assert column.badge or not column.listed, f"{column.name} is listed and shows nothing"
        assert column.find or column.sorts or column.badge, f"{column.name} is of no use"
    kept = {"text", "messages", "turn", "text_hash", "extra", "erased_at", "deleted_at", "group", "labels"}
    shown = {column.lookup.partition("__")[0] for column in query_columns.COLUMNS} | {"id", "created_at"}
    fields = {field.name for field in Query._meta.concrete_fields}
    assert fields - kept - shown == set(), "a column of the model that this table does not have"


@pytest.mark.parametrize("name", ENTERED)
def test_what_a_column_takes_is_described(name: str) -> None:
    entry = query_columns.BY_NAME[name].entry
    assert entry is not None
    stored = entry.parse(entry.example)
    field = Query._meta.get_field(query_columns.BY_NAME[name].lookup)
    assert isinstance(field, models.Field)
    field.clean(stored, None)
    assert (
        entry.schema["type"] == {str: "string", int: "integer", float: "number", bool: "boolean"}[type(entry.example)]
    )
    with pytest.raises(BadValue):
        entry.parse({"no": "value"})
    if isinstance(stored, str):
        assert holds.content(field), f"{name} may hold a person's words"
        assert query_columns.erased()[query_columns.BY_NAME[name].lookup] == ""


@pytest.mark.parametrize("name", ENTERED)
def test_a_column_goes_round(pool: Pool, rita: Any, name: str) -> None:
    column = query_columns.BY_NAME[name]
    assert column.entry is not None
    goes_round(pool, rita, column, column.entry)


def goes_round(pool: Pool, rita: Any, column: QueryColumn, entry: Entry) -> None:
    stored = entry.parse(entry.example)
    key = {"conversation": "conversation_id"}.get(column.name, column.name)
    line = {"text": "read from a file", key: entry.example}
    if entry.row == "conversation":
        line = {"messages": [{"role": "user", "content": "read from a file"}], key: entry.example}
    dataset = adding.dataset_of(pool)
    upload = imports.read_file(dataset, io.BytesIO(json.dumps(line).encode()), "jsonl", author=rita)
    assert upload.rejected == 0
    _dataset, (sent,) = adding.send(
        pool, [adding.NewQuery("sent by a call", query_columns.parsed({column.name: entry.example}))], actor=None
    )
    adding.send(pool, [adding.NewQuery("without it")], actor=None)

    found = Query.objects.filter(dataset__pool=pool, **{column.lookup: stored})
    assert found.count() == 2, "stored from both"
    rows = list(exports.rows(found))
    again = [json.loads(piece) for piece in b"".join(exports.encode(rows, "jsonl")).splitlines()]
    assert all(row.get(key) == entry.example for row in again), again
    if column.find:
        result = browse.search(pool, f"{column.name}:{entry.example}")
        assert set(result.queries.values_list("pk", flat=True)) == set(found.values_list("pk", flat=True))
        assert not browse.search(pool, f"-{column.name}:{entry.example}").queries.filter(pk=sent.pk).exists()
    client = signed_in(rita)
    if column.badge:
        assert str(column.badge(found[0])) in client.get(reverse("query", args=[pool.slug, sent.pk])).content.decode()
    if column.listed:
        listed = client.get(reverse("queries", args=[pool.slug]), {"sort": column.name if column.sorts else ""})
        assert str(column.badge(found[0]) if column.badge else "") in listed.content.decode()


@pytest.fixture
def ticket(monkeypatch: pytest.MonkeyPatch) -> QueryColumn:
    """A column that the engine does not read, in the place of the id: the way of every new one."""

    def whole(value: Any) -> str:
        if not str(value).isdecimal():
            raise BadValue("must be a whole number")
        return str(int(value))

    old = query_columns.BY_NAME["id"]
    entry = Entry(whole, {"type": "string"}, "4711", headings=("nr. of ticket",))
    column = replace(
        old, name="ticket", entry=entry, find=lambda value: Q(external_id=value), sorts=True, listed=True,
        badge=lambda query: f"ticket {query.external_id}" if query.external_id else "",
    )  # fmt: skip
    table = tuple(column if one.name == "id" else one for one in query_columns.COLUMNS)
    monkeypatch.setattr(query_columns, "COLUMNS", table)
    monkeypatch.setattr(query_columns, "BY_NAME", {one.name: one for one in table})
    monkeypatch.setattr(query_columns, "BADGES", tuple(one for one in table if one.badge))
    monkeypatch.setattr(query_columns, "LISTED", tuple(one for one in table if one.listed))
    monkeypatch.setattr(query_columns, "SORTS", query_columns.SORTS | {"ticket": "external_id"})
    monkeypatch.setattr(browse, "KEYS", (*browse.KEYS, "ticket"))
    return column


def test_a_new_column_goes_round(pool: Pool, rita: Any, ticket: QueryColumn) -> None:
    assert ticket.entry is not None
    goes_round(pool, rita, ticket, ticket.entry)


def test_a_bad_value_leaves_its_row_out_and_names_it(pool: Pool, rita: Any, ticket: QueryColumn) -> None:
    lines = (
        b'{"text": "one", "ticket": "x"}\n{"text": "two", "ticket": 12, "other": 1}\n{"text": "three", "ticket": ""}\n'
    )
    upload = imports.read_file(adding.dataset_of(pool), io.BytesIO(lines), "jsonl", author=rita)
    (problem,) = upload.problems.all()
    assert (problem.line, problem.field, problem.reason) == (1, "ticket", "must be a whole number")
    stored = Query.objects.filter(dataset__pool=pool, text__in=("two", "three")).order_by("pk")
    assert list(stored.values_list("external_id", "extra")) == [("12", {"other": 1}), ("", {})]


def test_the_documentation_names_every_search_term() -> None:
    page = (Path(__file__).parents[3] / "docs" / "labeling.md").read_text()
    assert [key for key in browse.KEYS if f"{key}:" not in page] == []


def test_the_form_of_an_import_offers_every_column(pool: Pool) -> None:
    meanings = dict(transfer_forms.MEANINGS)
    for column, entry in query_columns.entries():
        assert entry.row or column.name in meanings
