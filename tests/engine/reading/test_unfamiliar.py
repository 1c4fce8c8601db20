"""Texts in languages that a model was not trained in: told, read by the encoder, and never answered with a sure "nobody"."""

import json

import numpy as np
import pytest

from training_app.engine.data.examples import Agent
from training_app.engine.data.rows import Rows
from training_app.engine.reading import sentences
from training_app.engine.reading.descriptions import Descriptions, Labeled
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


def test_a_model_from_before_the_words_that_languages_share_reads_as_it_did() -> None:
    unfamiliar = fitted()
    config = {name: value for name, value in unfamiliar.config().items() if name != "shared_words"}
    before = Unfamiliar.from_parts(config, unfamiliar.tensors())
    text = "mortgage in brick house"  # "in" alone was taken for Italian
    assert (unfamiliar.strange(text), before.strange(text)) == (False, True)
    assert not Unfamiliar.from_parts(before.config(), before.tensors()).shared_words


def test_where_the_encoder_is_not_installed_a_strange_text_is_not_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fitted()
    config, tensors = before.config(), before.tensors()
    assert before.readable("我的银行卡丢了")
    monkeypatch.setattr(sentences, "installed", lambda: False)
    again = Unfamiliar.from_parts(config, tensors)
    assert again.strange("我的银行卡丢了")
    assert not again.readable("我的银行卡丢了")


def test_labeled_queries_say_in_every_language_whom_a_text_needs() -> None:
    """No description says that loans are for houses; the labels do."""
    made = fitted().descriptions
    assert made.labeled is not None
    assert made.labeled.trusted.all()
    texts = ["Was kostet ein Kredit für ein Haus?", "Заблокируйте мою карту"]
    vectors = sentences.embed(texts)
    own = [made.labeled.beside(np.zeros(2, np.float32), vector) for vector in vectors]
    assert own[0][1] > own[0][0]
    assert own[1][0] > own[1][1]
    few = Unfamiliar.fit(rows().take(np.arange(8)), AGENTS, meaning=True, seed=0)
    assert few is not None
    assert few.descriptions.labeled is not None
    assert not few.descriptions.labeled.trusted.any()
    alone = Descriptions(AGENTS, meaning=True, examples=few.descriptions.examples, nobody=few.descriptions.nobody)
    assert np.array_equal(few.descriptions.logits(texts), alone.logits(texts))


def test_what_a_row_says_of_itself_is_left_out() -> None:
    """Labels by the toss of a coin: predictions of rows that were not left out would find them again."""
    rng = np.random.default_rng(0)
    coin = rng.random((len(TEXTS), 2)) < 0.5
    found = Labeled.fit(TEXTS, coin, np.ones_like(coin))
    own = np.stack([found.beside(np.zeros(2, np.float32), vector) for vector in sentences.embed(TEXTS)])
    assert np.abs(own).max() < 1
