"""Erasing finds a text wherever it was copied to, in whatever case and spacing, and says what it found."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Model

from agents_app import audit
from agents_app.models import AuditEntry, Pool
from agents_app.texts import columns
from agents_app.texts.matching import Phrase, Phrases, WholePhrase
from datasets_app.files import imports
from datasets_app.labels import erased_queries, labels, snapshots
from datasets_app.models import BulkChange, Dataset, Import, ImportChunk, Label, Query, QueueItem
from datasets_app.queries import traces
from routerweb import holds, hooks
from routerweb.erasing import ErasedQuery
from routerweb.holds import Content
from tests.clients import signed_in
from training_app.answering import decisions
from training_app.engine.routing.routes import Route
from training_app.models import Alarm, Decision, Outcome
from training_app.versions import registry

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

TEXT = "My name is Jane Roe, and I was charged twice"
OTHER = "  my NAME is jane roe,   and I was charged TWICE "


@pytest.fixture
def copies(pool: Pool, dataset: Dataset, person: Callable[..., User]) -> Query:
    """The text in every place that keeps a copy; returns its query."""
    second = Dataset.objects.create(pool=pool, name="Archive")
    rows = [{"text": TEXT, "required_agents": [0], "id": "jane"}, {"text": TEXT.upper() + "!" * 20_000}]
    imports.read_file(dataset, io.BytesIO("\n".join(map(json.dumps, rows)).encode()), "jsonl")
    imports.read_file(second, io.BytesIO(json.dumps({"text": OTHER, "required_agents": [1]}).encode()), "jsonl")
    other = {"text": "another query", "required_agents": [0], "thread": ["before", TEXT]}
    imports.read_file(second, io.BytesIO(json.dumps(other).encode()), "jsonl")
    query = Query.objects.get(dataset=dataset, text=TEXT)
    snapshots.take(pool)
    failed = Import.objects.create(dataset=dataset, file_name="f", format="jsonl", status="failed")
    content = json.dumps({"text": TEXT.replace("a", "\u0061")}).replace("Jane", "\\u004aane").encode()
    ImportChunk.objects.create(upload=failed, position=0, content=content[:25])
    ImportChunk.objects.create(upload=failed, position=1, content=content[25:])
    ana = person("ana")
    labels.record(
        labels.NewLabel(query.pk, source="human", author=ana, required=[0], asked=[0, 1], reason="Jane again")
    )
    audit.record("query.sent", actor=None, detail={"query": {"text": [OTHER]}})
    BulkChange.objects.create(pool=pool, action="send", search=f'agent:0 "{TEXT}"', author=ana)
    QueueItem.objects.create(pool=pool, query=Query.objects.get(text="another query"), note=f"like: {TEXT[:40]}…")
    model = registry.RouterModel.objects.create(
        pool=pool,
        version=1,
        artifact_digest="d",
        artifact_bytes=0,
    )
    registry.Scorecard.of(model, {"errors": [{"text": OTHER, "nearest": []}], "seen": 7}).save()
    number = decisions.new_id(1_700_000_000.0)
    route = Route((0,), {0: 0.9}, 0.9, 1, "stop", False)
    decisions.insert([decisions.Pending(number, pool.pk, model.pk, None, OTHER, route, {0: 0.9}, 90, 1_700_000_000.0)])
    decision = Decision.objects.get()
    Outcome.objects.create(decision_id=decision.pk, pool=pool, success=False, comment="she was angry")
    Alarm.objects.create(pool=pool, kind="drift", sentence="s", evidence=[["query", TEXT]])
    return query


def everything() -> str:
    """All that the database holds of the tables that may keep a copy, as one text."""
    found = []
    for model in holds.tables():
        names = [column.name for column in holds.columns(model, Content.QUERY | Content.REMARK)]
        if names:
            rows = model._base_manager.values_list(*names)
            found += [json.dumps(row, ensure_ascii=False, default=str) for row in rows]
    found += list(Query.objects.values_list("text", flat=True))
    found += [json.dumps(list(snapshots.rows(one)), ensure_ascii=False) for one in snapshots.Snapshot.objects.all()]
    found += [bytes(content).decode() for content in ImportChunk.objects.values_list("content", flat=True)]
    return " ".join(found).casefold()


def test_a_text_is_erased_from_every_copy_and_nothing_else_is(copies: Query, pool: Pool) -> None:
    before = {trace.place: trace.count for trace in traces.of(TEXT)}
    assert before["queries of this text"] == 2
    assert len(before) >= 9, before
    assert "jane" in everything()
    gold = Query.objects.filter(gold__isnull=False).count()

    assert erased_queries.erase(copies) == []

    assert "jane" not in everything()
    assert "she was angry" not in everything()
    assert traces.of(TEXT) == []
    assert Query.objects.filter(erased_at__isnull=False).count() == 2
    assert Query.objects.filter(gold__isnull=False).count() == gold
    assert Query.objects.get(text="another query").extra["thread"][0] == "before"
    assert Label.objects.current().filter(query=copies).exists()
    assert registry.RouterModel.objects.get().card.content["seen"] == 7
    assert all(map(snapshots.verify, snapshots.Snapshot.objects.all()))
    assert AuditEntry.objects.filter(action="query.erased").count() == 2


def test_a_file_that_is_read_again_brings_no_erased_text_back(pool: Pool, dataset: Dataset) -> None:
    line = json.dumps({"text": TEXT, "required_agents": [0]}).encode()
    imports.read_file(dataset, io.BytesIO(line), "jsonl")
    erased_queries.erase_all([Query.objects.get().pk], None)
    again = imports.read_file(dataset, io.BytesIO(line), "jsonl")
    assert [problem.excerpt for problem in again.problems.all()] == [""]
    assert "jane" not in everything().lower()


def test_what_people_wrote_for_everybody_is_told_and_stays(copies: Query, pool: Pool) -> None:
    Pool.objects.filter(pk=pool.pk).update(guidelines=f"For example “{TEXT}” needs Billing.")
    (left,) = erased_queries.erase(copies)
    assert (left.stays, left.count) == (True, 1)
    assert TEXT in Pool.objects.get(pk=pool.pk).guidelines


@pytest.mark.parametrize(
    ("text", "value", "held"),
    [
        ("yes", "yes", True),
        ("yes", " YES ", True),
        ("yes", "yes, I was charged", False),
        (TEXT, f"before {OTHER} after", True),
        (TEXT, f'{{"text": "{TEXT[:30]}…', True),
        (TEXT, TEXT[:20], True),
        (TEXT, f"she wrote: {TEXT[:20]}", False),
        (TEXT, f"she wrote: {TEXT[:19]}", False),
        (TEXT, f"she wrote: {TEXT[:18]}", True),
        (TEXT, f"she wrote: {TEXT[:20]}…", True),
        (f"{TEXT} and nobody answers", f"she wrote: {TEXT} and nobody", True),
        (TEXT, "My name is Jane Doe, and I was charged", False),
        (TEXT, "", False),
        ("ｆｕｌｌ　ｗｉｄｔｈ　ｌｅｔｔｅｒｓ", "full width letters", True),
    ],
)
@pytest.mark.any_database
def test_where_a_text_stands_in_another(text: str, value: str, held: bool) -> None:
    phrase, before = Phrase(text), {"deep": [value]}
    assert phrase.found_in(before) is held
    assert (phrase.taken_out(before) == before) is not held
    assert not phrase.found_in(phrase.taken_out(before))


@pytest.mark.any_database
def test_of_a_remark_that_ends_with_a_copy_cut_short_the_rest_stays() -> None:
    phrase = Phrase(TEXT)
    assert phrase.taken_out(f"She wrote: “{TEXT[:25]}…") == "She wrote: “[…]"
    assert phrase.taken_out(f"Twice: {TEXT}; {TEXT[:17]}") == "Twice: […]; […]"
    assert phrase.taken_out(TEXT[:25]) == "[…]"


def test_a_short_text_does_not_empty_other_remarks(pool: Pool, dataset: Dataset) -> None:
    imports.read_file(dataset, io.BytesIO(b'{"text": "yes", "required_agents": []}\n'), "jsonl")
    audit.record("x.y", actor=None, target="yes, sure", detail={"a": "yes", "b": "yesterday"})
    erased_queries.erase(Query.objects.get())
    entry = AuditEntry.objects.get(action="x.y")
    assert (entry.target, entry.detail) == ("yes, sure", {"a": "", "b": "yesterday"})


def test_the_page_shows_where_it_stands_before_and_what_is_left_after(
    copies: Query, pool: Pool, person: Callable[..., User]
) -> None:
    client = signed_in(person("rita", "reviewer"))
    address = f"/p/support/queries/{copies.pk}/erase/"
    page = client.get(address).content.decode()
    assert TEXT in page
    assert "queries of this text: 2" in page
    assert "files of failed imports: 1" in page
    assert client.post(address).status_code == 200
    assert Query.objects.get(pk=copies.pk).text == TEXT
    Pool.objects.filter(pk=pool.pk).update(guidelines=TEXT)
    after = client.post(address, {"sure": "1"}, follow=True).content.decode()
    assert "pools (1)" in after
    assert client.get(address).status_code == 302


@pytest.fixture
def several(pool: Pool, dataset: Dataset) -> list[Query]:
    """Six queries, of which the first is a part of the second, each quoted in the audit trail."""
    texts = [TEXT, f"{TEXT}, please help", *(f"letter number {n} of Jane Roe" for n in range(3)), "yes"]
    rows = [{"text": text, "required_agents": [0]} for text in texts]
    imports.read_file(dataset, io.BytesIO("\n".join(map(json.dumps, rows)).encode()), "jsonl")
    for text in texts:
        audit.record("query.sent", actor=None, detail={"quoted": f"they wrote: {text}!", "whole": text})
    snapshots.take(pool)
    return list(Query.objects.filter(text__in=texts).order_by("pk"))


def test_of_many_queries_everything_is_looked_through_as_often_as_of_one(
    several: list[Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    holding = columns.holding

    def noted(model: type[Model], words: Any, lookup: Any) -> Any:
        read.append(model.__name__)
        return holding(model, words, lookup)

    monkeypatch.setattr(columns, "holding", noted)
    erased_queries.erase_all([several[-1].pk])
    once = read.copy()
    read.clear()
    assert len(erased_queries.erase_all([query.pk for query in several[:-1]])) == 5
    assert read == once
    assert "jane" not in everything()


@pytest.mark.django_db(transaction=True)
def test_nothing_is_looked_for_while_a_transaction_writes(
    several: list[Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    within: list[bool] = []
    found_in = Phrases.found_in

    def noted(phrases: Phrases, value: Any) -> bool:
        within.append(connection.in_atomic_block)
        return found_in(phrases, value)

    monkeypatch.setattr(Phrases, "found_in", noted)
    monkeypatch.setattr(columns, "take_out_of", lambda *_those_that_were_found: None)
    erased_queries.erase_all([query.pk for query in several])
    assert within
    assert not any(within)


def test_a_copy_written_while_queries_are_erased_goes_too(
    several: list[Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    def quote(erased: ErasedQuery) -> None:
        audit.record("query.sent", actor=None, detail={"late": f"somebody wrote: {erased.text}"})

    monkeypatch.setattr(hooks.query_erased, "_implementations", [quote])
    erased_queries.erase_all([query.pk for query in several[2:4]])
    late = [entry.detail["late"] for entry in AuditEntry.objects.filter(detail__has_key="late")]
    assert late == ["somebody wrote: […]"] * 2


def test_who_breaks_it_off_can_run_it_again(several: list[Query], monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(_erased: ErasedQuery) -> None:
        raise KeyboardInterrupt

    keys = [query.pk for query in several]
    with monkeypatch.context() as dying:
        dying.setattr(hooks.query_erased, "_implementations", [killed])
        with pytest.raises(KeyboardInterrupt):
            erased_queries.erase_all(keys)
    assert Query.objects.filter(text="").count() == 0
    assert len(erased_queries.erase_all(keys)) == len(several)
    assert "jane" not in everything()


@pytest.mark.any_database
@pytest.mark.parametrize("few", [Phrases.FEW, 0])
def test_many_texts_at_once_are_found_as_each_alone(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Phrases, "FEW", few)
    texts = [TEXT, f"{TEXT}, please help", "yes", "ｆｕｌｌ　ｗｉｄｔｈ　ｌｅｔｔｅｒｓ", "a letter\nof two lines"]
    values = [
        "yes", "yes, sure", OTHER, f"before {OTHER} after", TEXT[:20], f"{TEXT[:20]}…", {"deep": ["A LETTER of two  lines"]},
        {TEXT: 1}, '"a letter\\nof two lines"', {"b": '{"a": "yes"}'}, "FULL width letters!", f"%20{TEXT.replace(' ', '%20')}",
        TEXT.encode(), "my name is nobody", "", None, 3, [], f"{TEXT}, please help and {TEXT}",
    ]  # fmt: skip
    for kind in (Phrase, WholePhrase):
        together, alone = Phrases(texts, kind), [kind(text) for text in texts]
        for value in values:
            assert together.found_in(value) is any(phrase.found_in(value) for phrase in alone), (kind, value)
            left = together.taken_out(value)
            assert not any(phrase.found_in(left) for phrase in alone), (kind, value)
            assert together.found_in(value) or left == value
