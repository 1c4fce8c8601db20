"""Turns of conversations: what they are, when two are the same, and how they go in and out of files."""

import copy
import io
import json

import pytest

from training_app.engine.data import conversations
from training_app.engine.data.conversations import BadConversation, Bounds, Message, Turn, checked, text_of
from training_app.engine.data.examples import Agent, Example, Row, RowError, group_key, keys_of, split_key
from training_app.engine.data.files import read_rows, write_rows

AGENTS = (Agent(3, "Tables", code="TA"), Agent(5, "Trains", code="TR"))
BOUNDS = Bounds(messages=4, characters=200, last=50)
TALK: list[dict[str, object]] = [
    {"role": "user", "content": "A table for two"},
    {"role": "assistant", "content": "Nopa at seven?", "agents": [3]},
    {"role": "user", "content": "Yes, thanks"},
]


def turn(*said: str, last: str = "Yes, thanks") -> str:
    roles = ("user", "assistant")
    return text_of(last, [Message(roles[i % 2], text) for i, text in enumerate(said)])


def test_what_the_user_said_before_is_read_of_stored_messages() -> None:
    assert conversations.said_before(TALK[:2]) == "A table for two"
    assert conversations.said_before(TALK[1:2]) == ""
    assert conversations.said_before(None) == ""


class TestATurn:
    def test_is_its_text_and_knows_what_was_said_before(self) -> None:
        found = turn("A table for two", "At seven?")
        assert found.upper() == "YES, THANKS"
        assert type(str(found)) is str
        assert [m.content for m in conversations.before(found)] == ["A table for two", "At seven?"]

    def test_of_nothing_before_is_a_plain_text(self) -> None:
        assert type(text_of("hello", ())) is str
        assert conversations.before("hello") == ()

    def test_is_the_same_where_everything_said_is(self) -> None:
        one, other = turn("A table"), turn("A train")
        assert one == turn("A table")
        assert hash(one) == hash(turn("A table"))
        assert one != other
        assert one != "Yes, thanks"
        assert one != "Yes, thanks"
        assert len({one, turn("A table"), other, "Yes, thanks"}) == 3

    def test_survives_copying_and_json(self) -> None:
        found = checked(TALK, BOUNDS)
        assert copy.deepcopy(found) == found
        assert conversations.from_json(str(found), conversations.earlier_as_json(found)) == found
        assert conversations.as_json(found) == TALK


class TestChecking:
    def test_takes_ids_of_agents_that_answered(self) -> None:
        found = conversations.before(checked(TALK, BOUNDS))
        assert [m.agents for m in found] == [(), (3,)]

    def test_leaves_out_the_oldest_beyond_the_bound_and_says_how_many(self) -> None:
        found = checked([*TALK[:2], *TALK], BOUNDS)
        assert conversations.left_out(found) == 1
        assert next(m.content for m in conversations.before(found)) == "Nopa at seven?"
        assert conversations.opening(found) == "A table for two"
        assert conversations.left_out(copy.deepcopy(found)) == 1

    def test_drops_answers_without_words(self) -> None:
        quiet = [TALK[0], {"role": "assistant", "content": None}, {"role": "tool", "content": " "}, TALK[2]]
        assert len(conversations.before(checked(quiet, BOUNDS))) == 1

    @pytest.mark.parametrize(
        ("messages", "path", "code"),
        [
            ("hello", "messages", "invalid"),
            ([], "messages", "blank"),
            (["hello"], "messages[0]", "invalid"),
            ([{"role": "bot", "content": "x"}], "messages[0].role", "invalid"),
            ([{"role": "user"}], "messages[0].content", "missing"),
            ([{"role": "user", "content": 3}], "messages[0].content", "invalid"),
            ([{"role": "user", "content": " "}], "messages[0].content", "blank"),
            ([{"role": "user", "content": "a\0"}], "messages[0].content", "invalid"),
            ([{"role": "user", "content": "\ud800"}], "messages[0].content", "invalid"),
            ([{"role": "user", "content": "x" * 51}], "messages[0].content", "too_long"),
            ([{"role": "user", "content": "x" * 190}, {"role": "user", "content": "y" * 40}], "messages", "too_long"),
            (TALK[:2], "messages[1].role", "invalid"),
            ([{"role": "user", "content": "x", "agents": [3]}], "messages[0].agents", "invalid"),
            ([{"role": "tool", "content": "x", "agents": ["3"]}, TALK[2]], "messages[0].agents[0]", "invalid"),
            ([{"role": "tool", "content": "x", "agents": 3}, TALK[2]], "messages[0].agents", "invalid"),
        ],
    )
    def test_names_what_is_wrong_and_where(self, messages: object, path: str, code: str) -> None:
        with pytest.raises(BadConversation) as caught:
            checked(messages, BOUNDS)
        assert (caught.value.path, caught.value.code) == (path, code)


class TestTheSame:
    def test_turns_that_read_the_same(self) -> None:
        assert keys_of(turn("A  TABLE")) == keys_of(turn("a table"))
        assert keys_of(turn("A table"))[0] != keys_of(turn("A train"))[0]
        assert keys_of(turn("A table"))[0] != keys_of("Yes, thanks")[0]

    def test_who_said_it_counts_and_which_agents_answered_does_not(self) -> None:
        said = Turn("Yes", [Message("assistant", "Shall I?")])
        assert keys_of(said)[0] != keys_of(Turn("Yes", [Message("tool", "Shall I?")]))[0]
        assert keys_of(said)[0] == keys_of(Turn("Yes", [Message("assistant", "Shall I?", (3,))]))[0]

    def test_one_split_for_a_conversation_by_its_id_or_by_how_it_opens(self) -> None:
        assert split_key(turn("A table!")) == split_key("a table") == group_key("a table")
        by_id = [Example("", text, frozenset(), group="c1").fold_key for text in ("A table", turn("A train"))]
        assert by_id[0] == by_id[1] != Example("", "A table", frozenset(), group="c2").fold_key

    def test_a_text_is_grouped_as_ever(self) -> None:
        assert Example("", "Hello, you!", frozenset()).fold_key == group_key("hello you") == "helloyou"


def read(lines: str, format: str = "jsonl") -> list[Row | RowError]:
    return list(read_rows(io.BytesIO(lines.encode()), format, AGENTS))


class TestFiles:
    def test_a_row_has_messages(self) -> None:
        named = [TALK[0], TALK[1] | {"agents": ["tables"]}, TALK[2]]
        (row,) = read(json.dumps({"id": "1", "messages": named, "group": "c", "required_agents": [3], "note": 1}))
        assert isinstance(row, Row)
        assert row.text == checked(TALK, BOUNDS)
        assert (row.conversation, row.extra) == ("c", {"note": 1})

    def test_a_group_of_a_plain_text_stays_another_key(self) -> None:
        (row,) = read('{"text": "hello", "group": "c"}')
        assert isinstance(row, Row)
        assert (row.conversation, row.extra) == ("", {"group": "c"})

    @pytest.mark.parametrize("format", ["jsonl", "csv"])
    def test_what_is_written_is_read_again(self, format: str) -> None:
        rows = [
            Row(1, "a", checked(TALK, BOUNDS), frozenset({3}), frozenset({3, 5}), "train", {"k": "v"}, "c"),
            Row(2, "b", "A table for two", frozenset(), None, "train", {}, "c"),
            Row(3, "c", "hello", None, None, "", {}),
        ]
        piece = io.BytesIO()
        write_rows(rows, format, piece, AGENTS)
        again = read(piece.getvalue().decode(), format)
        for row, found in zip(rows, again, strict=True):
            assert isinstance(found, Row)
            assert (found.id, found.text, found.required, found.split) == (row.id, row.text, row.required, row.split)
            assert (found.extra, found.conversation) == (row.extra, row.conversation)

    def test_csv_has_a_column_of_json(self) -> None:
        cell = json.dumps(TALK).replace('"', '""')
        (row,) = read(f'messages,required_agents\n"{cell}",TA\n', "csv")
        assert isinstance(row, Row)
        assert (row.text, row.required) == (checked(TALK, BOUNDS), frozenset({3}))

    @pytest.mark.parametrize(
        ("values", "field"),
        [
            ({"messages": "x"}, "messages"),
            ({"messages": [{"role": "tool", "content": "x", "agents": ["Nobody"]}, TALK[2]]}, "messages[0].agents[0]"),
            ({"messages": TALK, "text": "No"}, "text"),
            ({"messages": TALK, "conversation_id": [1]}, "conversation_id"),
        ],
    )
    def test_a_bad_row_says_where(self, values: object, field: str) -> None:
        bad, good = read(json.dumps(values) + '\n{"text": "hello"}\n')
        assert isinstance(bad, RowError)
        assert bad.field == field
        assert isinstance(good, Row)
