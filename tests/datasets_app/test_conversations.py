"""Conversations from a file to the labels of their turns: identity, splits, the queue, the page, snapshots, erasing."""

import hashlib
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents_app.models import Pool
from datasets_app.files import exports, imports
from datasets_app.labeling import one_query, queue
from datasets_app.labeling.one_query import Choice
from datasets_app.labels import erased_queries, snapshots
from datasets_app.models import Dataset, Import, Query, QueueItem, QueueSettings, SplitGroup
from datasets_app.pages import labeling_page
from datasets_app.queries import adding, splits
from training_app.engine.data.conversations import Message, Turn, before

Row = dict[str, Any]


def talk(key: str, count: int = 3, identified: bool = True, agents: list[int] | None = None) -> list[Row]:
    """The rows of a conversation's user turns."""
    said: list[Row] = []
    rows = []
    for turn in range(count):
        said.append({"role": "user", "content": f"{key} asks for thing number {turn}"})
        row: Row = {"id": f"{key}-{turn}", "messages": list(said)}
        rows.append(row | ({"conversation_id": key} if identified else {}))
        answer: Row = {"role": "assistant", "content": f"answer {turn} to {key}"}
        said.append(answer | ({"agents": agents} if agents else {}))
    return rows


def read(dataset: Dataset, rows: list[Row], format: str = "jsonl") -> Import:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    return imports.read_file(dataset, io.BytesIO(lines.encode()), format)


def turns(pool: Pool) -> list[Query]:
    return list(Query.objects.filter(dataset__pool=pool).order_by("pk"))


class TestFiles:
    @pytest.mark.both_databases
    def test_rows_become_queries_that_know_what_was_said_before(self, dataset: Dataset) -> None:
        read(dataset, talk("ana", agents=[1]))
        found = turns(dataset.pool)
        assert [one.text for one in found] == [f"ana asks for thing number {n}" for n in range(3)]
        assert [one.turn for one in found] == [0, 2, 4]
        assert [len(before(one.routed_text)) for one in found] == [0, 2, 4]
        assert before(found[1].routed_text)[1] == Message("assistant", "answer 0 to ana", (1,))
        assert len({one.group_id for one in found}) == 1

    @pytest.mark.parametrize("format", ["jsonl", "csv"])
    def test_what_is_exported_is_read_again(self, dataset: Dataset, format: str) -> None:
        read(dataset, [*talk("ana", agents=[1]), {"text": "a plain text"}])
        rows = list(exports.rows(exports.selected(dataset.pool, include_unlabeled=True)))
        content = b"".join(exports.encode(rows, format))
        again = Dataset.objects.create(pool=dataset.pool, name="Again")
        imports.read_file(again, io.BytesIO(content), format)
        first, second = (
            [(one.routed_text, one.external_id, one.conversation, one.extra) for one in which.queries.order_by("pk")]
            for which in (dataset, again)
        )
        assert first == second

    def test_turns_that_read_the_same_are_one_query(self, dataset: Dataset) -> None:
        rows = talk("ana")
        rows[1]["messages"][-1]["content"] = "ANA  asks for thing number 1"
        done = read(dataset, [*talk("ana"), rows[1]])
        assert (done.queries_added, done.unchanged) == (3, 1)

    def test_the_last_turn_alone_is_another_query(self, dataset: Dataset) -> None:
        read(dataset, [*talk("ana"), {"text": "ana asks for thing number 1"}])
        assert Query.objects.count() == 4

    def test_a_bad_message_leaves_its_row_out(self, dataset: Dataset) -> None:
        bad: Row = {"messages": [{"role": "nobody", "content": "x"}]}
        done = read(dataset, [bad, *talk("ana")])
        problem = done.problems.get()
        assert (done.queries_added, problem.line, problem.field) == (3, 1, "messages[0].role")


class TestSplits:
    def test_all_turns_of_a_conversation_share_one(self, dataset: Dataset) -> None:
        rows = [row | {"required_agents": [1]} for n in range(12) for row in talk(f"person {n}", identified=n % 2 == 0)]
        read(dataset, rows)
        splits.assign(dataset.pool)
        of: dict[str, set[str]] = {}
        for one in Query.objects.select_related("group"):
            of.setdefault(one.external_id.split("-")[0], set()).add(one.group.split)
        assert all(len(found) == 1 and found != {""} for found in of.values())
        assert SplitGroup.objects.count() == 12


class TestSnapshots:
    def test_hold_the_conversations_and_give_them_to_the_engine(self, dataset: Dataset) -> None:
        read(dataset, [row | {"required_agents": [1]} for row in talk("ana", agents=[2])])
        snapshot = snapshots.take(dataset.pool)
        examples = list(snapshots.examples(snapshot))
        assert [example.text for example in examples] == [one.routed_text for one in turns(dataset.pool)]
        assert {example.group for example in examples} == {"ana"}
        assert snapshots.verify(snapshot)
        again = Dataset.objects.create(pool=dataset.pool, name="Again")
        imports.read_file(again, io.BytesIO(b"".join(snapshots.jsonl(snapshot))), "jsonl")
        assert [one.routed_text for one in again.queries.order_by("pk")] == [example.text for example in examples]

    def test_of_texts_hash_as_before_there_were_conversations(self) -> None:
        row: Row = {"id": "1", "text": "hello", "required": [1], "asked": [0, 1], "split": "train"}
        said = json.dumps(["1", "hello", [1], [0, 1], "train"], separators=(",", ":"))
        assert snapshots._row_hash(row) == hashlib.sha256(said.encode()).hexdigest()
        assert snapshots._row_hash(row) != snapshots._row_hash(row | {"messages": [{"role": "user", "content": "x"}]})


class TestErasing:
    @pytest.mark.parametrize("identified", [True, False])
    def test_a_turn_takes_its_conversation_with_it(self, dataset: Dataset, identified: bool) -> None:
        read(dataset, [row | {"required_agents": [1]} for row in talk("ana", identified=identified)])
        read(dataset, [row | {"required_agents": [1]} for row in talk("ben", identified=identified)])
        snapshot = snapshots.take(dataset.pool)
        erased_queries.erase(Query.objects.get(external_id="ana-1"))
        left = Query.objects.filter(erased_at=None)
        assert {one.external_id for one in left} == {"ben-0", "ben-1", "ben-2"}
        gone = Query.objects.exclude(erased_at=None)
        assert {(one.text, one.messages, one.conversation) for one in gone} == {("", None, "")}
        kept = [example.text for example in snapshots.examples(snapshot)]
        assert kept == [one.routed_text for one in left.order_by("pk")]
        assert snapshots.verify(snapshot)

    def test_a_text_goes_from_what_was_said_before_others(self, dataset: Dataset) -> None:
        said = [Message("user", "my number is 12345678")]
        turn, other = Turn("call me", said), Turn("call me", [Message("user", "hello")])
        new = [adding.NewQuery(text) for text in (turn, other, "my number is 12345678")]
        adding.find_or_add(dataset, new, "test")
        erased_queries.erase(Query.objects.get(text="my number is 12345678"))
        assert not any("12345678" in json.dumps(one.messages) for one in Query.objects.all())
        assert Query.objects.get(text="call me", text_hash=adding.hashes_of(other)[0]).routed_text == other


@pytest.fixture
def one_each(pool: Pool) -> QueueSettings:
    """A queue in which nothing overlaps or is blind."""
    return QueueSettings.objects.create(pool=pool, overlap_share=0, blind_share=0, evaluation_share=0)


def answer(lease: Any, key: str) -> None:
    one_query.submit(lease, Choice(frozenset({1}), False, False, frozenset({0, 1, 2, 3})), key=key, base=0)


@pytest.mark.both_databases
class TestTheQueue:
    def labeled_by(self, pool: Pool, person: User, count: int) -> list[str]:
        done = []
        for n in range(count):
            (lease,) = queue.take(pool, person)
            done.append(lease.item.query.external_id)
            answer(lease, f"{person.username} {n}")
        return done

    @pytest.mark.parametrize("order", ["random", "oldest", "uncertainty"])
    def test_turns_follow_one_another(
        self, dataset: Dataset, one_each: QueueSettings, person: Callable[..., User], order: str
    ) -> None:
        for key in ("ana", "ben", "cid"):
            read(dataset, talk(key))
        QueueSettings.objects.update(order=order)
        one_each.refresh_from_db()
        done = self.labeled_by(dataset.pool, person("eve"), 9)
        for start in (0, 3, 6):
            key = done[start].split("-")[0]
            assert done[start : start + 3] == [f"{key}-0", f"{key}-1", f"{key}-2"]

    def test_another_person_begins_another_conversation(
        self, dataset: Dataset, one_each: QueueSettings, person: Callable[..., User]
    ) -> None:
        for key in ("ana", "ben"):
            read(dataset, talk(key))
        eve, fay = person("eve"), person("fay")
        (first,), (second,) = queue.take(dataset.pool, eve), queue.take(dataset.pool, fay)
        assert first.item.query.group_id != second.item.query.group_id
        assert second.item.query.turn == 0

    def test_nothing_is_left_over(self, dataset: Dataset, one_each: QueueSettings, person: Callable[..., User]) -> None:
        read(dataset, talk("ana"))
        assert len(queue.take(dataset.pool, person("eve"), count=1)) == 1
        assert len(queue.take(dataset.pool, person("fay"), count=5)) == 2

    @pytest.mark.at_length
    def test_a_conversation_is_blind_or_drawn_as_a_whole(self, dataset: Dataset, one_each: QueueSettings) -> None:
        for n in range(10):
            read(dataset, talk(f"person {n}"))
        queue.fill(dataset.pool)
        lots: dict[int, set[tuple[int, int, int]]] = {}
        for item in QueueItem.objects.select_related("query"):
            lots.setdefault(item.query.group_id, set()).add((item.overlap_lot, item.blind_lot, item.evaluation_lot))
        assert {len(found) for found in lots.values()} == {1}
        assert len(set.union(*lots.values())) == 10


class TestThePage:
    def test_shows_the_chat_with_ones_own_labels(
        self, dataset: Dataset, one_each: QueueSettings, person: Callable[..., User]
    ) -> None:
        read(dataset, talk("ana"))
        eve, fay = person("eve"), person("fay")
        (lease,) = queue.take(dataset.pool, eve)
        answer(lease, "1")
        (lease,) = queue.take(dataset.pool, eve)
        shown = labeling_page.item(lease)["chat"]
        assert [(one.role, one.text) for one in shown] == [
            ("user", "ana asks for thing number 0"),
            ("assistant", "answer 0 to ana"),
        ]
        assert [agent.number for agent in shown[0].agents] == [1]
        other = labeling_page.item(queue.open_item(lease.item.query, fay, dataset.pool))["chat"]
        assert other[0].agents is None

    def test_is_drawn(
        self, dataset: Dataset, one_each: QueueSettings, person: Callable[..., User], client: Client
    ) -> None:
        read(dataset, talk("<b>ana</b>", count=22))
        client.force_login(person("eve"))
        last = Query.objects.order_by("-turn").first()
        assert last is not None
        page = client.get(f"/p/support/label/{last.pk}/").content.decode()
        assert page.count("rw-said-user") == 21
        assert "&lt;b&gt;ana&lt;/b&gt; asks for thing number 3" in page
        assert "The turn to label" in page

    def test_of_a_text_is_as_ever(self, dataset: Dataset, one_each: QueueSettings, person: Callable[..., User]) -> None:
        read(dataset, [{"text": "hello"}])
        (lease,) = queue.take(dataset.pool, person("eve"))
        assert labeling_page.item(lease)["chat"] == []


def test_gold_of_a_turn_is_its_own(dataset: Dataset) -> None:
    read(dataset, [row | {"required_agents": [n]} for n, row in enumerate(talk("ana"))])
    assert [list(one.gold.required) for one in turns(dataset.pool)] == [[0], [1], [2]]
