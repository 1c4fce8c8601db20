"""Agentic Resource Discovery, as far as a pool is a catalog that can be searched: version 0.9 (draft, 28 May 2026) of
https://github.com/ards-project/ard-spec: `spec/ard.md` §4.2, §7.1 and §7.2, `ard.openapi.yaml` and `ai-catalog.schema.json` beside it.

Each agent that may be routed to is one entry. How well it fits a text is what the pool's router says, the calibrated probability that
the text needs it; where no model knows the agent, what its description says of that.
"""

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from training_app.answering import answer, described
from training_app.answering.loaded import LoadedPool, RosterAgent
from training_app.api.errors import Refused
from training_app.api.keys import Access

#: The draft's addresses at the root of the site, and those of the API that answer them.
ADDRESSES = {"/search": "/api/ard/search/", "/.well-known/ai-catalog.json": "/api/ard/catalog/"}
#: What an entry is, and the service that searches them.
AGENT, REGISTRY = "application/vnd.routerweb.agent+json", "application/ai-registry+json"
#: The draft's words for errors by status (its appendix B); those of the other statuses are in the same manner.
CODES = {
    400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 405: "METHOD_NOT_ALLOWED",
    429: "RATE_LIMIT_EXCEEDED", 500: "INTERNAL_ERROR", 503: "UNAVAILABLE",
}  # fmt: skip
MOST_FILTERS, MOST_VALUES = 20, 100


class InDraft(Refused):
    """An error in the draft's words, `errorCode` and `message`, beside the one form of this API."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(refused.status_code, refused.error["code"], refused.error["message"], headers=refused.headers)
        self.error = refused.error

    @property
    def body(self) -> dict[str, Any]:
        """What is answered."""
        code = CODES.get(self.status_code, "INVALID_ARGUMENT" if self.status_code < 500 else "INTERNAL_ERROR")
        return {"errorCode": code, "message": self.error["message"], **super().body}


def address(path: str) -> str:
    """The address of the API that stands for this one, or the same where none does."""
    return ADDRESSES.get(path, path) if settings.ARD_POOLS else path


def pools_of(access: Access) -> list[LoadedPool]:
    """The catalogs that a key may search: its pools among ARD_POOLS. Raises Refused."""
    pools = [access.state.pools[slug] for slug in access.caller.pools if slug in settings.ARD_POOLS]
    if not pools:
        raise Refused(
            404, "not_found", "No pool of this key is a catalog.", hint="An administrator names its slug in ARD_POOLS."
        )
    return pools


def found_in(
    pools: Sequence[LoadedPool], text: str, wanted: Mapping[str, Sequence[str]], source: str
) -> list[dict[str, Any]]:
    """The entries that hold to every filter, best first, each with its `score` from 0 to 100 and its `source`."""
    entries = []
    for pool in pools:
        likely = scores(pool, text)
        for agent in pool.roster:
            if agent.state != "active" or not agent.available:
                continue
            shown = entry(pool, agent)
            if holds(shown, wanted):
                entries.append(
                    shown | {"score": round(100 * min(max(likely.get(agent.id, 0.0), 0.0), 1.0)), "source": source}
                )
    return sorted(entries, key=lambda entry: (-entry["score"], entry["identifier"]))


def scores(pool: LoadedPool, text: str) -> dict[int, float]:
    """By agent, how well it fits the text, 0 to 1. Nothing is kept of it: a search is no decision."""
    likely = described.probabilities(pool, text)
    if pool.model is not None:
        answered = answer.answer(pool, text, explore=False)
        likely |= {agent: float(score) for agent, score in answered.route.scores.items()} | (
            answered.cold.cold if answered.cold is not None else {}
        )
    return likely


def entry(pool: LoadedPool, agent: RosterAgent) -> dict[str, Any]:
    """An agent as the draft's catalog entry, its document within. No labeled query is told: they are customers' words."""
    shown: dict[str, Any] = {
        "identifier": f"urn:air:{publisher()}:{_segment(pool.slug)}:{_segment(agent.key or str(agent.id))}",
        "displayName": agent.name,
        "type": AGENT,
        "data": {
            "id": agent.id, "key": agent.key, "code": agent.code, "name": agent.name, "description": agent.description,
            "keywords": list(agent.keywords), "cost": agent.cost, "pool": pool.slug,
        },
        "metadata": {"pool": pool.slug, "agentId": agent.id, "cost": agent.cost},
    }  # fmt: skip
    if agent.description:
        shown["description"] = agent.description
    if agent.keywords:
        shown["tags"] = list(agent.keywords)
    return shown


def manifest(home: str) -> dict[str, Any]:
    """What anybody may read at `/.well-known/ai-catalog.json`: that there is a search here, and none of the agents."""
    return {
        "specVersion": "1.0",
        "host": {"displayName": "Routerweb"},
        "entries": [
            {
                "identifier": f"urn:air:{publisher()}:registry:routerweb",
                "displayName": "Routerweb",
                "type": REGISTRY,
                "url": home,
                "description": "Searches the agents of this site's pools. Needs an API key with the scope route.",
            }
        ],
    }


def publisher() -> str:
    """The domain that vouches for the entries."""
    return settings.ARD_PUBLISHER or urlsplit(settings.SITE_URL).hostname or "localhost"


def _segment(word: str) -> str:
    return re.sub(r"[^a-zA-Z0-9._-]", "-", word) or "-"


# --- The query ----------------------------------------------------------------------------------------------------


def holds(shown: Mapping[str, Any], wanted: Mapping[str, Sequence[str]]) -> bool:
    """Whether an entry holds to every filter: at each path, any of the values."""
    return all(set(values) & set(_at(shown, path)) for path, values in wanted.items())


def _at(shown: Mapping[str, Any], path: str) -> list[str]:
    """The values at a path of names with dots between, as texts; `publisher` is a part of the identifier (§7.1)."""
    if path == "publisher":
        return [shown["identifier"].split(":")[2]]
    reached: list[Any] = [shown]
    for name in path.split("."):
        inner = [item[name] for item in reached if isinstance(item, Mapping) and name in item]
        reached = [value for item in inner for value in (item if isinstance(item, list) else [item])]
    return [str(value) for value in reached if not isinstance(value, Mapping)]


def filters(value: Any) -> dict[str, list[str]]:
    """A query's filter, each value a list. Raises Refused."""
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > MOST_FILTERS:
        raise _wrong("query.filter", f"must be an object of at most {MOST_FILTERS} paths")
    filters_sent = {}
    for path, values in value.items():
        listed = values if isinstance(values, list) else [values]
        if len(listed) > MOST_VALUES or not all(isinstance(value, str) for value in listed):
            raise _wrong("query.filter", f"must have a text or a list of at most {MOST_VALUES} texts at each path")
        filters_sent[path] = listed
    return filters_sent


def known_only(body: Any, names: Sequence[str], field: str) -> None:
    """Raises Refused where an object holds what the draft has no name for, or is none."""
    if not isinstance(body, dict):
        raise _wrong(field, "must be an object")
    strange = next((name for name in body if name not in names), None)
    if strange is not None:
        raise _wrong(field, f"has no {strange[:40]!r}; it has {', '.join(names)}")


def page(value: Any, size: Any) -> tuple[int, int]:
    """Where a page begins and how long it is. Raises Refused."""
    if size is None:
        size = 10
    if type(size) is not int or not 1 <= size <= 100:
        raise _wrong("pageSize", "must be a whole number from 1 to 100")
    if value is None:
        return 0, size
    try:
        first = int(base64.b64decode(value, validate=True)) if isinstance(value, str) and len(value) < 20 else -1
    except (binascii.Error, ValueError):
        first = -1
    if first < 0:
        raise _wrong("pageToken", "must be the token of an earlier answer")
    return first, size


def token(first: int) -> str:
    """What asks for the page that begins there."""
    return base64.b64encode(str(first).encode()).decode()


def federation(value: Any) -> str:
    """Which other registries are asked: none is, whatever the word. Raises Refused."""
    if value is None:
        return "auto"
    if value not in ("auto", "referrals", "none"):
        raise _wrong("federation", "must be auto, referrals or none")
    return str(value)


def _wrong(field: str, reason: str) -> Refused:
    return Refused(400, "invalid", f"{field} {reason}.", field=field)
