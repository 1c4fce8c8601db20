"""A chat's words as they come. Until the first one is out, attempts are made as for any call (`calling`); after it, none is.

An answer is whole where the stream says so: by a `finish_reason` or by `[DONE]`. One that only stops has broken off.
"""

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from agents_app.outbound import guard
from agents_app.outbound.async_client import CallFault, Client, HttpReply
from orchestration_app.calls import asking, calling
from orchestration_app.calls.calling import Places
from orchestration_app.calls.parts import AgentCall, CallFailed, Failure, Outcome, Reply, Spec
from orchestration_app.calls.wire import Wire, check_status, masked, parsed, written
from routerweb.observing import tracing
from training_app.engine.data import storable

Json = Mapping[str, Any]
#: Bytes of an error's body that are read.
ERROR_BYTES = 300
#: What came of a call whose end nobody waited for.
CLIENT_LEFT = Failure("cut_off", "The client left before the agent answered.")
#: Stands in the chunk that is made of `data: [DONE]`.
DONE = "done"


@dataclass(slots=True)
class StreamedChat:
    """One call of a chat; `outcome` is what came of it, once its `pieces` are out or nobody reads them any more."""

    spec: Spec
    call: AgentCall
    client: Client
    places: Places
    outcome: Outcome = CLIENT_LEFT
    _words: list[str] = field(default_factory=list)
    _usage: Any = None
    _model: str = ""
    _whole: bool = False
    _finish: str = ""

    async def pieces(self) -> AsyncGenerator[str, None]:
        """The words. Raises nothing: why there are none, or no more, is in `outcome`."""
        began, attempts, spent, worst, wait = time.monotonic(), 0, 0.0, 0.0, calling.FIRST_WAIT
        problem: CallFailed | None = CallFailed(CLIENT_LEFT.kind, CLIENT_LEFT.why)
        try:
            prepared = await asking.prepare(self.spec, self.call, Wire(self.client))
            worst = prepared.worst
            while True:
                attempts += 1
                try:
                    async with aclosing(self._attempt(prepared)) as words:
                        async for word in words:
                            yield word
                    problem = None
                    return
                except CallFailed as failed:
                    if self._words or attempts > self.spec.retries or not calling.may_repeat(failed, self.spec):
                        raise
                    spent += calling.cost_of(failed, worst)
                    rest, wait = calling.rest(failed, wait), wait * 2
                await asyncio.sleep(rest)
        except CallFailed as failed:
            problem = failed
        finally:
            seconds = time.monotonic() - began
            if problem is None:
                self.outcome = self._reply(spent, worst, seconds, attempts)
            else:
                spent += worst if self._words else calling.cost_of(problem, worst)
                self.outcome = Failure(problem.kind, str(problem), spent, seconds, attempts)

    def _reply(self, spent: float, worst: float, seconds: float, attempts: int) -> Reply:
        cost, tokens_in, tokens_out = self.spec.paid(self._usage or {}, ("prompt_tokens", "completion_tokens"), worst)
        metadata: dict[str, Any] = {
            "model": self._model or self.spec.model,
            "tokens_in": tokens_in,
            "tokens_out": tokens_out,
        }
        if self._finish:
            metadata["finish_reason"] = self._finish
        content = storable.mended_text("".join(self._words))
        return Reply(content, spent + cost, tokens_in + tokens_out, seconds, metadata, attempts)

    async def _attempt(self, prepared: asking.Prepared) -> AsyncGenerator[str, None]:
        """The words of one attempt. Raises CallFailed."""
        spec = self.spec
        if not await self.places.take(spec):
            raise CallFailed("busy", "no place within the limits of the agent and its provider became free in time")
        body = {
            "model": spec.model, "messages": prepared.messages, "max_tokens": spec.most_tokens, "stream": True,
            "stream_options": {"include_usage": True},
        }  # fmt: skip
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": self.call.attempt_key,
            **tracing.passed_on(),
            **spec.bearer,
        }
        address = spec.address.rstrip("/") + "/chat/completions"
        try:
            sent = self.client.streamed(address, written(body), headers, seconds=spec.seconds)
            async with sent as (status, fields, parts):
                if not 200 <= status < 300:
                    error = (await anext(aiter(parts), b""))[:ERROR_BYTES]
                    check_status(HttpReply(status, fields, error), spec.secret)
                if fields.get("content-type", "").startswith("application/json"):
                    chunks = _one_chunk(parts, spec.most_bytes)  # a server that does not stream
                else:
                    chunks = _chunks(parts, spec.most_bytes)
                async for chunk in chunks:
                    if word := self._word(chunk):
                        self._words.append(word)
                        yield word
        except CallFault as fault:
            raise CallFailed(fault.kind, masked(str(fault), spec.secret)) from None
        except guard.Refused as refused:
            raise CallFailed("not_allowed", str(refused)) from None
        finally:
            self.places.leave(spec)
        if not self._words:
            raise CallFailed("malformed", "the stream holds no words")
        if not self._whole:
            raise CallFailed("cut_off", "the stream ended before the answer was whole")

    def _word(self, chunk: Json) -> str:
        """What a chunk adds to the text. Raises CallFailed for one that tells of an error."""
        if chunk.get("error"):
            error = chunk["error"]
            why = error.get("message") if isinstance(error, Mapping) else error
            raise CallFailed("failed", masked(str(why)[:ERROR_BYTES], self.spec.secret))
        self._usage = chunk.get("usage") or self._usage
        self._model = str(chunk.get("model") or self._model)
        self._whole = self._whole or bool(chunk.get(DONE))
        try:
            choice = chunk["choices"][0]
            self._finish = str(choice.get("finish_reason") or self._finish)
            self._whole = self._whole or bool(self._finish)
            content = (choice.get("delta") or choice.get("message") or {}).get("content")
        except (KeyError, IndexError, TypeError, AttributeError):
            return ""
        return content if isinstance(content, str) else ""


async def _chunks(parts: AsyncIterator[bytes], most_bytes: int) -> AsyncIterator[Json]:
    """The chunks of a streamed completion. Raises CallFault for a stream larger than `most_bytes` bytes, and CallFailed for a chunk
    that is no JSON: what it said is lost."""
    rest, size = b"", 0
    async for part in parts:
        size = _measured(size + len(part), most_bytes)
        *lines, rest = (rest + part).split(b"\n")
        for line in lines:
            if chunk := _chunk(line):
                yield chunk
    if chunk := _chunk(rest):
        yield chunk


def _chunk(line: bytes) -> Json:
    """What a line of a stream holds; {} where it is no data."""
    data = line.strip().removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
    if not data:
        return {}
    if data == b"[DONE]":
        return {DONE: True}
    try:
        chunk = json.loads(data)
    except (ValueError, RecursionError):
        raise CallFailed("malformed", "a part of the stream is no JSON") from None
    return chunk if isinstance(chunk, dict) else {}


async def _one_chunk(parts: AsyncIterator[bytes], most_bytes: int) -> AsyncIterator[Json]:
    """The whole answer of a server that does not stream, as one chunk. Raises as `_chunks` does."""
    body = b""
    async for part in parts:
        _measured(len(body) + len(part), most_bytes)
        body += part
    yield {**parsed(HttpReply(200, {}, body)), DONE: True}


def _measured(size: int, most_bytes: int) -> int:
    if size > most_bytes:
        raise CallFault("too_large", f"the answer is larger than {most_bytes // 1024:,} KiB")
    return size
