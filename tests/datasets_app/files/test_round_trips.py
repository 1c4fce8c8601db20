"""Exports: what goes out comes back in as it was, in every format and with the oddest texts; and nothing that is gone goes out."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents_app import pools, rosters
from agents_app.models import Agent, AgentSource, Pool
from datasets_app.files import exports, imports
from datasets_app.labels import erased_queries, labels
from datasets_app.models import Dataset, Query
from training_app.engine.data.folders import read_agents, read_folder

ALL = [0, 1, 2, 3]

ODD = {
    "line breaks": "first line\nsecond line\n\nlast",
    "Windows line ends": "first\r\nsecond\r\n",
    "old Mac line ends": "third\rfourth",
    "quotes": "she said \"no\", then 'yes'",
    "a quote alone": '"',
    "commas and semicolons": "a,b;c|d\te",
    "a backslash": "C:\\new\\table",
    "an emoji of several code points": "👩‍👩‍👧‍👦 family plan 🇩🇪",
    "right to left": "לא קיבלתי את החבילה ‏! (שלום)",
    "Arabic with marks": "لَمْ أَسْتَلِم الطَّرد",
    "no-break space": "10\u00a0000\u00a0€",
    "byte order mark": "\ufeffstarts with a mark",
    "zero width": "in\u200bvisible\u200d",
    "line separator": "one\u2028two\u2029three\x85four",
    "combining": "e\u0301 is not é",
    "spaces around": "  spaces around  ",
    "control characters": "bell\x07 escape\x1b form\x0cfeed",
    "a formula": "=1+1",
    "JSON": '{"text": "inner", "required_agents": [0]}',
    "markup": "<b>&amp;</b>",
    "beyond the first plane": "𝒳𝓎𝓏 𐍈",
    "Turkish": "İstanbul ı",
    "German": "STRASSE straße",
}


def content(queries: Any, format: str) -> bytes:
    return b"".join(exports.encode(exports.rows(queries), format))


def read(dataset: Dataset, data: bytes, format: str) -> Any:
    return imports.read_file(dataset, io.BytesIO(data), format)


def picture(dataset: Dataset) -> list[Any]:
    """What must come back."""
    fields = ("external_id", "text", "extra", "group__split", "gold__required", "gold__asked", "state")
    return list(Query.objects.filter(dataset=dataset).order_by("pk").values_list(*fields))


@pytest.fixture
def elsewhere(db: None) -> Dataset:
    """An equal pool of another installation."""
    pool = Pool.objects.create(slug="elsewhere", name="Elsewhere", next_agent_number=4)
    names = ("Billing", "Account", "Technical", "Shipping")
    Agent.objects.bulk_create(
        [Agent(pool=pool, number=n, code=name[:2].upper(), key=name.lower(), name=name) for n, name in enumerate(names)]
    )
    return Dataset.objects.create(pool=pool, name="Back")


@pytest.fixture
def full(dataset: Dataset) -> Dataset:
    """A dataset with every odd text and every kind of label."""
    rows: list[dict[str, Any]] = [
        {"id": f"t,{n}", "text": text, "required_agents": [n % 4], "split": ("train", "val", "test", "")[n % 4]}
        for n, text in enumerate(ODD.values())
    ]
    rows += [
        {"text": "none of these", "required_agents": []},
        {"text": "not labeled"},
        {"text": "partly asked", "required_agents": [1], "asked_agents": [1, 3]},
        {"text": "none of some", "required_agents": [], "asked_agents": [2]},
        {"text": "all of them", "required_agents": ALL},
        {"text": "other keys", "required_agents": [0], "note": 'a "b", c\nd', "trajectory": [{"agent": 1}]},
    ]
    upload = read(dataset, "".join(json.dumps(row) + "\n" for row in rows).encode(), "jsonl")
    assert (upload.queries_added, upload.rejected) == (len(rows), 0)
    return dataset


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_nothing_is_lost(full: Dataset, elsewhere: Dataset, format: str) -> None:
    data = content(exports.selected(full.pool, include_unlabeled=True), format)
    upload = read(elsewhere, data, format)
    assert (upload.rejected, list(upload.problems.all())) == (0, [])
    assert picture(elsewhere) == picture(full)
    assert content(exports.selected(elsewhere.pool, include_unlabeled=True), format) == data


@pytest.mark.parametrize("format", ["jsonl", "csv", "txt"])
def test_reading_ones_own_export_changes_nothing(full: Dataset, format: str) -> None:
    before = picture(full)
    upload = read(full, content(exports.selected(full.pool, include_unlabeled=True), format), format)
    assert (upload.labels_added, upload.queries_added, upload.rejected) == (0, 0, 0)
    assert picture(full) == before


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_text_files_keep_every_query_apart_and_equal_but_for_space(
    dataset: Dataset, elsewhere: Dataset, text: str
) -> None:
    read(dataset, (json.dumps({"text": text}) + '\n{"text": "the next"}\n').encode(), "jsonl")
    read(elsewhere, content(exports.selected(dataset.pool, include_unlabeled=True), "txt"), "txt")
    first, second = Query.objects.filter(dataset=elsewhere).order_by("pk")
    assert first.text_hash == Query.objects.get(dataset=dataset, text=text).text_hash
    assert second.text == "the next"


@pytest.mark.parametrize("format", ["jsonl", "csv", "txt"])
def test_pieces_join_without_a_seam(full: Dataset, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = content(exports.selected(full.pool), format)
    monkeypatch.setattr(exports, "BATCH", 3)
    pieces = list(exports.encode(exports.rows(exports.selected(full.pool)), format))
    assert len(pieces) > 5
    assert b"".join(pieces) == whole


def test_an_empty_export_is_a_file_with_a_header(pool: Pool) -> None:
    assert content(exports.selected(pool), "csv") == b"id,text,required_agents,asked_agents,split,extra\r\n"
    assert content(exports.selected(pool), "jsonl") == b""


def test_only_gold_unless_told_otherwise(dataset: Dataset, add_query: Callable[..., Query]) -> None:
    gold, bare = add_query("gold"), add_query("bare")
    labels.record(labels.NewLabel(gold.pk, source="import", required=[0], asked=ALL))
    assert content(exports.selected(dataset.pool), "txt") == b"gold\n"
    assert content(exports.selected(dataset.pool, include_unlabeled=True), "txt") == b"gold\nbare\n"
    assert bare.state == "unlabeled"


def test_a_disagreement_goes_out_as_not_asked(dataset: Dataset, query: Query, person: Callable[..., User]) -> None:
    labels.record(labels.NewLabel(query.pk, source="human", author=person("ana"), required=[0, 1], asked=ALL))
    labels.record(labels.NewLabel(query.pk, source="human", author=person("ben"), required=[0], asked=ALL))
    row = next(exports.rows(exports.selected(dataset.pool)))
    assert (row.required, row.asked) == ({0}, {0, 2, 3})


def test_what_is_deleted_or_erased_stays_in(dataset: Dataset, add_query: Callable[..., Query]) -> None:
    kept, deleted, erased = add_query("kept"), add_query("deleted"), add_query("erased")
    labels.record_many([labels.NewLabel(q.pk, "import", [0], ALL) for q in (kept, deleted, erased)])
    Query.objects.filter(pk=deleted.pk).update(deleted_at=timezone.now())
    erased_queries.erase(erased)
    assert content(exports.selected(dataset.pool, include_unlabeled=True), "txt") == b"kept\n"


def test_an_unknown_format_is_refused_at_once(pool: Pool) -> None:
    with pytest.raises(ValueError, match="one of jsonl, csv, txt"):
        exports.encode([], "xml")


def unpacked(pool: Pool, target: Path, **options: Any) -> list[str]:
    data = io.BytesIO(b"".join(exports.folder(pool, **options)))
    with zipfile.ZipFile(data) as archive:
        assert archive.testzip() is None
        archive.extractall(target)
        return sorted(archive.namelist())


def test_the_folder_is_what_the_engine_and_load_folder_read(full: Dataset, elsewhere: Dataset, tmp_path: Path) -> None:
    full.pool.guidelines = "# Grüße\nLook twice."
    full.pool.save()
    names = unpacked(full.pool, tmp_path, include_unlabeled=True)
    assert names == [
        "agents.jsonl",
        "guidelines.md",
        "test.jsonl",
        "train.jsonl",
        "unassigned.jsonl",
        "val.jsonl",
    ]
    assert (tmp_path / "guidelines.md").read_text(encoding="utf-8") == "# Grüße\nLook twice."
    read_back = read_folder(tmp_path)
    assert [agent.name for agent in read_back.agents] == ["Billing", "Account", "Technical", "Shipping"]
    assert {example.text for example in read_back.train} == set(list(ODD.values())[0::4])
    uploads = imports.load_folder(elsewhere.pool, tmp_path)
    assert sum(upload.rejected for upload in uploads) == 0
    assert sorted(picture(elsewhere), key=lambda row: row[1]) == sorted(picture(full), key=lambda row: row[1])


def test_the_folder_brings_the_agents_examples_along(full: Dataset, elsewhere: Dataset, tmp_path: Path) -> None:
    billing = full.pool.agents.get(name="Billing")
    AgentSource.objects.create(
        pool=full.pool, agent=billing, address="file:Billing", examples=["Charged twice, Größe 4"]
    )
    unpacked(full.pool, tmp_path)
    pools.load_agents(elsewhere.pool, read_agents(tmp_path / "agents.jsonl"))
    assert pools.card_examples(elsewhere.pool.agents.get(name="Billing")) == ("Charged twice, Größe 4",)
    assert "".join(rosters.json_lines(elsewhere.pool)) == "".join(rosters.json_lines(full.pool))


def test_the_folder_speaks_of_active_agents_only(
    dataset: Dataset, add_query: Callable[..., Query], tmp_path: Path
) -> None:
    both, only = add_query("both", "train"), add_query("only the retired one", "train")
    labels.record(labels.NewLabel(both.pk, source="import", required=[0, 3], asked=ALL))
    labels.record(labels.NewLabel(only.pk, source="import", required=[3], asked=[3]))
    Agent.objects.filter(number=3).update(state="retired")
    unpacked(dataset.pool, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert [(row["required_agents"], row.get("asked_agents")) for row in rows] == [([0], [0, 1, 2]), (None, None)]
    assert len((tmp_path / "agents.jsonl").read_text().splitlines()) == 3


def test_an_export_reads_rows_at_once_and_notes_by_the_batch(full: Dataset, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(2):
        content(exports.selected(full.pool, include_unlabeled=True), "jsonl")
