"""A router that names the agents whose key the text holds, and what it was asked and told, for the tries of the adapters."""

import json
import os
from functools import cache
from typing import Any

import httpx

from routerweb_client import Client

KEYS = ("billing", "shipping", "legal")
asked: list[dict[str, Any]] = []
reports: list[dict[str, Any]] = []


def answer(request: httpx.Request) -> httpx.Response:
    body = json.loads(request.content)
    if request.url.path.endswith("/outcomes/"):
        reports.append(body)
        return httpx.Response(200, json={})
    asked.append(body)
    text = body.get("query") or body["messages"][-1]["content"]
    agents = [number for number, key in enumerate(KEYS) if key in text and key in body["only"]]
    told = {
        "agents": agents, "agent_names": [KEYS[n].title() for n in agents], "agent_keys": [KEYS[n] for n in agents],
        "abstained": False, "confidence": 0.9, "scores": {str(n): 0.9 for n in agents}, "stop_reason": "stop" if agents else "none",
        "model": "support-1", "decision_id": f"d{len(asked)}", "not_covered": [],
    }  # fmt: skip
    return httpx.Response(200, json=told)


def refuse(_request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused")


CLIENT = Client("http://x", "k", pool="support", transport=httpx.MockTransport(answer))
REFUND = "hello, refund the invoice"  # billing, as the exported model sees it


@cache
def away() -> Client:
    """A client whose server is away, so that the exported model answers."""
    return Client("http://x", "k", transport=httpx.MockTransport(refuse), fallback=os.environ["EXPORTED_MODEL"])


def outcomes() -> list[bool]:
    """What was reported since this was last called."""
    new = [one["success"] for one in reports]
    reports.clear()
    return new


def raises(call: Any, *words: Any, kind: type[Exception] = ValueError, **named: Any) -> bool:
    try:
        call(*words, **named)
    except kind:
        return True
    return False
