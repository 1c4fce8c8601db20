"""What may be stored, and what becomes of the rest."""

import json
import math

import pytest

from training_app.engine.data import storable
from training_app.engine.data.storable import Fault

HALF = "\ud800"


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "path", "reason"),
    [
        ("a\0b", "", "holds a NUL character"),
        (f"é{HALF}", "", "holds half of a surrogate pair (\\ud800)"),
        ({"note": {"inner": ["fine", "é\0"]}}, "note.inner[1]", "holds a NUL character"),
        ({"a\0": 1}, "a\\u0000", "the key holds a NUL character"),
        ({HALF: 1}, "\\ud800", "the key holds half of a surrogate pair (\\ud800)"),
        ({"price": math.inf}, "price", "is a number that JSON cannot hold"),
        ([math.nan], "[0]", "is a number that JSON cannot hold"),
        ({"n": 10**400}, "n", "is a whole number of more than 308 digits"),
        ({"n": -(10**308)}, "n", "is a whole number of more than 308 digits"),
        (nested(65), "[0]" * 64, "is nested more than 64 deep"),
        ({1: 2}, "", "has a key that is not text: 1"),
        ({"x": {1, 2}}, "x", "is a set, which JSON does not know"),
    ],
)
def test_what_cannot_be_stored_is_named_with_its_place(value: object, path: str, reason: str) -> None:
    assert storable.fault(value) == Fault(path, reason)
    with pytest.raises(storable.Unstorable):
        storable.check(value)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "plain",
        "日本語 😀 \x01\x7f\ufffe",
        0,
        True,
        None,
        1.5e308,
        10**308 - 1,
        nested(64),
        {"": {"é": [1, "x", None, False]}},
    ],
)
def test_everything_else_can(value: object) -> None:
    assert storable.fault(value) is None
    again, faults = storable.mended(value)
    assert again is value
    assert faults == []


def test_every_fault_is_found_not_the_first_alone() -> None:
    value = {"a": "\0", "b": [HALF, {"c": math.nan}], "fine": 1}
    assert [fault.path for fault in storable.faults(value)] == ["a", "b[0]", "b[1].c"]
    assert storable.faults(value)[1].key == "b"


def test_what_is_mended_can_be_stored_and_keeps_everything_else() -> None:
    value = {
        "a\0": 1, "a\ufffd": 2, "text": f"x{HALF}y", "n": [math.inf, -math.inf, 10**400, 7], "deep": nested(66), "fine": "é",
    }  # fmt: skip
    whole, faults = storable.mended(value)
    assert storable.fault(whole) is None
    assert len(faults) == 6
    assert whole["a\ufffd 2"] == 1
    assert whole["a\ufffd"] == 2
    assert len(whole) == len(value)
    assert whole["text"] == "x\ufffdy"
    assert whole["fine"] == "é"
    assert whole["n"] == ["inf", "-inf", "a whole number of about 401 digits", 7]
    inner = whole["deep"]
    while isinstance(inner, list):
        inner = inner[0]
    assert json.loads(inner) == nested(3), "the JSON of what was too deep is kept as a text"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "-Infinity"),
        ('{"a": 1e999}', "a: is a number that JSON cannot hold"),
        ('{"a": ' + "9" * 5_000 + "}", "more than 308 digits"),
        ("[" * 100_000, "nested more than 64"),
        ('{"a": "\\u0000"}', "a: holds a NUL"),
        ('{"\\udc00": 1}', "the key holds half of a surrogate pair"),
    ],
)
def test_json_is_read_strictly(text: str, reason: str) -> None:
    with pytest.raises(storable.Unstorable) as refused:
        storable.loads(text)
    assert reason in str(refused.value)


def test_what_is_not_json_is_said_by_the_parser() -> None:
    with pytest.raises(json.JSONDecodeError):
        storable.loads("{")
    assert storable.loads('{"a": ["\\ud83d\\ude00", 1e3]}') == {"a": ["😀", 1000.0]}


def test_a_text_is_shown_with_escapes_where_it_cannot_be_sent() -> None:
    assert storable.printable(f"a\0{HALF}é") == "a\\u0000\\ud800é"
    assert storable.mended_text(f"a\0{HALF}é") == "a\ufffd\ufffdé"
