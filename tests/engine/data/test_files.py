from __future__ import annotations

import io
import json
import tracemalloc

import pytest

from training_app.engine.data.examples import Agent, DataError, Row, RowError
from training_app.engine.data.file_rows import Roster
from training_app.engine.data.files import MAX_LINE, holds_json, read_rows, write_rows
from training_app.engine.data.folders import read_folder

AGENTS = (
    Agent(0, "Billing", code="BI", key="billing"),
    Agent(2, "Tech, Support", code="TE", key="tech-support"),
    Agent(5, "Ünïcode", code="UN"),
)


def read(data: str | bytes, format: str = "jsonl") -> list[Row | RowError]:
    raw = data.encode() if isinstance(data, str) else data
    return list(read_rows(io.BytesIO(raw), format, AGENTS))


def one(values: dict) -> Row | RowError:
    (found,) = read(json.dumps(values))
    return found


class TestJsonl:
    def test_ids_names_and_codes_name_an_agent(self) -> None:
        row = one({"id": 7, "text": "x", "required_agents": [0, "tech, SUPPORT", "un"], "split": "Validation"})
        assert row == Row(1, "7", "x", frozenset({0, 2, 5}), None, "val")

    def test_a_key_names_an_agent_and_a_name_or_a_key_wins_over_what_else_is_called_so(self) -> None:
        assert one({"text": "x", "required_agents": ["Tech-Support"]}).required == {2}
        agents = [Agent(1, "Refunds", code="AB", key="un"), Agent(2, "ab", code="UN", key="refunds")]
        assert [Roster(agents).find(called, "") for called in ("refunds", "ab", "un")] == [1, 2, 1]

    def test_digits_name_an_id(self) -> None:
        assert one({"text": "x", "required_agents": ["5"]}).required == {5}

    @pytest.mark.parametrize("value", [None, "", "  "])
    def test_null_and_blank_are_unlabeled(self, value: object) -> None:
        assert one({"text": "x", "required_agents": value}).required is None

    def test_missing_is_unlabeled_and_a_list_of_nothing_is_none_of_these(self) -> None:
        assert one({"text": "x"}).required is None
        assert one({"text": "x", "required_agents": []}).required == frozenset()

    def test_other_keys_are_kept(self) -> None:
        assert one({"text": "x", "channel": "mail", "n": [1]}).extra == {"channel": "mail", "n": [1]}

    @pytest.mark.parametrize(
        ("values", "field", "reason"),
        [
            ({"text": ""}, "text", "empty"),
            ({"text": " \t"}, "text", "empty"),
            ({}, "text", "missing"),
            ({"text": 3}, "text", "must be a string"),
            ({"text": "a\0b"}, "text", "NUL"),
            ({"text": "x" * 20_001}, "text", "20,001 characters"),
            ({"text": "\ud800"}, "text", "surrogate"),
            ({"text": "x", "required_agents": [9]}, "required_agents", "unknown agent 9"),
            ({"text": "x", "required_agents": ["Nobody"]}, "required_agents", "unknown agent Nobody"),
            ({"text": "x", "required_agents": [True]}, "required_agents", "not an agent"),
            ({"text": "x", "required_agents": [0.0]}, "required_agents", "not an agent"),
            ({"text": "x", "required_agents": 0}, "required_agents", "must be a list"),
            ({"text": "x", "required_agents": "Billing"}, "required_agents", "must be a list"),
            ({"text": "x", "asked_agents": {"0": 1}}, "asked_agents", "must be a list"),
            ({"text": "x", "required_agents": [0, 2], "asked_agents": [0]}, "required_agents", "not among asked"),
            ({"text": "x", "split": "dev2"}, "split", "train, val, test"),
            ({"text": "x", "split": 1}, "split", "train, val, test"),
            ({"text": "x", "id": [1]}, "id", "string or a number"),
            ({"text": "x", "id": "y" * 201}, "id", "at most 200"),
        ],
    )
    def test_a_bad_row_names_its_field_and_reason(self, values: dict, field: str, reason: str) -> None:
        error = one(values)
        assert isinstance(error, RowError)
        assert (error.line, error.field) == (1, field)
        assert reason in error.reason

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            ("{", "not JSON"),
            ("[]", "must be a JSON object"),
            ('"x"', "must be a JSON object"),
            ('{"text": "a", "text": "b"}', "stands twice"),
            ('{"text": "a", "n": NaN}', "NaN is not JSON"),
            ("[" * 100_000, "not JSON"),
        ],
    )
    def test_what_is_no_object_is_reported(self, line: str, reason: str) -> None:
        (error,) = read(line)
        assert isinstance(error, RowError)
        assert reason in error.reason

    def test_good_rows_stand_beside_bad_ones_with_their_lines(self) -> None:
        data = b'\xef\xbb\xbf{"text": "a"}\r\n\n{"text": "\xff"}\n{"text": "b", "required_agents": [0]}'
        first, bad, last = read(data)
        assert (first.line, first.text) == (1, "a")
        assert (bad.line, bad.reason) == (3, "not UTF-8: byte 0xff at 11")
        assert (last.line, last.required) == (4, {0})

    def test_an_endless_line_takes_little_memory(self) -> None:
        class Endless(io.RawIOBase):
            left = 64 * MAX_LINE

            def readable(self) -> bool:
                return True

            def readinto(self, buffer) -> int:
                size = min(len(buffer), self.left)
                buffer[:size] = b"x" * size
                self.left -= size
                return size

        tracemalloc.start()
        (error,) = read_rows(io.BufferedReader(Endless()), "jsonl", AGENTS)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert "longer than" in error.reason
        assert peak < 8 * MAX_LINE


BAD_VALUES = {
    "NUL": '"a\\u0000b"',
    "half a surrogate pair": '"\\ud800"',
    "too large for a double": "1e999",
    "minus that": "-1e999",
    "not a number": "NaN",
    "long": "9" * 400,
    "longer than Python reads": "9" * 5_000,
    "deep": "[" * 70 + "]" * 70,
    "deeper than Python reads": "[" * 5_000 + "]" * 5_000,
    "NUL in a list": '["\\u0000"]',
    "half a pair in a key": '{"\\udfff": 1}',
    "NUL in a key's value": '{"k": {"l": "\\u0000"}}',
}


@pytest.mark.parametrize(
    "key", ["id", "text", "required_agents", "asked_agents", "split", "note", "x\\u0000", "\\ud83d"]
)
@pytest.mark.parametrize("value", BAD_VALUES.values(), ids=BAD_VALUES.keys())
def test_a_row_that_cannot_be_stored_is_named_and_takes_no_other_with_it(key: str, value: str) -> None:
    text = "" if key == "text" else '"text": "x", '
    first, bad, last = read(f'{{"text": "before"}}\n{{{text}"{key}": {value}}}\n{{"text": "after"}}\n')
    assert (first.text, last.text) == ("before", "after")
    assert isinstance(bad, RowError)
    assert bad.line == 2
    assert f"{bad.reason}{bad.field}{bad.excerpt}".isprintable()
    str(bad).encode()


def test_the_key_at_fault_is_named_down_to_its_place() -> None:
    (bad,) = read('{"text": "x", "meta": {"notes": ["fine", "\\ud800"]}}')
    assert (bad.field, bad.reason) == ("meta.notes[1]", "holds half of a surrogate pair (\\ud800)")


def test_what_is_not_json_is_a_whole_sentence() -> None:
    (bad,) = read('{"text": "a\x01"}')
    assert bad.reason == "not JSON: Invalid control character"


def test_whole_surrogate_pairs_are_text() -> None:
    (row,) = read('{"text": "\\ud83d\\ude00", "note": "\\ud83d\\ude00"}')
    assert (row.text, row.extra) == ("😀", {"note": "😀"})


class TestCsv:
    @pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@x", "\t=1", "'=1", "''+", "'quoted", "plain"])
    def test_a_formula_is_written_as_text_and_read_back_as_it_was(self, cell: str) -> None:
        stream = io.BytesIO()
        write_rows([Row(1, cell.strip(), cell)], "csv", stream)
        line = stream.getvalue().decode().split("\r\n")[1]
        assert line[0] not in "=+-@"
        stream.seek(0)
        (row,) = read_rows(stream, "csv", AGENTS)
        assert (row.id, row.text) == (cell.strip(), cell)

    def test_an_apostrophe_of_another_programs_file_stays(self) -> None:
        assert [row.text for row in read("id,text\n1,'=x\n", "csv")] == ["'=x"]

    def test_a_cell_that_cannot_be_stored_leaves_out_its_row(self) -> None:
        found = read('text,note,extra\na,\0,\nb,,"{""deep"": 1e999}"\nc,fine,\n', "csv")
        assert [(f.line, f.field) for f in found[:2]] == [(2, "note"), (3, "deep")]
        assert found[2].extra == {"note": "fine"}

    def test_lists_blank_and_none(self) -> None:
        found = read(
            'id,text,required_agents\n1,a,0;BI|un\n2,b,[]\n3,c,\n4,d,"[0, ""un""]"\n5,e,"Tech, Support"\n', "csv"
        )
        assert [row.required for row in found] == [{0, 5}, frozenset(), None, {0, 5}, {2}]

    def test_quoted_cells_span_lines(self) -> None:
        first, second = read('text,split\r\n"two\r\nlines, ""quoted""",train\r\nnext,\r\n', "csv")
        assert (first.line, first.text, first.split) == (2, 'two\r\nlines, "quoted"', "train")
        assert (second.line, second.text) == (4, "next")

    def test_semicolons_between_cells(self) -> None:
        assert [row.text for row in read("id;text\n1;a\n", "csv")] == ["a"]

    def test_a_header_without_text_is_refused(self) -> None:
        (error,) = read("id,query\n1,a\n", "csv")
        assert "column named text" in error.reason

    def test_a_column_twice_is_refused(self) -> None:
        (error,) = read("text,text\na,b\n", "csv")
        assert "stands twice" in error.reason

    def test_bad_rows_leave_the_good_ones(self) -> None:
        data = b'text,required_agents\n\xffq",0\na\nb,9\nc,"[0"\nd,0\n'
        found = read(data, "csv")
        assert [f.line for f in found] == [2, 3, 4, 5, 6]
        assert "not UTF-8" in found[0].reason
        assert "1 cells where the header has 2" in found[1].reason
        assert "unknown agent 9" in found[2].reason
        assert found[3].field == "required_agents"
        assert found[4].required == {0}

    def test_an_unclosed_quote_is_an_error_and_no_memory_hog(self) -> None:
        found = read('text\n"open\n' + "line\n" * 60_000, "csv")
        assert isinstance(found[0], RowError)
        assert found[0].line == 2


def test_text_files_hold_one_query_a_line() -> None:
    found = read("first\r\n\n  second \n\0\n", "txt")
    assert [f.text for f in found[:2]] == ["first", "  second "]
    assert "NUL" in found[2].reason


@pytest.mark.parametrize(
    ("head", "json"),
    [
        (b'{"text": "a", "required_agents": []}\n', True),
        (b'\xef\xbb\xbf\n\n  {"text": "a"}\nrest', True),
        (b'{"query": "a"}\n', False),
        (b"{not JSON}\n", False),
        (b"\xff\n", False),
        (b"plain\n", False),
        (b"", False),
    ],
)
def test_a_file_of_json_objects_is_known_by_its_first_line(head: bytes, json: bool) -> None:
    assert holds_json(head) is json


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(ValueError, match="xml"):
        read("", "xml")
    with pytest.raises(ValueError, match="xml"):
        write_rows([], "xml", io.BytesIO())


ROWS = [
    Row(
        0,
        "a",
        'quotes " and, commas;\r\nand lines\n',
        frozenset({0, 5}),
        frozenset({0, 5, 2}),
        "train",
        {"k": [1, "é"]},
    ),
    Row(0, "b", "none", frozenset(), frozenset(), "test"),
    Row(0, "c", "unlabeled =1+1 😀", None, None, ""),
    Row(0, "", "\ufeff odd   space\t", frozenset({2}), None, "val", {"source": "mail"}),
]


@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_what_is_written_reads_back_the_same(format: str) -> None:
    stream = io.BytesIO()
    assert write_rows(iter(ROWS), format, stream, AGENTS) == 4
    stream.seek(0)
    back = [
        Row(0, *[getattr(r, n) for n in ("id", "text", "required", "asked", "split", "extra")])
        for r in read_rows(stream, format, AGENTS)
    ]
    assert back == ROWS


def test_text_files_lose_line_breaks_only() -> None:
    stream = io.BytesIO()
    write_rows(ROWS[:2], "txt", stream)
    assert stream.getvalue().decode() == 'quotes " and, commas; and lines\nnone\n'


def test_writing_an_agent_outside_the_pool_is_refused() -> None:
    with pytest.raises(ValueError, match="agent 9"):
        write_rows([Row(0, "", "x", frozenset({9}))], "jsonl", io.BytesIO(), AGENTS)


class TestFolder:
    def test_files_as_they_are(self, tmp_path) -> None:
        (tmp_path / "agents.jsonl").write_text(
            '{"id": 3, "name": "B", "keywords": "x, y"}\n{"id": 1, "name": "A", "examples": " a "}\n'
        )
        (tmp_path / "train.jsonl").write_text('{"text": "a", "required_agents": [3]}\n{"text": "u"}\n')
        (tmp_path / "test.jsonl").write_text('{"id": "t", "text": "a", "required_agents": []}\n')
        folder = read_folder(tmp_path)
        assert [agent.id for agent in folder.agents] == [1, 3]
        assert folder.agents[1].keywords == ("x", "y")
        assert folder.agents[0].examples == ("a",)
        assert [(e.id, e.split) for e in folder.examples] == [("train-1", "train"), ("t", "test")]
        assert folder.unlabeled == 1

    def test_every_bad_line_is_named(self, tmp_path) -> None:
        (tmp_path / "agents.jsonl").write_text('{"id": 1, "name": "A"}\n')
        (tmp_path / "train.jsonl").write_text('{"text": ""}\n{"text": "a", "required_agents": [1]}\n{"text": 1}\n')
        with pytest.raises(DataError) as caught:
            read_folder(tmp_path)
        assert [(name, error.line) for name, error in caught.value.errors] == [("train.jsonl", 1), ("train.jsonl", 3)]
        assert "train.jsonl, line 1, text" in str(caught.value)

    @pytest.mark.parametrize(
        ("agents", "reason"),
        [
            ('{"id": 1, "name": "A"}\n{"id": 1, "name": "B"}', "line 2, id: 1 stands on line 1"),
            ('{"id": 1, "name": "A"}\n{"id": 2, "name": "a"}', "line 2, name"),
            ('{"id": -1, "name": "A"}', "whole number"),
            ('{"id": true, "name": "A"}', "whole number"),
            ('{"id": 1}', "name"),
            ('{"id": 1, "name": "A\\u0000"}', "line 1, name: holds a NUL"),
            ('{"id": 1, "name": "A", "keywords": ["\\ud800"]}', r"line 1, keywords\[0\]: holds half"),
            ('{"id": 1, "name": "A", "cost": 1e999}', "line 1, cost: is a number that JSON cannot hold"),
            ('{"id": 1, "name": "A", "cost": ' + "9" * 400 + "}", "line 1, cost: is a whole number of more"),
            ('{"id": 1, "name": "A", "cost": -1}', "line 1, cost: must be a number from 0"),
            ('{"id": 1, "name": "A", "note": "\\u0000"}', "line 1, note: holds a NUL"),
            ('{"id": 1, "name": "A", "keywords": ["x", 1]}', "line 1, keywords: must be a list of texts"),
            ('{"id": 1, "name": "A", "examples": {"a": "b"}}', "line 1, examples: must be a list of texts"),
            pytest.param(
                '{"id": 1, "name": "A", "examples": ["' + "x" * 20_001 + '"]}', "of at most 20,000", id="a long example"
            ),
            ("", "contains no agent"),
        ],
    )
    def test_bad_agents(self, tmp_path, agents: str, reason: str) -> None:
        (tmp_path / "agents.jsonl").write_text(agents)
        with pytest.raises(DataError, match=reason):
            read_folder(tmp_path)

    def test_a_missing_file_is_named(self, tmp_path) -> None:
        with pytest.raises(DataError, match=r"agents\.jsonl does not exist"):
            read_folder(tmp_path)
