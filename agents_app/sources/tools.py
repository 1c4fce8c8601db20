"""The tools of an MCP server as one agent: what it is called, what its tools do.

Servers of 2026-07-28 are asked without a session; those before shake hands first.
"""

import json
from typing import Any

from django.utils.translation import gettext as _

from agents_app.sources import described
from agents_app.sources.described import Described, SourceError

META = "io.modelcontextprotocol/"
STATELESS, SHAKEN = "2026-07-28", "2025-11-25"
CLIENT = {"name": "routerweb", "version": "0.1.0"}
PAGES = 20


def at(address: str, secret: str = "") -> Described:
    """The agent that a server's tools make up, or the one tool that an address ending in # and its name means. Raises SourceError."""
    address, _sign, tool = address.partition("#")
    server, instructions, tools = listed(address, secret)
    if tool:
        return read_one(
            next(
                (candidate for candidate in tools if isinstance(candidate, dict) and candidate.get("name") == tool),
                None,
            ),
            address,
        )
    return read(server, instructions, tools, address)


def listed(address: str, secret: str = "") -> tuple[dict[str, Any], Any, list[Any]]:
    """What a server says of itself, its instructions, and its tools. Raises SourceError."""
    asking = _Asking(address, secret)
    try:
        hello = asking.call("server/discover")
        server = hello.get("_meta", {}).get(f"{META}serverInfo") if isinstance(hello.get("_meta"), dict) else None
    except _Refused:
        asking = _Asking(address, secret, stateless=False)
        hello = asking.shake_hands()
        server = hello.get("serverInfo")
    server = server if isinstance(server, dict) else {}
    tools: list[Any] = []
    cursor = None
    for _page in range(PAGES):
        listed = asking.call("tools/list", **({"cursor": cursor} if cursor else {}))
        tools += listed["tools"] if isinstance(listed.get("tools"), list) else []
        cursor = listed.get("nextCursor")
        if not isinstance(cursor, str) or len(tools) >= described.PARTS:
            break
    return server, hello.get("instructions"), tools[: described.PARTS]


def called(tools: list[Any]) -> list[dict[str, Any]]:
    """The tools as a call needs them: name, description and the schema of the arguments."""
    names = ("name", "description", "inputSchema")
    described = [{name: tool[name] for name in names if name in tool} for tool in tools if isinstance(tool, dict)]
    return [tool for tool in described if isinstance(tool.get("name"), str)]


def read_one(tool: Any, address: str) -> Described:
    """One tool as an agent. Raises SourceError where the server does not have it."""
    name = described.line(tool.get("name"), described.NAME) if isinstance(tool, dict) else ""
    if not name:
        raise SourceError(_("The server has no such tool."))
    title = described.line(tool.get("title"), described.NAME) or name.replace("_", " ").replace("-", " ").capitalize()
    text = described.lines(tool.get("description"), described.DESCRIPTION)
    calling = {"address": address, "tool": tool["name"], "tools": called([tool])}
    return Described(title, text or title, described.distinct([name], 1, described.KEYWORD), calling=calling)


def read(server: dict[str, Any], instructions: Any, tools: list[Any], address: str) -> Described:
    """What a server says of itself, as an agent. Raises SourceError where it has no tool."""
    named = [tool for tool in tools if isinstance(tool, dict) and described.line(tool.get("name"), described.KEYWORD)]
    if not named:
        raise SourceError(_("The server has no tools."))
    name = described.line(server.get("title") or server.get("name"), described.NAME)
    parts = [described.lines(instructions, 1_000)]
    for tool in named:
        title, text = described.line(tool["name"], described.KEYWORD), described.line(tool.get("description"), 300)
        parts.append(f"{title}: {text}" if text else title)
    return Described(
        name or described.line(address.split("//")[-1], described.NAME),
        described.lines("\n".join(filter(None, parts)), described.DESCRIPTION),
        described.distinct((tool["name"] for tool in named), described.KEYWORDS, described.KEYWORD),
        calling={"address": address, "tools": called(named)},
    )


class _Refused(Exception):
    """The server does not speak this version."""


class _Asking:
    def __init__(self, address: str, secret: str, stateless: bool = True) -> None:
        self._address, self._stateless, self._number = address, stateless, 0
        self._headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if secret:
            self._headers["Authorization"] = f"Bearer {secret}"

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """The result of a method. Raises SourceError, and _Refused where a stateless server would have answered."""
        self._number += 1
        headers = dict(self._headers)
        if self._stateless:
            headers |= {"MCP-Protocol-Version": STATELESS, "Mcp-Method": method}
            about = {"protocolVersion": STATELESS, "clientCapabilities": {}, "clientInfo": CLIENT}
            params["_meta"] = {META + name: value for name, value in about.items()}
        sent = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        raw, status, got = described.exchanged("POST", self._address, body=json.dumps(sent).encode(), headers=headers)
        if status in (401, 403):
            raise SourceError(_("The server requires a key, or another one: HTTP %(status)d.") % {"status": status})
        answer = _message(raw, got.get("content-type", ""), self._number)
        if isinstance(answer.get("result"), dict):
            if session := got.get("mcp-session-id"):
                self._headers["Mcp-Session-Id"] = session
            result: dict[str, Any] = answer["result"]
            return result
        if self._stateless and method == "server/discover":
            raise _Refused
        raise SourceError(
            _("The server does not answer %(method)s: HTTP %(status)d.") % {"method": method, "status": status}
        )

    def shake_hands(self) -> dict[str, Any]:
        """What the server says of itself. Raises SourceError."""
        hello = self.call("initialize", protocolVersion=SHAKEN, capabilities={}, clientInfo=CLIENT)
        version = hello.get("protocolVersion")
        self._headers["MCP-Protocol-Version"] = version if isinstance(version, str) and version.isascii() else SHAKEN
        notification = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
        described.exchanged("POST", self._address, body=notification, headers=self._headers)
        return hello


def _message(raw: bytes, media: str, number: int) -> dict[str, Any]:
    """The answer to a call, plain or as one of the events of a stream; {} where there is none."""
    if media.startswith("text/event-stream"):
        events = raw.replace(b"\r\n", b"\n").split(b"\n\n")
        pieces = [
            b"\n".join(line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")) for event in events
        ]
    else:
        pieces = [raw]
    for piece in pieces:
        try:
            content = json.loads(piece)
        except (ValueError, RecursionError):
            continue
        if (
            isinstance(content, dict)
            and ("result" in content or "error" in content)
            and content.get("id") in (number, None)
        ):
            return content
    return {}
