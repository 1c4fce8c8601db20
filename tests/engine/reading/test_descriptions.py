"""Routing by descriptions alone: any language, joined needs, conversations, and texts that nobody is for."""

import itertools
import json

import numpy as np
import pytest

from training_app.engine.data.conversations import Message, Turn
from training_app.engine.data.examples import Agent
from training_app.engine.reading.conversing.said import phrases
from training_app.engine.reading.descriptions import FEATURES, TURN, Descriptions, clauses_of, says_something, weighed
from training_app.engine.routing.router import Router

POOL = (
    Agent(4, "Cards", "Debit and credit cards: ordering, blocking, limits, PIN", keywords=("credit card",)),
    Agent(7, "Loans", "Mortgages and consumer loans: rates, applications, early repayment"),
    Agent(9, "Fraud", "Suspicious payments, phishing, identity theft"),
)


@pytest.mark.parametrize("meaning", [True, False])
def test_the_agent_that_a_text_describes_is_the_likeliest(meaning: bool) -> None:
    scorer = Descriptions(POOL, meaning=meaning)
    found = scorer.logits(["block my credit card", "rates of mortgages", ""])
    assert found.shape == (3, 3)
    assert found[:2].argmax(axis=1).tolist() == [0, 1]
    assert np.isfinite(found).all()


@pytest.mark.parametrize("text", ["Bitte sperren Sie meine Kreditkarte", "заблокируйте мою карту", "我的银行卡丢了"])
def test_it_reads_languages_that_no_description_is_in(text: str) -> None:
    route = Router.of_descriptions(Descriptions(POOL, meaning=True)).route(text)
    assert route.agents == (4,)
    assert not route.abstained


@pytest.mark.parametrize("text", ["good morning", "Wer hat die Mona Lisa gemalt?", "tell me a story about a fox"])
def test_a_text_that_nobody_is_for_gets_nobody(text: str) -> None:
    assert Router.of_descriptions(Descriptions(POOL, meaning=True)).route(text).agents == ()


def test_an_earlier_turn_carries_over() -> None:
    scorer = Descriptions(POOL, meaning=True)
    said = [Message("user", "I would like a mortgage for a house"), Message("assistant", "How much do you need?")]
    alone, later = scorer.logits(["about 200,000 please", Turn("about 200,000 please", said)])
    assert later[1] > alone[1]
    assert later.argmax() == 1


@pytest.mark.parametrize("meaning", [True, False])
def test_the_words_that_count_are_those_without_which_an_agent_is_less_likely(meaning: bool) -> None:
    scorer = Descriptions(POOL, meaning=meaning)
    cards, loans, _fraud = scorer.explain("please block my credit card today", top=3)
    assert cards[0][0] in ("credit", "card")
    assert cards[0][1] > 0
    assert all(abs(a[1]) >= abs(b[1]) for a, b in itertools.pairwise(cards))
    full, without = scorer.logits(["block my loan now", "block my  now"])
    assert dict(scorer.explain("block my loan now")[1])["loan"] == pytest.approx(full[1] - without[1], abs=1e-5)
    assert len(loans) <= 3


@pytest.mark.parametrize("text", ["", "card", "我的银行卡丢了", "block my card " * 100])
def test_what_is_read_as_a_whole_only_names_no_words(text: str) -> None:
    assert Descriptions(POOL, meaning=True).explain(text) == [[], [], []]


def test_words_count_within_their_conversation() -> None:
    said = [Message("user", "I would like a mortgage for a house")]
    scorer = Descriptions(POOL, meaning=True)
    turn, without = Turn("yes please today", said), Turn("yes please ", said)
    expected = scorer.logits([turn])[0] - scorer.logits([without])[0]
    named = dict(scorer.explain(turn)[1])
    assert named["today"] == pytest.approx(expected[1], abs=1e-5)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("ログインできないのと、荷物が届かない", ["ログインできないのと", "荷物が届かない"]),
        ("환불해 주세요 그리고 주소를 바꿔 주세요", ["환불해 주세요", "주소를 바꿔 주세요"]),
        ("ลืมรหัสผ่านและพัสดุยังไม่มา", ["ลืมรหัสผ่าน", "พัสดุยังไม่มา"]),
        ("पासवर्ड भूल गया और पार्सल नहीं आया", ["पासवर्ड भूल गया", "पार्सल नहीं आया"]),
        ("نسيت كلمة المرور، ولم يصل الطرد", ["نسيت كلمة المرور", "ولم يصل الطرد"]),
        ("कंगन औरत के लिए", []),
    ],
)
def test_clauses_are_told_apart_by_what_joins_them_in_each_language(text: str, parts: list[str]) -> None:
    assert clauses_of(text) == parts


@pytest.mark.parametrize("description", ["請求書、二重請求。領収書", "فواتير، استرداد؛ إيصال", "बिल। रिफ़ंड। रसीद"])
def test_a_description_is_read_by_phrases_in_each_script(description: str) -> None:
    said = phrases(Agent(0, "Billing", description, (), "BI"))
    assert len(said) == 5, "its name, three phrases, and all of it"


def test_clauses_are_parted_at_signs_and_conjunctions_of_several_languages() -> None:
    assert clauses_of("block my card and tell me the rates of loans") == ["block my card", "tell me the rates of loans"]
    assert clauses_of("sperren Sie die Karte und erklären Sie mir den Kredit") == [
        "sperren Sie die Karte", "erklären Sie mir den Kredit",
    ]  # fmt: skip
    assert clauses_of("我的银行卡丢了,贷款利率是多少") == ["我的银行卡丢了", "贷款利率是多少"]
    assert clauses_of("hi, and bye") == []


def test_it_comes_back_from_its_tensors_as_it_was() -> None:
    scorer = Descriptions(POOL, meaning=True, examples={9: ["I did not make this payment"]}, nobody=["what a day"])
    config = json.loads(json.dumps(scorer.config()))
    again = Descriptions.from_tensors(config, scorer.tensors())
    texts = ["there is a debit that I do not know", "block my card"]
    assert again.logits(texts) == pytest.approx(scorer.logits(texts), abs=2e-2)  # vectors are stored in 16 bits
    with pytest.raises(ValueError, match="lack"):
        Descriptions.from_tensors({}, {})


def test_one_agent_and_a_pool_without_words_have_log_odds_too() -> None:
    assert Descriptions(POOL[:1], meaning=False).logits(["block my card"]).shape == (1, 1)
    assert np.isfinite(Descriptions((Agent(0, "…"),), meaning=True).logits(["hello there"])).all()


def test_what_was_learnt_has_a_weight_for_every_feature() -> None:
    plain, turn = Descriptions(POOL, meaning=True).weights
    assert len(plain) == len(turn) == len(FEATURES)
    assert (plain != turn).any()
    assert (Descriptions(POOL, meaning=True, beside_model=True).weights == plain).all()


def test_a_later_turn_is_weighed_by_what_was_learnt_of_turns() -> None:
    plain, turn = np.arange(len(FEATURES), dtype=np.float64) / 100, np.ones(len(FEATURES)) / 100
    rows = np.ones((2, len(FEATURES)), np.float32)
    assert weighed(rows, plain, turn) == pytest.approx(rows @ turn)
    rows[:, TURN] = 0
    assert weighed(rows, plain, turn) == pytest.approx(rows @ plain)
    assert weighed(rows[:0], plain, turn).shape == (0,)


@pytest.mark.parametrize(
    ("meaning", "text"), [(True, "🙂"), (True, "???"), (True, "x"), (False, "🙂"), (False, "bonjour")]
)
def test_a_text_in_which_nothing_is_read_is_not_for_everybody_however_large_the_pool(meaning: bool, text: str) -> None:
    words = ("flights", "bags", "refunds", "miles", "visas", "meals", "seats", "gates", "fares", "pets")
    agents = [Agent(i, f"{words[i % 10]} {i // 10}", f"All about {words[i % 10]}") for i in range(40)]
    router = Router.of_descriptions(Descriptions(agents, meaning=meaning))
    route = router.route(text)
    assert route.agents == ()
    # Nobody is the likeliest set, and not certain.
    assert route.confidence < 0.97
    assert sum(route.scores.values()) <= 0.51


#: Texts that say nothing of what they are about: numbers of things, addresses, names, and no language at all.
MEANINGLESS = (
    "12345", "99.99", "2024-11-28", "0049 171 5551234", "4711-0815-AB", "ORD-12345", "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "anna.schmidt@example.com", "https://example.com/a/b?c=d", "Anna Schmidt", "lorem ipsum dolor sit amet", "qwertz uiop",
    "TG9yZW0gaXBzdW0gZG9sb3Igc2l0IGFtZXQ=", "null", "...",
)  # fmt: skip


@pytest.mark.parametrize("size", [5, 10, 30, 100])
@pytest.mark.parametrize("kind", ["words", "meaning", "examples"])
def test_a_text_that_says_nothing_of_any_agent_names_hardly_one_however_large_the_pool(kind: str, size: int) -> None:
    things = ("flights", "bags", "refunds", "miles", "visas", "meals", "seats", "gates", "fares", "pets")
    doings = ("book", "change", "lose", "pay", "ask", "rebook", "plan", "cancel", "find", "sell")
    pairs = [(thing, doing) for doing in doings for thing in things][:size]
    agents = [Agent(i, f"{doing} {thing}", f"{doing} {thing} for guests") for i, (thing, doing) in enumerate(pairs)]
    examples = {agent.id: [f"I need help with {agent.name}"] for agent in agents} if kind == "examples" else None
    router = Router.of_descriptions(Descriptions(agents, meaning=kind != "words", examples=examples))
    named = {text: len(router.route(text).agents) for text in MEANINGLESS}
    assert max(named.values()) <= 5, named
    # Numbers and addresses have no meaning that could be like an agent's.
    assert not any(named[text] for text in MEANINGLESS[:9]), named
    route = router.route(f"{agents[0].description}, please")
    assert route.agents[:1] == (0,)


@pytest.mark.parametrize(
    ("text", "says"),
    [("5G plans", True), ("12345", False), ("Ann@x.example,", False), ("ORD-12345 4711", False), ("ORD-12345", False),
     ("order ORD-12345", True), ("B2B", False),
     ("订单12345", True), ("@Billing", True), ("it's 99", True), ("a b", False), ("", False)],
)  # fmt: skip
def test_what_names_things_alone_says_nothing(text: str, says: bool) -> None:
    assert says_something(text) is says
