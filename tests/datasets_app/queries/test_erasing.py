"""Erasing finds a text wherever it was copied to, in whatever case and spacing, and says what it found."""

import io
import json
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents_app import audit
from agents_app.models import AuditEntry, Pool
from datasets_app.files import imports
from datasets_app.labels import labels, snapshots
from datasets_app.models import BulkChange, Dataset, Import, ImportChunk, Label, Query, QueueItem
from datasets_app.queries import traces
from training_app.answering import decisions
from training_app.engine.routing.router import Route
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
    labels.record(query, source="human", author=ana, required=[0], asked=[0, 1], reason="Jane again")
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
    for label, names in traces.COLUMNS.items():
        model = traces.apps.get_model(label)
        found += [json.dumps(row, ensure_ascii=False, default=str) for row in model._base_manager.values_list(*names)]
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

    assert snapshots.erase(copies) == []

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


def test_what_people_wrote_for_everybody_is_told_and_stays(copies: Query, pool: Pool) -> None:
    Pool.objects.filter(pk=pool.pk).update(guidelines=f"For example “{TEXT}” needs Billing.")
    (left,) = snapshots.erase(copies)
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
        (TEXT, "My name is Jane Doe, and I was charged", False),
        (TEXT, "", False),
        ("ｆｕｌｌ　ｗｉｄｔｈ　ｌｅｔｔｅｒｓ", "full width letters", True),
    ],
)
@pytest.mark.any_database
def test_where_a_text_stands_in_another(text: str, value: str, held: bool) -> None:
    cleaned, found = traces.Phrase(text).clean({"deep": [value]})
    assert found is held
    assert (cleaned == {"deep": [value]}) is not held
    assert not traces.Phrase(text).clean(cleaned)[1]


def test_a_short_text_does_not_empty_other_remarks(pool: Pool, dataset: Dataset) -> None:
    imports.read_file(dataset, io.BytesIO(b'{"text": "yes", "required_agents": []}\n'), "jsonl")
    audit.record("x.y", actor=None, target="yes, sure", detail={"a": "yes", "b": "yesterday"})
    snapshots.erase(Query.objects.get())
    entry = AuditEntry.objects.get(action="x.y")
    assert (entry.target, entry.detail) == ("yes, sure", {"a": "", "b": "yesterday"})


def test_every_column_that_may_hold_a_copy_exists() -> None:
    for columns in (traces.COLUMNS, traces.TOLD):
        for label, names in columns.items():
            assert {field.name for field in traces.apps.get_model(label)._meta.concrete_fields} >= set(names), label


def test_the_page_shows_where_it_stands_before_and_what_is_left_after(
    copies: Query, pool: Pool, person: Callable[..., User]
) -> None:
    client = Client()
    client.force_login(person("rita", "reviewer"))
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
