"""Texts in languages that a model was not trained in: told, read by the encoder, and never answered with a sure "nobody"."""

import json

import numpy as np
import pytest

from training_app.engine.data.examples import Agent
from training_app.engine.data.rows import Rows
from training_app.engine.reading import sentences
from training_app.engine.reading.unfamiliar import Unfamiliar

AGENTS = (
    Agent(0, "Cards", "Debit and credit cards: ordering, blocking, limits, PIN"),
    Agent(1, "Loans", "Mortgages and consumer loans: rates, applications, early repayment"),
)
OBJECTS = ("card", "credit card", "bank card", "debit card", "mortgage", "loan", "car loan", "house loan")
TEXTS = [
    f"{opening} my {thing}{end}"
    for opening in (
        "please block",
        "what is the limit of",
        "I have a question about",
        "tell me more about the rates of",
    )
    for thing in OBJECTS
    for end in ("", " today", ", thank you")
]


def rows() -> Rows:
    required = np.array([["card" in text, "loan" in text or "mortgage" in text] for text in TEXTS])
    return Rows(TEXTS, required, np.ones_like(required))


def fitted(meaning: bool = True) -> Unfamiliar:
    found = Unfamiliar.fit(rows(), AGENTS, meaning=meaning, seed=0)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "strange"),
    [
        ("please block my card today", False),
        ("is there a limit on the card of my wife", False),
        ("wann wird meine Kreditkarte wieder freigeschaltet", True),
        ("Сколько стоит кредит на дом?", True),
        ("我的银行卡丢了", True),
        ("12345 !?", False),
        ("", False),
    ],
)
def test_a_text_is_strange_where_its_language_is(text: str, strange: bool) -> None:
    assert fitted().strange(text) is strange


def test_what_the_encoder_cannot_read_is_not_readable() -> None:
    assert fitted().readable("我的银行卡丢了")
    assert not fitted().readable("मेरा कार्ड खो गया")
    assert not fitted(meaning=False).readable("我的银行卡丢了")


def test_it_comes_back_from_its_parts_as_it_was() -> None:
    unfamiliar = fitted()
    again = Unfamiliar.from_parts(json.loads(json.dumps(unfamiliar.config())), unfamiliar.tensors())
    for text in (*TEXTS[:5], "я потерял карту", "Kreditkarte sperren"):
        assert again.strange(text) == unfamiliar.strange(text)
    near = unfamiliar.descriptions.logits(["я потерял карту"])
    assert again.descriptions.logits(["я потерял карту"]) == pytest.approx(near, abs=2e-2)
    with pytest.raises(KeyError):
        Unfamiliar.from_parts({}, {})


def test_where_the_encoder_is_not_installed_a_strange_text_is_not_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fitted()
    config, tensors = before.config(), before.tensors()
    assert before.readable("我的银行卡丢了")
    monkeypatch.setattr(sentences, "installed", lambda: False)
    again = Unfamiliar.from_parts(config, tensors)
    assert again.strange("我的银行卡丢了")
    assert not again.readable("我的银行卡丢了")
