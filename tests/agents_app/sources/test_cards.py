"""Agent cards: both versions, what is cut and cleaned, and signatures that the official library made."""

import json
from typing import Any

import jwt
import pytest
from a2a.types import AgentCard
from a2a.utils.signing import create_agent_card_signer
from cryptography.hazmat.primitives.asymmetric import ec
from google.protobuf.json_format import MessageToDict, ParseDict

from agents_app.sources import cards, described
from agents_app.sources.described import SourceError

pytestmark = pytest.mark.any_database
CARD: dict[str, Any] = {
    "name": "Travel agent",
    "description": "Books trips.",
    "version": "1",
    "supportedInterfaces": [{"url": "https://travel.example.com", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "capabilities": {"streaming": False},
    "defaultInputModes": ["text/plain"],
    "skills": [
        {
            "id": "book", "name": "Book", "description": "Flights & hotels", "tags": ["flights", "hotels", "flights"],
            "examples": ["A flight to Oslo", "Ein Zimmer in Köln"],
        }
    ],
}  # fmt: skip
OLD = {
    "protocolVersion": "0.3.0", "name": "Travel agent", "description": "Books trips.", "url": "https://travel.example.com",
    "preferredTransport": "JSONRPC", "version": "1", "skills": CARD["skills"],
}  # fmt: skip
KEY = ec.generate_private_key(ec.SECP256R1())


def keys_at(key: ec.EllipticCurvePrivateKey, kid: str = "k1") -> bytes:
    public = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
    return json.dumps({"keys": [{**public, "kid": kid, "alg": "ES256"}]}).encode()


def signed(
    card: dict[str, Any], key: ec.EllipticCurvePrivateKey = KEY, jku: str = "https://travel.example.com/keys"
) -> dict[str, Any]:
    sign = create_agent_card_signer(key, {"alg": "ES256", "kid": "k1", "jku": jku, "typ": "JOSE"})
    return MessageToDict(sign(ParseDict(card, AgentCard())))


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key that cards are signed with stands where they say."""
    monkeypatch.setattr(described, "fetched", lambda url: keys_at(KEY))


@pytest.mark.parametrize("card", [CARD, OLD])
def test_skills_tags_and_examples_become_an_agent(card: dict[str, Any]) -> None:
    said = cards.read(card)
    assert said.name == "Travel agent"
    assert said.description == "Books trips.\nBook: Flights & hotels"
    assert said.keywords == ("flights", "hotels")
    assert said.examples == ("A flight to Oslo", "Ein Zimmer in Köln")
    assert (said.signature, said.signer) == ("none", "")


@pytest.mark.at_length
def test_hostile_text_is_cut_and_what_cannot_be_seen_goes() -> None:
    hidden = "Pay\u202eroll\x00\x1b[31m \U000e0041\ud800ok\u200b"
    skills = [
        {
            "name": hidden,
            "description": "x" * 9_999,
            "tags": [hidden, 3, None, "y" * 999],
            "examples": [{}, "z" * 9_999],
        }
    ]
    said = cards.read({"name": hidden * 50, "description": "a\n\n\nb", "skills": skills * 400})
    assert said.name.startswith("Payroll[31m ok")
    assert len(said.name) <= described.NAME
    assert len(said.description) <= described.DESCRIPTION
    assert said.keywords == ("Payroll[31m ok", "y" * described.KEYWORD)
    assert said.examples == ("z" * described.EXAMPLE,)


@pytest.mark.parametrize("card", [[], "x", None, {}, {"name": " "}, {"name": 3}, {"name": "x", "skills": {}}])
def test_what_is_no_card_is_refused(card: Any) -> None:
    with pytest.raises(SourceError):
        cards.read(card)


@pytest.mark.usefixtures("published")
def test_a_signature_of_the_official_library_holds() -> None:
    said = cards.read(signed(CARD))
    assert (said.signature, said.signer) == ("valid", "k1, travel.example.com")


@pytest.mark.usefixtures("published")
def test_a_card_that_was_changed_after_it_was_signed_is_refused() -> None:
    with pytest.raises(SourceError, match="is invalid"):
        cards.read({**signed(CARD), "description": "Sends me your money."})
    with pytest.raises(SourceError, match="is invalid"):
        cards.read(signed(CARD, ec.generate_private_key(ec.SECP256R1())))


def test_a_key_that_cannot_be_had_leaves_the_signature_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(_url: str) -> bytes:
        raise SourceError("away")

    monkeypatch.setattr(described, "fetched", away)
    assert cards.read(signed(CARD)).signature == "unknown"
    monkeypatch.setattr(described, "fetched", lambda url: keys_at(KEY, "other"))
    assert cards.read(signed(CARD)).signature == "unknown"
    monkeypatch.setattr(described, "fetched", lambda url: b"[]")
    assert cards.read(signed(CARD)).signature == "unknown"
    assert cards.read(signed(CARD, jku="http://travel.example.com/keys")).signature == "unknown"


def test_no_algorithm_of_the_cards_own_choice(published: None) -> None:
    """`none`, and a key that anybody may read taken for a shared secret."""
    for algorithm in ("none", "HS256"):
        header = json.dumps({"alg": algorithm, "kid": "k1", "jku": "https://travel.example.com/keys"}).encode()
        forged = {"protected": jwt.utils.base64url_encode(header).decode(), "signature": ""}
        with pytest.raises(SourceError, match="is invalid"):
            cards.read({**CARD, "signatures": [forged]})


def test_the_canonical_form_is_that_of_rfc_8785() -> None:
    assert cards.canonical(
        {"\u20ac": 1, "\r": 2.0, "1": [True, None, 0.5], "\U0001f600": "\u2028", "\ufb33": "\n"}
    ) == ('{"\\r":2,"1":[true,null,0.5],"€":1,"\U0001f600":"\u2028","\ufb33":"\\n"}')
