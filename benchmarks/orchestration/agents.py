"""Agents over HTTP that misbehave on purpose: `POST /v1/chat/completions` as OpenAI has it, and `POST /hook` as Routerweb signs it.

Alone: `python -m benchmarks.orchestration.agents PORT [--delay S] [--faults SHARE] [--no-keys]`; `GET /counts` tells what was asked.

A fault is drawn from a call's Idempotency-Key, so that one run has the same as the next. Most strike a call's first attempt only; some
strike every attempt. `worked` counts, by key, how often the work was done: with keys honoured, a second attempt of a call that was
worked on is answered with what the first would have been.
"""

import argparse
import asyncio
import hashlib
import json
import random
from collections import Counter
from typing import Any

#: What goes wrong, and whether the work was done before it did.
FAULTS = {
    "silent": False, "429": False, "503": False, "500": False, "cut off": True, "10 MB": True, "malformed": True, "prose": True,
    "dripping": True, "reset": True,
}  # fmt: skip
#: Of the calls with a fault, those that have it at every attempt.
EVERY_TIME = 0.2


class Agents:
    """The server; in a test of its own loop, or alone."""

    def __init__(self, *, delay: float = 0.0, faults: float = 0.0, keys: bool = True, seed: int = 0) -> None:
        self.delay, self.faults, self.keys, self.seed = delay, faults, keys, seed
        self.only: str | None = None  # this fault, always
        self.asked: Counter[str] = Counter()
        self.worked: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        self.known: dict[str, bytes] = {}
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.busy = self.busiest = 0
        self._server: asyncio.Server | None = None

    async def listen(self, port: int = 0) -> int:
        """Begin; the port."""
        self._server = await asyncio.start_server(self._connection, "127.0.0.1", port, limit=1 << 20, backlog=1_024)
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    def counts(self) -> dict[str, Any]:
        """What was asked so far."""
        return {
            "calls": len(self.asked), "attempts": self.asked.total(), "faults": dict(self.met), "busiest": self.busiest,
            "worked": self.worked.total(), "worked_twice": [key for key, count in self.worked.items() if count > 1],
            "answered": self.answered.total(), "answered_twice": [key for key, count in self.answered.items() if count > 1],
        }  # fmt: skip

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("latin-1").split("\r\n")
                headers = {
                    name.lower(): value.strip()
                    for name, _colon, value in (line.partition(":") for line in lines[1:] if line)
                }
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                if not await self._one(lines[0].split(" ")[1], headers, body, writer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _one(self, path: str, headers: dict[str, str], raw: bytes, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; whether the connection goes on."""
        if path == "/counts":
            return await self._send(writer, 200, json.dumps(self.counts()).encode())
        body = json.loads(raw)
        key = headers.get("idempotency-key", "")
        self.asked[key] += 1
        self.bodies.append(body)
        self.headers.append(headers)
        self.busy += 1
        self.busiest = max(self.busiest, self.busy)
        try:
            return await self._answer(path, key, body, writer)
        finally:
            self.busy -= 1

    async def _answer(self, path: str, key: str, body: dict[str, Any], writer: asyncio.StreamWriter) -> bool:
        if self.keys and key in self.known:
            self.answered[key] += 1
            return await self._send(writer, 200, self.known[key])
        fault = self._fault(key)
        if fault:
            self.met[fault] += 1
        if fault == "silent":
            await asyncio.sleep(3600)
        if fault in ("429", "503", "500"):
            again = {"Retry-After": "0"} if fault == "429" else {}
            return await self._send(writer, int(fault), b'{"error": {"message": "not now"}}', again)
        self.worked[key] += 1
        if self.delay:
            await asyncio.sleep(self.delay)
        answer = chat(body) if path.endswith("/chat/completions") else hook(body)
        whole = json.dumps(answer).encode()
        if self.keys and key:
            self.known[key] = whole
        if not fault:
            self.answered[key] += 1
            return await self._send(writer, 200, whole)
        return await self._spoil(fault, whole, writer)

    async def _spoil(self, fault: str, whole: bytes, writer: asyncio.StreamWriter) -> bool:
        if fault == "reset":
            writer.transport.abort()
            return False
        if fault == "cut off":
            writer.write(_head(200, len(whole)) + whole[: len(whole) // 2])
            await writer.drain()
            return False
        if fault == "10 MB":
            return await self._send(writer, 200, json.dumps({"content": "x" * 10_000_000}).encode())
        if fault == "malformed":
            return await self._send(writer, 200, b'{"choices": [')
        if fault == "prose":
            return await self._send(writer, 200, b'{"message": "I cannot help with that."}')
        writer.write(_head(200, len(whole)))
        for at in range(len(whole)):
            writer.write(whole[at : at + 1])
            await writer.drain()
            await asyncio.sleep(0.2)
        return True

    def _fault(self, key: str) -> str:
        if self.only is not None:
            return self.only
        draw = random.Random(hashlib.sha256(f"{self.seed}:{key}".encode()).digest())
        if draw.random() >= self.faults:
            return ""
        fault, every = draw.choice(sorted(FAULTS)), draw.random() < EVERY_TIME
        return fault if every or self.asked[key] == 1 else ""

    async def _send(
        self, writer: asyncio.StreamWriter, status: int, body: bytes, more: dict[str, str] | None = None
    ) -> bool:
        writer.write(_head(status, len(body), more or {}) + body)
        await writer.drain()
        return True


def chat(body: dict[str, Any]) -> dict[str, Any]:
    """An answer that says who was asked what."""
    said = " ".join(str(message["content"]) for message in body["messages"])
    content = f"{body['model']}: {body['messages'][-1]['content']}"
    return {
        "model": body["model"],
        "choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": len(said) // 4, "completion_tokens": len(content) // 4},
    }


def hook(body: dict[str, Any]) -> dict[str, Any]:
    """The same for a webhook; a task with "which account" has to be answered that first."""
    if "which account" in body["task"] and not body.get("exchanges"):
        return {"input_required": True, "content": "Which account do you mean?"}
    return {"content": f"{body['agent']['name']}: {body['task']}", "cost": 0.002, "tokens": 20}


def _head(status: int, length: int, more: dict[str, str] | None = None) -> bytes:
    fields = {"Content-Type": "application/json", "Content-Length": str(length), **(more or {})}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} .\r\n{lines}\r\n".encode()


async def _for_ever(options: argparse.Namespace) -> None:
    agents = Agents(delay=options.delay, faults=options.faults, keys=not options.no_keys)
    port = await agents.listen(options.port)
    print(f"listening at {port}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("port", type=int)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds that an answer takes")
    parser.add_argument("--faults", type=float, default=0.0, help="share of the calls that something goes wrong with")
    parser.add_argument("--no-keys", action="store_true", help="Idempotency-Keys mean nothing to it")
    asyncio.run(_for_ever(parser.parse_args()))
