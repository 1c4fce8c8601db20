"""The shipped table of providers and models: addresses, prices and context, as of a date.

A backend is made from it and then has prices of its own, which a pool's table of models edits. Limits differ by account, so the
shipped table has none.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

FILE = Path(__file__).with_name("catalog.json")


@dataclass(frozen=True, slots=True)
class Listed:
    """One model at one provider: prices of a million tokens, and how many tokens it reads."""

    price_in: float
    price_out: float
    context: int


@dataclass(frozen=True, slots=True)
class Catalog:
    """`addresses` by the provider's name, `models` by provider and model."""

    as_of: date
    source: str
    addresses: Mapping[str, str]
    models: Mapping[tuple[str, str], Listed]


@cache
def shipped() -> Catalog:
    """The table that this version brings."""
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    addresses = {provider["name"]: provider["address"] for provider in content["providers"]}
    models = {
        (provider["name"], row["model"]): Listed(row["price_in"], row["price_out"], row["context"])
        for provider in content["providers"]
        for row in provider["models"]
    }
    return Catalog(date.fromisoformat(content["as_of"]), content["source"], addresses, models)


def provider_of(written: str) -> tuple[str, str]:
    """(name, address) of what somebody wrote: a listed provider in any case, an address of one's own, named by its host, or a name
    without an address."""
    written = written.strip()
    listed = {name.casefold(): name for name in shipped().addresses}
    if written.casefold() in listed:
        name = listed[written.casefold()]
        return name, shipped().addresses[name]
    if "://" in written:
        return (urlsplit(written).netloc.rpartition("@")[2] or written)[:80], written
    return written, ""


def terms_of(provider: str, model: str) -> dict[str, Any]:
    """What the table says of a model, as fields of a backend; {} where it does not have it."""
    listed = shipped().models.get((provider, model))
    if listed is None:
        return {}
    return {
        "price_in": listed.price_in, "price_out": listed.price_out, "context": listed.context, "priced_on": shipped().as_of,
    }  # fmt: skip
