"""What is taken out of texts, what stays, and that no pattern can hang whoever stores a text."""

import time

import pytest

from agents_app.redaction import KINDS, BadPattern, Redactor, compiled
from training_app.engine.data.conversations import Message, Turn, before

ALL = Redactor(list(KINDS), [])


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("mail bob.o'neil+x@mail.example.co.uk now", "mail [e-mail] now"),
        ("mail Боб@пример.рф please", "mail [e-mail] please"),
        ("bob@bücher.example, thanks", "[e-mail], thanks"),
        ("call +49 30 901820 or (030) 90 18-20", "call [phone] or [phone]"),
        ("since 555-123-4567 x", "since 555-123-4567 x"),
        ("call 415-555-2671 x", "call [phone] x"),
        ("call 0049 170 1234567", "call [phone]"),
        ("my order 20231245 of 12.10.2026, 1,250.00", "my order 20231245 of 12.10.2026, 1,250.00"),
        ("card 4111 1111 1111 1111 expired", "card [card] expired"),
        ("card 4111-1111-1111-1112 expired", "card 4111-1111-1111-1112 expired"),
        ("5500005555555559", "[card]"),
        ("pay to DE89 3704 0044 0532 0130 00 and wait", "pay to [IBAN] and wait"),
        ("pay to de89370400440532013000.", "pay to [IBAN]."),
        ("GB82WEST12345698765432", "[IBAN]"),
        ("DE88370400440532013000", "DE88370400440532013000"),
        ("AB12 DE89 3704 0044 0532 0130 00 DE89370400440532013000", "AB12 [IBAN] [IBAN]"),
        ("", ""),
    ],
)
def test_what_goes_and_what_stays(text: str, stored: str) -> None:
    assert ALL.text(text) == stored
    assert ALL.text(stored) == stored


def test_only_the_chosen_kinds_and_own_patterns() -> None:
    own = Redactor(["e-mail"], [("customer", r"\bK-\d{6}\b")])
    assert own.text("K-123456 bob@x.example +49 30 901820") == "[customer] [e-mail] +49 30 901820"


def test_a_conversation_is_redacted_turn_by_turn() -> None:
    turn = Turn("it is a@b.example", [Message("user", "call +49 30 901820", (2,))], 3, "a@b.example?")
    stored = ALL.conversation(turn)
    assert str(stored) == "it is [e-mail]"
    assert before(stored) == (Message("user", "call [phone]", (2,)),)
    assert (stored.left_out, stored.opening) == (3, "[e-mail]?")  # type: ignore[attr-defined]


def test_values_of_json() -> None:
    assert ALL.value({"from": ["a@b.example", 3, None]}) == {"from": ["[e-mail]", 3, None]}


@pytest.mark.parametrize("pattern", ["(", "(?=x)", r"(a)\1", "a*", "", "x" * 501, "(?:(?:a{1000}){1000}){1000}"])
def test_what_is_no_pattern(pattern: str) -> None:
    with pytest.raises(BadPattern):
        compiled(pattern)


def test_a_pattern_that_would_hang_others_does_not_here() -> None:
    """Steps of a backtracking engine double with each letter: 40 of them would take it years, 20,000 for ever."""
    slow = Redactor(list(KINDS), [("a", "(a+)+b"), ("b", "(a|aa)+c"), ("c", "(.*a){20}d")])
    began = time.process_time()
    for text in ("a" * 20_000, "a@" * 10_000, "1-" * 10_000, "DE89 " * 4_000, "+1 " * 6_000):
        assert slow.text(text)
    assert time.process_time() - began < 30
