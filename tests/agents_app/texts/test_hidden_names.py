"""A name hidden in every column that may hold one, in every form, is found and erased; SQL alone looks for what is left."""

import csv
import gzip
import html
import io
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import openpyxl
import pytest
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.db import models
from django_q.models import OrmQ, Task
from django_q.signing import SignedPackage

from agents_app.accounts import personal
from agents_app.texts import personal_data
from agents_app.texts.matching import Terms
from datasets_app.labels import erased_queries, snapshots
from datasets_app.models import Import, ImportChunk, Query, Snapshot, SnapshotContent, text_hash
from routerweb import holds
from routerweb.erasing import Fate
from routerweb.holds import Content
from tests import orchestration
from tests.agents_app.texts import everything
from tests.agents_app.texts.made_rows import row
from training_app.engine.data import artifact
from training_app.models import Artifact, Checkpoint, RouterModel, Run

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
NAME = "Zoë Quillfeather"
TERMS = Terms([NAME])
#: The forms of a text in which a name stands.
FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda name: f"Hello, {name}: hi",
    "capitals, other spaces": lambda name: name.upper().replace(" ", " \n\t"),
    "full-width, decomposed": lambda name: "".join(chr(ord(c) + 0xFEE0) if "!" < c < "~" else c for c in name),
    "JSON": lambda name: json.dumps({"a": [f"Hello,\n{name}", 1]}),
    "JSON in JSON": lambda name: json.dumps({"a": json.dumps({name: f"\t{name}"})}),
    "cut JSON": lambda name: json.dumps({"a": f"Hello,\n{name}"})[:-2],
    "HTML": lambda name: html.escape(name).replace("ë", "&euml;").replace(" ", "&#32;"),
    "address": lambda name: f"/?q={quote(name)}",
}
#: Columns whose rows are made by the code that packs them, below.
PACKED = {ImportChunk, SnapshotContent, Artifact, Checkpoint, OrmQ, Task, Session}


def written(column: "models.Field[Any, Any]", text: str) -> Any:
    """A text as a column can hold it; None where it has no room."""
    shapes = {
        "messages": [{"role": "user", "content": text}],
        "evidence": [["said", text]],
        "words": [[text, 1]],
        "roster": [{"id": 1, "name": text}],
    }
    if isinstance(column, models.JSONField):
        return shapes.get(column.name, {"deep": [text, {text: 1}]})
    if isinstance(column, models.GenericIPAddressField) or (column.max_length and len(text) > column.max_length):
        return None
    return text


def columns_of(kinds: Content) -> Iterator[tuple[type[models.Model], "models.Field[Any, Any]"]]:
    for model in holds.tables():
        if model not in PACKED:
            yield from ((model, column) for column in holds.columns(model, kinds))


def hide(
    kinds: Content, *, name: str = NAME, left_out: Callable[[type[models.Model], Any], bool] = lambda *_: False
) -> set[str]:
    """Hide the name in every column of these kinds in every form, a row each; "table.column" of where."""
    hidden = set()
    for model, column in columns_of(kinds):
        if left_out(model, column):
            continue
        for form in FORMS.values():
            value = written(column, form(name))
            if value is not None:
                made = row(model)
                if model is Snapshot:
                    row(SnapshotContent, snapshot=made, rows_gzip=gzip.compress(b""))
                model._base_manager.filter(pk=made.pk).update(**{column.name: value})
                hidden.add(f"{model._meta.db_table}.{column.column}")
    return hidden


def of_an_account(model: type[models.Model], column: Any) -> bool:
    only_person = holds.content(column) & holds.WORDS == Content.PERSON
    return only_person and personal_data.belongs_to_an_account(model)


@pytest.mark.at_length
def test_a_name_in_every_column_and_form_is_erased() -> None:
    hidden = hide(holds.WORDS & ~Content.SETTING, left_out=of_an_account)
    assert len(hidden) > 60
    if orchestration.INSTALLED:
        apps.get_model("orchestration_app", "Episode").objects.update(status="done")
    Import.objects.update(status="failed")
    assert everything.places_of(NAME) == hidden, "the search by SQL sees each of them"
    found = {place.label for place in personal_data.find(TERMS)}
    assert {"datasets_app.Label", "agents_app.AuditEntry", "agents_app.Pool"} <= found

    left = personal_data.erase(TERMS, None)

    assert [place for place in left if place.erasable] == []
    assert everything.places_of(NAME) == set()
    assert left == []


@pytest.mark.at_length
def test_what_programs_read_is_reported_and_left() -> None:
    hidden = hide(Content.SETTING)
    found = {(place.model._meta.db_table, place.fate) for place in personal_data.erase(TERMS, None)}
    assert found == {(where.partition(".")[0], Fate.STAYS) for where in hidden}
    assert everything.places_of(NAME) == hidden


@pytest.mark.at_length
def test_a_member_of_that_name_is_left_to_be_erased_under_people() -> None:
    address = "zoë.quillfeather@example.com"
    member = User.objects.create_user(address, address, first_name="Zoë")
    hidden = {"auth_user.username", "auth_user.email"}
    for model, column in columns_of(Content.PERSON):
        if model is not User and (value := written(column, f"by {address}")):
            model._base_manager.filter(pk=row(model).pk).update(**{column.name: value})
            hidden.add(f"{model._meta.db_table}.{column.column}")
    assert everything.places_of(address) == hidden
    places = personal_data.erase(Terms([address]), None)
    stays = {place.label for place in places}
    assert stays >= {"auth.User", "agents_app.AuditEntry", "training_app.PromotionRequest"}
    assert {place.fate for place in places} == {Fate.STAYS}
    personal.erase(member, None)
    assert everything.places_of(address) == set()
    assert personal_data.find(Terms([address])) == []


# ---------------------------------------------------------------------------------------------------- a query's text

TEXT = f"my name is {NAME}, and I was charged twice"


def is_a_query(column: "models.Field[Any, Any]") -> bool:
    return holds.content(column) & (Content.QUERY | Content.REMARK) == Content.QUERY


@pytest.mark.at_length
def test_a_querys_text_in_every_column_and_form_is_erased_with_it() -> None:
    query = row(Query, text=TEXT, text_hash=text_hash(TEXT))
    hidden = set()
    for model, column in columns_of(Content.QUERY | Content.REMARK):
        forms = [str, str.upper] if is_a_query(column) else list(FORMS.values())
        for form in forms:
            if model is not Query and (value := written(column, form(TEXT))) is not None:
                model._base_manager.filter(pk=row(model).pk).update(**{column.name: value})
                hidden.add(f"{model._meta.db_table}.{column.column}")
    assert {"datasets_app_label.note", "training_app_keptanswer.body"} <= hidden
    if orchestration.INSTALLED:
        assert {
            "orchestration_app_episode.task", "orchestration_app_episode.messages", "orchestration_app_episode.answer",
            "orchestration_app_step.output", "orchestration_app_step.state",
        } <= hidden  # fmt: skip
    assert everything.places_of(TEXT) == hidden | {"datasets_app_query.text"}

    assert erased_queries.erase(query) == []

    assert everything.places_of(TEXT) == set()


def test_a_querys_text_in_what_staff_write_is_reported_and_left() -> None:
    """Whoever may erase a query may not always change what everybody reads."""
    query = row(Query, text=TEXT, text_hash=text_hash(TEXT))
    hidden = hide(Content.SHARED, name=TEXT)
    left = erased_queries.erase(query)
    assert {trace.stays for trace in left} == {True}
    assert everything.places_of(TEXT) == hidden


# ---------------------------------------------------------------------------------------------------- what is packed


def as_csv(text: str) -> str:
    out = io.StringIO()
    csv.writer(out).writerows([["text", "id"], ["before", "1"], [text, '2 "x"']])
    return out.getvalue()


def as_workbook(text: str) -> bytes:
    book = openpyxl.Workbook()
    book.active.append(["text", "id"])
    book.active.append([text, 2])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


SAID = f"Hello,\n{NAME}"
FILES: dict[str, str] = {
    "jsonl": json.dumps({"text": "one"}) + "\n" + json.dumps({"text": SAID}) + "\n",
    "jsonl, no escapes": json.dumps({"text": SAID}, ensure_ascii=False) + "\n",
    "json": json.dumps([{"text": "one"}, {"text": {"deep": [SAID]}}], indent=1),
    "csv": as_csv(SAID),
    "semicolons": as_csv(f'"{NAME}"').replace(",", ";"),
    "txt": f"one\n{SAID}\n",
    "broken": '{"text": "one"}\n{"text": "Hello,\\n' + json.dumps(NAME)[1:-1],
}
ENCODINGS = ("utf-16", "xlsx")
MORE_ENCODINGS = ("utf-8", "cp1252", "utf-8-sig", "utf-16-le", "utf-16-be")


@pytest.mark.parametrize(
    "encoding", [*ENCODINGS, *(pytest.param(one, marks=pytest.mark.at_length) for one in MORE_ENCODINGS)]
)
def test_a_name_in_a_stored_file_of_any_format_and_encoding_is_erased(encoding: str) -> None:
    files = (
        {name: text.encode(encoding) for name, text in FILES.items()}
        if encoding != "xlsx"
        else {"xlsx": as_workbook(SAID)}
    )
    for name, content in files.items():
        upload = row(Import, format="xlsx" if encoding == "xlsx" else "jsonl", file_name=name)
        for position, start in enumerate(range(0, len(content), 37)):
            row(ImportChunk, upload=upload, position=position, content=content[start : start + 37])
    other = row(ImportChunk, position=0, content=b'{"text": "somebody else"}\n')
    (place,) = personal_data.find(TERMS)
    assert (place.model, len(place.keys)) == (ImportChunk, len(files))
    assert personal_data.erase(TERMS, None) == []
    assert list(ImportChunk.objects.all()) == [other]


@pytest.mark.at_length
def test_a_file_that_is_being_imported_is_reported_until_that_ends() -> None:
    upload = row(Import, status="queued")
    row(ImportChunk, upload=upload, position=0, content=SAID.encode("utf-16"))
    (place,) = personal_data.erase(TERMS, None)
    assert place.fate == Fate.STAYS
    assert "under way" in place.what_happens
    Import.objects.update(status="cancelled")
    assert personal_data.erase(TERMS, None) == []


def a_checkpoint(word: str) -> bytes:
    state = json.dumps({"vocabulary": {"words": ["hello", word.lower()], "characters": ["zo"]}})
    return artifact.pack({"state.json": state.encode(), "state.safetensors": artifact.tensor_bytes({})})


def test_checkpoints_in_which_a_name_stands_are_deleted() -> None:
    kept = row(Checkpoint, content=a_checkpoint("somebody"))
    row(Checkpoint, content=a_checkpoint(NAME))
    row(Checkpoint, content=b"cut off")
    (place,) = personal_data.find(TERMS)
    assert (place.model, len(place.keys), place.fate) == (Checkpoint, 2, Fate.DELETED)
    assert personal_data.erase(TERMS, None) == []
    assert list(Checkpoint.objects.all()) == [kept]


def test_an_erased_query_takes_the_checkpoints_of_its_pool_with_it() -> None:
    query = row(Query, text=TEXT, text_hash=text_hash(TEXT))
    other = row(Checkpoint, content=a_checkpoint("somebody"))
    row(Checkpoint, run=row(Run, pool=query.dataset.pool), content=a_checkpoint("charged"))
    erased_queries.erase(query)
    assert list(Checkpoint.objects.all()) == [other]


def test_a_name_in_what_is_packed_is_erased() -> None:
    snapshot = row(Snapshot, roster=[{"id": 1, "name": NAME}])
    line = {"query": 99, "id": "7", "text": SAID, "required": [], "asked": [1], "split": "train"}
    lines = [one | {"sha256": snapshots._row_hash(one)} for one in (line, {**line, "query": 98, "text": "other"})]
    content = b"".join(json.dumps(one).encode() + b"\n" for one in lines)

    row(SnapshotContent, snapshot=snapshot, rows_gzip=gzip.compress(content))
    model = row(RouterModel)
    Artifact.objects.create(model=model, content=an_artifact())
    OrmQ.objects.create(key="default", payload=SignedPackage.dumps({"func": "mail", "args": (SAID, {"to": NAME})}))
    Task.objects.create(
        id="1" * 32, name="t", func="mail", args=(SAID,), kwargs={"to": [NAME]}, result={"said": SAID},
        started="2026-01-01T00:00Z", stopped="2026-01-01T00:00Z",
    )  # fmt: skip
    Session.objects.create(
        session_key="s" * 32,
        session_data=SessionStore().encode({"said": json.dumps([SAID])}),
        expire_date="2030-01-01T00:00Z",
    )
    hidden = everything.places_of(NAME)
    assert {place.partition(".")[0] for place in hidden} == {
        "datasets_app_snapshot", "datasets_app_snapshotcontent", "training_app_artifact",
        "django_q_ormq", "django_q_task", "django_session",
    }  # fmt: skip

    assert personal_data.erase(TERMS, None) == []

    assert everything.places_of(NAME) == set()
    model.refresh_from_db()
    stored = bytes(Artifact.objects.get().content)
    assert (model.artifact_bytes, len(artifact.read(stored).vocabulary["scorer"]["words"])) == (len(stored), 3)
    assert snapshots.verify(Snapshot.objects.get())
    assert SessionStore("s" * 32).load() == {"said": '["Hello,\\n[…]"]'}


def an_artifact() -> bytes:
    words = ["hello", NAME.lower(), f"i am {NAME.lower()}"]
    return artifact.Artifact(
        config={"agents": [{"id": 1, "name": "A", "description": SAID}]},
        vocabulary={"scorer": {"words": words, "characters": ["zoë", "quill"]}},
        tensors={},
        metrics={"errors": [{"text": SAID, "nearest": []}]},
    ).to_bytes()


def test_the_admins_own_log_is_looked_through(admin_user: User) -> None:
    LogEntry.objects.create(
        user=admin_user, object_repr=NAME, change_message=json.dumps([{"changed": {"fields": [NAME]}}]), action_flag=2
    )
    assert personal_data.erase(TERMS, None) == []
    assert everything.places_of(NAME) == set()
