"""Agent cards of A2A, versions 1.0 and 0.3: what of a card becomes an agent, and whether its signature holds.

A signature (JWS, RFC 7515) is over the card in its canonical form (JCS, RFC 8785) without its signatures. The key is looked up where
the signature says (`jku`), so it tells who controls that address, and nothing else: the page names it.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from django.utils.translation import gettext as _

from agents_app.sources import described
from agents_app.sources.described import Described, SourceError

PLACES = ("/.well-known/agent-card.json", "/.well-known/agent.json")
ALGORITHMS = ["ES256", "ES384", "RS256", "PS256", "EdDSA"]
MOST_SIGNATURES = 5
DEPTH = 40
#: Versions of A2A that are spoken here, the newest first.
VERSIONS = ("1.0", "0.3")
LONGEST_ADDRESS = 500


def at(address: str) -> Described:
    """The card at an address: a card's own, or that of a server which has it in its known place. Raises SourceError."""
    if urlsplit(address).path.endswith(".json"):
        return read(described.as_object(described.fetched(address)))
    for place in PLACES:
        try:
            raw = described.fetched(address.rstrip("/") + place)
        except SourceError as error:
            problem = error
        else:
            return read(described.as_object(raw))
    raise problem


def read(card: Any) -> Described:
    """A card as the agent it describes. Raises SourceError for what is no card, or one whose signature does not hold."""
    description = described_by(card)
    signature, signer = checked(card)
    return replace(description, signature=signature, signer=signer)


def described_by(card: Any) -> Described:
    """The same of a card that somebody vouches for who pastes it: its signatures are not looked at. Raises SourceError."""
    if not isinstance(card, dict) or not isinstance(card.get("skills", []), list):
        raise SourceError(_("This is not an agent card: it must be an object with skills."))
    name = described.line(card.get("name"), described.NAME)
    if not name:
        raise SourceError(_("The card has no name."))
    skills = [skill for skill in card.get("skills", ())[: described.PARTS] if isinstance(skill, dict)]
    parts = [described.lines(card.get("description"), described.DESCRIPTION)]
    tags: list[Any] = []
    examples: list[Any] = []
    for skill in skills:
        title = described.line(skill.get("name"), described.NAME)
        skill_text = described.line(skill.get("description"), 500)
        parts.append(f"{title}: {skill_text}" if title and skill_text else title or skill_text)
        tags += skill["tags"] if isinstance(skill.get("tags"), list) else []
        examples += skill["examples"] if isinstance(skill.get("examples"), list) else []
    return Described(
        name,
        described.lines("\n".join(filter(None, parts)), described.DESCRIPTION),
        described.distinct(tags[:1_000], described.KEYWORDS, described.KEYWORD),
        described.distinct(examples[:1_000], described.EXAMPLES, described.EXAMPLE),
        calling=_calling(card),
    )


def _calling(card: Mapping[str, Any]) -> dict[str, Any]:
    """Where and how the agent is called over JSON-RPC, in the newest version that is spoken here; {} where it is not."""
    offers = card.get("supportedInterfaces")
    options: dict[str, str] = {}
    for offer in offers[: described.PARTS] if isinstance(offers, list) else ():
        if isinstance(offer, dict) and offer.get("protocolBinding") == "JSONRPC":
            options.setdefault(
                _version(offer.get("protocolVersion")), described.line(offer.get("url"), LONGEST_ADDRESS)
            )
    if card.get("preferredTransport", "JSONRPC") == "JSONRPC" and card.get("url"):
        options.setdefault(_version(card.get("protocolVersion", "0.3")), described.line(card["url"], LONGEST_ADDRESS))
    version = next((version for version in VERSIONS if options.get(version)), None)
    if version is None:
        return {}
    able = card.get("capabilities")
    streaming = isinstance(able, dict) and able.get("streaming") is True
    return {"address": options[version], "version": version, "streaming": streaming}


def _version(version: Any) -> str:
    return ".".join(str(version).split(".")[:2]) if version else VERSIONS[0]


# --- Signatures ---------------------------------------------------------------------------------------------------


def checked(card: Mapping[str, Any]) -> tuple[str, str]:
    """`none`, `valid` or `unknown`, and who signed. One signature that holds is enough. Raises SourceError where each is wrong."""
    signatures = card.get("signatures")
    if not signatures:
        return "none", ""
    if not isinstance(signatures, list):
        raise SourceError(_("The card's signatures are not a list."))
    bare = {name: value for name, value in card.items() if name != "signatures"}
    unknown = False
    for signature in signatures[:MOST_SIGNATURES]:
        try:
            signer = _signer(signature, bare)
        except SourceError:
            unknown = True  # its key cannot be had today
            continue
        if signer:
            return "valid", signer
    if unknown:
        return "unknown", ""
    raise SourceError(_("The card's signature is invalid: the card was changed after it was signed."))


def _signer(signature: Any, bare: Mapping[str, Any]) -> str:
    """Who made a signature that holds, "" for one that does not. Raises SourceError where its key cannot be had."""
    import jwt  # with all of cryptography: few processes ever read a card

    if not isinstance(signature, dict) or not all(
        isinstance(signature.get(name), str) for name in ("protected", "signature")
    ):
        return ""
    try:
        header = json.loads(base64.urlsafe_b64decode(signature["protected"] + "=" * (-len(signature["protected"]) % 4)))
        address, kid = header["jku"], header["kid"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SourceError(_("The signature does not say where its key is.")) from None
    if not isinstance(address, str) or not isinstance(kid, str) or urlsplit(address).scheme != "https":
        raise SourceError(_("The signature's key must be at an https address."))
    try:
        keys = jwt.PyJWKSet.from_dict(described.as_object(described.fetched(address)))
        key = next(key for key in keys.keys if key.key_id == kid)
    except (jwt.PyJWTError, StopIteration, AttributeError, TypeError, ValueError):
        raise SourceError(_("The signature's key was not found at its address.")) from None
    for card in (bare, _without_blanks(bare)):
        payload = base64.urlsafe_b64encode(canonical(card).encode()).rstrip(b"=").decode()
        try:
            jwt.PyJWS().decode(
                f"{signature['protected']}.{payload}.{signature['signature']}", key, algorithms=ALGORITHMS
            )
        except (jwt.PyJWTError, ValueError, TypeError):
            continue
        return f"{kid[:100]}, {urlsplit(address).hostname}"
    return ""


def canonical(value: Any, depth: int = 0) -> str:
    """JSON in its one canonical form (RFC 8785): keys by their UTF-16 units, no space, numbers as JavaScript writes them. Raises
    SourceError."""
    if depth > DEPTH:
        raise SourceError(_("The card is nested too deep."))
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return "{" + ",".join(f"{canonical(name)}:{canonical(value[name], depth + 1)}" for name in names) + "}"
    if isinstance(value, list):
        return "[" + ",".join(canonical(item, depth + 1) for item in value) + "]"
    if isinstance(value, float):
        if value.is_integer() and abs(value) < 1e21:
            return str(int(value))
        if not 1e-6 <= abs(value) < 1e21:
            raise SourceError(_("The card holds a number whose canonical form is not known here."))
        return repr(value)
    try:
        text = json.dumps(value, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        raise SourceError(_("The card contains half of a surrogate pair.")) from None
    return text


def _without_blanks(value: Any) -> Any:
    """The same without empty texts, lists and objects: A2A's own library signs cards so."""
    if isinstance(value, dict):
        cleaned = {name: _without_blanks(item) for name, item in value.items()}
        return {name: item for name, item in cleaned.items() if item not in ("", [], {}, None)}
    if isinstance(value, list):
        return [item for item in map(_without_blanks, value) if item not in ("", [], {}, None)]
    return value
