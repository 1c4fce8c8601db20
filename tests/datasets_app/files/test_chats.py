"""Chats as other programs write them: what a user says is a query with the messages before it, and what agents say is none."""

import io
import json
from collections.abc import Sequence
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from agents_app import pools
from agents_app.models import Pool
from datasets_app.files import chats, checking, imports, looking, tables
from datasets_app.models import Import, Query
from datasets_app.queries import adding
from tests.datasets_app.files.test_as_people_have_them import AGENTS, book
from training_app.engine.data.conversations import before
from training_app.engine.data.examples import Row, RowError

BILLING, ACCOUNT, SHIPPING = (frozenset({agent.id}) for agent in AGENTS)
#: Two chats whose messages come in the order in which they were said, one between the other's.
LOG = (
    ("c1", "10:01", "Customer", "hi there", ""),
    ("c2", "10:01", "Visitor 17", "I cannot log in", "Account"),
    ("c1", "10:02", "Agent", "Hello, how can I help?", ""),
    ("c1", "10:03", "Customer", "I was charged twice", "Billing"),
    ("c2", "10:04", "Bot", "Did you try a reset?", "Account"),
    ("c2", "10:05", "Visitor 17", "yes, and where is my parcel?", "Account, Shipping"),
)
HEADINGS = (
    ("chat_id", "time", "sender", "message", "team"),
    ("Ticket ID", "Zeit", "Von", "Nachricht", "Abteilung"),
    ("session", "at", "role", "content", "required_agents"),
    ("Chat no.", "ticket status", "sender", "Message", "Department"),
    ("conversationId", "at", "author", "body", "label"),
    ("Gesprächs-Nr.", "um", "Art", "Kommentar", "Team"),
)
TURNS = [
    ("hi there", None, "c1", []),
    ("I cannot log in", ACCOUNT, "c2", []),
    ("I was charged twice", BILLING, "c1", ["hi there", "Hello, how can I help?"]),
    ("yes, and where is my parcel?", ACCOUNT | SHIPPING, "c2", ["I cannot log in", "Did you try a reset?"]),
]


def csv(rows: Sequence[Sequence[str]]) -> bytes:
    return "\n".join(",".join(f'"{cell}"' for cell in row) for row in rows).encode()


def read(content: bytes, name: str) -> list[Row | RowError]:
    looked = looking.look(io.BytesIO(content), name, AGENTS)
    return list(tables.rows(io.BytesIO(content), looked.reading, AGENTS))


def said(rows: Sequence[Row | RowError]) -> list[tuple[Any, ...]]:
    return [
        (str(row.text), row.required, row.conversation, [message.content for message in before(row.text)])
        for row in rows
        if isinstance(row, Row)
    ]


@pytest.mark.parametrize("headings", HEADINGS)
def test_a_table_of_messages_is_turns_of_conversations(headings: Sequence[str]) -> None:
    rows = read(csv([headings, *LOG]), "chats.csv")
    assert said(rows) == TURNS
    assert [row for row in rows if isinstance(row, RowError)] == []


def test_a_workbook_and_json_of_messages_are_the_same() -> None:
    as_json = "\n".join(json.dumps(dict(zip(HEADINGS[0], row, strict=True))) for row in LOG).encode()
    assert said(read(book(HEADINGS[0], *LOG), "chats.xlsx")) == said(read(as_json, "chats.jsonl")) == TURNS


def test_roles_in_the_context_are_ours() -> None:
    rows = read(csv([HEADINGS[0], *LOG]), "chats.csv")
    last = [row for row in rows if isinstance(row, Row)][-1]
    assert [message.role for message in before(last.text)] == ["user", "assistant"]


def test_a_message_of_a_speaker_that_is_neither_is_named_and_the_others_go_in() -> None:
    log = [(f"c{n}", "10:00", ("Customer", "Agent")[n % 2], f"message {n}", "") for n in range(60)]
    log = [(f"c{n // 2}", *row[1:]) for n, row in enumerate(log)]
    rows = read(csv([HEADINGS[0], *log, ("c1", "10:09", "Ana", "hello from me", "")]), "chats.csv")
    (bad,) = [row for row in rows if isinstance(row, RowError)]
    assert (bad.line, bad.field, bad.excerpt) == (62, "speaker", "hello from me")
    assert "neither customer nor agent: Ana" in bad.reason
    assert len(rows) == 31


def test_a_turn_of_a_long_chat_comes_with_the_last_messages_alone() -> None:
    log = [("c1", "10:00", ("Customer", "Agent")[n % 2], f"message {n}", "") for n in range(120)]
    *_others, last = said(read(csv([HEADINGS[0], *log]), "chats.csv"))
    assert last[0] == "message 118"
    assert last[3] == [f"message {n}" for n in range(118 - chats.MOST_MESSAGES + 1, 118)]


def test_names_of_people_and_rows_of_one_chat_alone_are_no_chat() -> None:
    people = [("id", "from", "message"), ("1", "Ana", "hello there"), ("2", "Ben", "good day to you")]
    assert said(read(csv(people), "a.csv")) == [("hello there", None, "", []), ("good day to you", None, "", [])]
    apart = [(f"c{n}", *row[1:]) for n, row in enumerate(LOG)]  # each message has a number of its own: nothing goes on
    assert len(read(csv([HEADINGS[0], *apart]), "b.csv")) == len(LOG)


@pytest.mark.parametrize(
    ("speaker", "role"),
    [("Customer", "user"), ("visitor #12", "user"), ("END_USER", "user"), ("Bot 2", "assistant"), ("客服", "assistant"),
     ("клиент", "user"), ("Ana", None), ("", None), (7, None)],
)  # fmt: skip
def test_who_speaks_is_read_by_the_words_for_both_sides(speaker: object, role: str | None) -> None:
    assert chats.role_of(speaker) == role


# ---------------------------------------------------------------------------------------------------- whole conversations


def test_messages_with_labels_of_their_own_are_turns() -> None:
    record = {
        "id": "d7",
        "messages": [
            {"role": "user", "content": "I was charged twice", "intent": "Billing"},
            {"role": "assistant", "content": "Refunded.", "agents": ["Billing"]},
            {"role": "user", "content": "thanks", "intent": "none"},
            {"role": "assistant", "content": "Anything else?"},
            {"role": "user", "content": "my parcel is late and I cannot log in", "intent": ["Shipping", "Account"]},
            {"role": "assistant", "content": "It comes tomorrow."},
        ],
    }
    content = json.dumps(record).encode()
    looked = looking.look(io.BytesIO(content), "d.jsonl", AGENTS)
    assert not looked.plain, "somebody sees what is made of it"
    rows = list(tables.rows(io.BytesIO(content), looked.reading, AGENTS))
    assert [(text, required, len(earlier)) for text, required, _conversation, earlier in said(rows)] == [
        ("I was charged twice", BILLING, 0),
        ("thanks", frozenset(), 2),
        ("my parcel is late and I cannot log in", SHIPPING | ACCOUNT, 4),
    ]
    assert [(row.id, row.conversation) for row in rows if isinstance(row, Row)] == [
        ("d7-0", "d7"),
        ("d7-1", "d7"),
        ("d7-2", "d7"),
    ]


OURS = [{"role": "user", "content": "I was charged twice"}, {"role": "assistant", "content": "Refunded."}]
THEIRS = [{"from": "human", "value": "I was charged twice"}, {"from": "gpt", "value": "Refunded."}]
OTHERS = [{"role": "CUSTOMER", "text": "I was charged twice"}, {"role": "Bot", "text": "Refunded."}]


@pytest.mark.parametrize("messages", [OURS, THEIRS, OTHERS])
@pytest.mark.parametrize("label", ["required_agents", "team"])
def test_an_answer_behind_the_last_message_of_the_user_is_no_part_of_the_query(messages: Any, label: str) -> None:
    content = json.dumps({"messages": messages, label: ["Billing"]}).encode()
    assert said(read(content, "d.jsonl")) == [("I was charged twice", BILLING, "", [])]


# ---------------------------------------------------------------------------------------------------- in a pool


@pytest.fixture
def pool(db: None) -> Pool:
    pool = pools.create_pool("Support", "support")
    for agent in AGENTS:
        pools.add_agent(pool, agent.name)
    return pool


def test_the_import_stores_turns_and_says_what_it_leaves_out(pool: Pool, admin_client: Client) -> None:
    file = SimpleUploadedFile("chats.csv", csv([HEADINGS[0], *LOG]))
    admin_client.post(reverse("import", args=["support"]), {"dataset": "Chats", "file": file})
    upload = Import.objects.get()
    shown = admin_client.get(reverse("import_columns", args=["support", upload.pk])).content.decode()
    assert "4 user turns" in shown
    assert "What agents said is context" in shown
    assert "3 of 3 labels will be kept" in shown


def test_turns_of_one_chat_are_one_conversation(pool: Pool) -> None:
    dataset = adding.dataset_of(pool, "Chats")
    content = csv([HEADINGS[0], *LOG])
    looked = looking.look(io.BytesIO(content), "chats.csv", pools.roster(pool))
    assert checking.check(io.BytesIO(content), looked.reading, pools.roster(pool)).kept == 3
    imports.read_file(dataset, io.BytesIO(content), "", reading=looked.reading)
    stored = {query.text: query for query in Query.objects.all()}
    assert set(stored) == {row[0] for row in TURNS}
    assert stored["hi there"].group_id == stored["I was charged twice"].group_id, "one split"
    assert stored["hi there"].group_id != stored["I cannot log in"].group_id
