"""A client of any OpenAI-compatible `POST /chat/completions`, and what routing asks of it: which agents does each of
these queries need, and how sure are you.

Retries time-outs, 429 and 5xx with exponential backoff and jitter, and waits as long as Retry-After says. A refused
key stops at once. Where the server takes a JSON schema the answer is held to it; where it does not, the answer is
parsed strictly all the same. Nothing that an answer says is believed unchecked: unknown agents, missing queries or
prose instead of JSON make a query unanswered, with the reason.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, Protocol

import httpx

from training_app.engine.data import storable
from training_app.engine.data.examples import Agent
from training_app.engine.routing_prompt import DEFAULT_PROMPT, routing_messages

MAX_WAIT = 120.0  # seconds between two tries at most, whatever Retry-After says
MAX_ANSWER = 4 << 20  # bytes of one response
FAILURES = 3  # calls in a row without an answer after which the server counts as gone
MAX_TOKENS = 1 << 32  # of one call, by what the server says; what counts more is not believed


class LLMError(Exception):
    """The server could not be used; the message says why."""


class BadKey(LLMError):
    """The server refused the key: no try with the same one will help."""


class NoAnswer(LLMError):
    """No answer came: whether the server did the work, and charges for it, is not known."""


class Stopped(LLMError):
    """The caller asked to stop while the client waited."""


@dataclass(slots=True)
class FailuresInARow:
    """Calls that failed since the last answer. After `limit` of them the server counts as gone."""

    limit: int = FAILURES
    count: int = 0

    def add(self, error: LLMError) -> None:
        """Count a failed call. Raises its error if no further call would get an answer: the server is gone, the key refused, or the
        caller asked to stop."""
        self.count += 1
        if isinstance(error, BadKey | Stopped) or self.count >= self.limit:
            raise error

    def clear(self) -> None:
        """A call was answered."""
        self.count = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or several calls, as the server counts them; `calls` are those that it answered."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.calls + other.calls,
        )


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of the server: its text, tokens, and whether it was cut off at the token limit."""

    text: str
    usage: Usage
    cut_off: bool = False


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What the model says of one query: `required` agents, and a confidence from 0 to 1 for every agent it named.
    `error` says why there is none; then `required` is None."""

    required: frozenset[int] | None
    confidence: dict[int, float] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class Suggestions:
    """One suggestion per query, in their order, the tokens of the call and the model's own words."""

    items: tuple[Suggestion, ...]
    usage: Usage
    text: str = ""


class Watching(Protocol):
    """Receivers of a call that is under way."""

    @property
    def headers(self) -> dict[str, str]:
        """What goes out with it."""

    def completed(self, text: str, tokens_in: int, tokens_out: int) -> None:
        """What came back."""


#: Stands around a call, given the server's address, the model, the messages and the temperature.
Watch = Callable[[str, str, Sequence[Mapping[str, Any]], float | None], AbstractContextManager[Watching]]


@dataclass(frozen=True, slots=True)
class CallLimits:
    """How long one call may take: `timeout` seconds for each wait for the server, `tries`, and `total` seconds for all tries, waits
    and slow answers together (None: no limit). `stop` is asked before each try and during waits; when it says true, `Stopped` is
    raised. `sleep` and `rng` are for tests."""

    timeout: float = 60.0
    tries: int = 6
    total: float | None = None
    stop: Callable[[], bool] = lambda: False
    sleep: Callable[[float], None] = time.sleep
    rng: random.Random = field(default_factory=random.Random)  # jitter needs no secret


@dataclass(frozen=True, slots=True)
class Wire:
    """How calls reach the server: through `transport`, with errors that quote its replies if `tell`, and with `watch` around every
    call, for traces."""

    transport: httpx.BaseTransport | None = None
    tell: bool = True
    watch: Watch | None = None


class Client:
    """A client of one server and model. Close it, or use it in a `with` statement. One thread at a time."""

    def __init__(
        self,
        base_url: str,
        model: str,
        api_key: str = "",
        *,
        temperature: float | None = 0.0,
        limits: CallLimits | None = None,
        wire: Wire | None = None,
    ) -> None:
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._limits, self._wire = limits or CallLimits(), wire or Wire()
        self.model, self.temperature, self.tries = model, temperature, max(1, self._limits.tries)
        #: Whether a JSON schema is sent; a server that refuses it turns this off for the calls that follow.
        self.structured = True
        self._until = float("inf")
        self._http = httpx.Client(
            base_url=base_url.rstrip("/") + "/",
            headers=headers,
            timeout=self._limits.timeout,
            transport=self._wire.transport,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # -------------------------------------------------------------------------------------------------------- calls

    def complete(
        self, messages: Sequence[dict[str, str]], schema: dict[str, Any] | None = None, *, key: str = ""
    ) -> Completion:
        """The model's answer to `messages` ({"role", "content"} each). With `schema`, a JSON schema of the answer,
        the server is asked to hold to it where it can. `key` goes out as the Idempotency-Key of every try, so that a
        server that honours it does the work, and charges, once. Raises BadKey, Stopped, NoAnswer or LLMError."""
        if self._wire.watch is None:
            return self._complete(messages, schema, key, {})
        with self._wire.watch(str(self._http.base_url), self.model, messages, self.temperature) as watched:
            done = self._complete(messages, schema, key, watched.headers)
            watched.completed(done.text, done.usage.prompt_tokens, done.usage.completion_tokens)
            return done

    def _complete(
        self, messages: Sequence[dict[str, str]], schema: dict[str, Any] | None, key: str, headers: dict[str, str]
    ) -> Completion:
        reason, answered, spoilt = "no try was made", True, 0
        self._until = time.monotonic() + self._limits.total if self._limits.total else float("inf")
        for attempt in range(self.tries):
            if self._limits.stop():
                raise Stopped("stopped")
            with_schema = schema is not None and self.structured
            wait: float | None = None
            answered = False
            try:
                named = _named(key, schema is not None and not with_schema, spoilt)
                response = self._post(self._body(messages, schema if with_schema else None), named | headers)
            except httpx.TimeoutException:
                reason = "the server did not answer in time"
            except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
                raise LLMError(f"the address cannot be used: {error}") from error
            except httpx.TransportError as error:
                reason = f"the server cannot be reached: {error}"
            else:
                answered = True
                if response.status_code in (400, 422) and with_schema:
                    # Servers that know no schema say so with a 400; any other fault will show again without it.
                    self.structured = False
                    continue
                if response.status_code == 200:
                    completion, reason = _completion(response)
                    if completion is not None:
                        return completion
                    spoilt += 1
                else:
                    reason, wait = self._busy(response), _retry_after(response)
            if attempt + 1 < self.tries:
                self._wait(attempt, wait, reason)
        raise (LLMError if answered else NoAnswer)(
            f"gave up after {self.tries} {'try' if self.tries == 1 else 'tries'}: {reason}"
        )

    def _body(self, messages: Sequence[dict[str, str]], schema: dict[str, Any] | None) -> dict[str, Any]:
        """What is sent, with the JSON schema of the answer unless that is None."""
        body: dict[str, Any] = {"model": self.model, "messages": list(messages)}
        if self.temperature is not None:
            body["temperature"] = self.temperature
        if schema is not None:
            shape = {"name": "answer", "strict": True, "schema": schema}
            body["response_format"] = {"type": "json_schema", "json_schema": shape}
        return body

    def _busy(self, response: httpx.Response) -> str:
        """Why a server that may answer later did not. Raises BadKey and LLMError for answers that will not change."""
        status = response.status_code
        if status in (401, 403):
            raise BadKey(f"the server refused the key ({status}){self._quoted(response)}")
        reason = f"the server answered {status}{self._quoted(response)}"
        if status in (408, 409, 425, 429) or status >= 500:
            return reason
        raise LLMError(reason)

    def _post(self, body: dict[str, Any], headers: dict[str, str]) -> httpx.Response:
        extensions: dict[str, Any] = {"until": self._until} if self._limits.total else {}
        if self._limits.total:
            seconds = max(0.01, self._until - time.monotonic())
            extensions["timeout"] = httpx.Timeout(min(seconds, self._http.timeout.read or seconds)).as_dict()
        with self._http.stream(
            "POST", "chat/completions", json=body, headers=headers, extensions=extensions
        ) as response:
            size, parts = 0, []
            for part in response.iter_bytes():
                if time.monotonic() > self._until:
                    raise httpx.ReadTimeout("the answer came too slowly")
                size += len(part)
                if size > MAX_ANSWER:
                    raise LLMError(f"the server sent more than {MAX_ANSWER:,} bytes")
                parts.append(part)
            # The stream is read and decoded here, so the coding it came in no longer holds.
            end_to_end = {k: v for k, v in response.headers.items() if k not in ("content-encoding", "content-length")}
            return httpx.Response(response.status_code, headers=end_to_end, content=b"".join(parts))

    def _quoted(self, response: httpx.Response) -> str:
        return f": {_message(response)}" if self._wire.tell else ""

    def _wait(self, attempt: int, retry_after: float | None, reason: str) -> None:
        """Wait before the next try: as long as the server asked, else 1, 2, 4, … seconds, half of it drawn at random
        so that many workers do not come back together. Raises LLMError where the call's time would be over by then."""
        backoff = min(30.0, 2.0**attempt)
        seconds = backoff * (0.5 + 0.5 * self._limits.rng.random())
        if retry_after is not None:
            seconds = retry_after + 0.25 * self._limits.rng.random()
        seconds_to_wait = min(seconds, MAX_WAIT)
        if time.monotonic() + seconds_to_wait >= self._until:
            raise LLMError(f"{reason}; there is no time left for another try")
        while seconds_to_wait > 0:
            if self._limits.stop():
                raise Stopped("stopped")
            self._limits.sleep(min(seconds_to_wait, 1.0))
            seconds_to_wait -= 1.0

    # ------------------------------------------------------------------------------------------------------ routing

    def suggest(
        self,
        queries: Sequence[str],
        agents: Sequence[Agent],
        *,
        prompt: str = DEFAULT_PROMPT,
        min_agents: int = 0,
        max_agents: int | None = None,
        key: str = "",
    ) -> Suggestions:
        """Which agents each query needs: several queries in one call. `prompt` is the instruction; the agents, the
        queries and the form of the answer are added here; `key` is the call's Idempotency-Key. Raises as `complete`
        does; an answer that cannot be used raises nothing, its queries are unanswered with the reason."""
        messages = routing_messages(queries, agents, prompt, min_agents, max_agents)
        done = self.complete(messages, answer_schema(agents), key=key)
        items = parse_suggestions(done.text, len(queries), agents, min_agents, max_agents)
        if done.cut_off:
            items = [
                i if i.required is not None else Suggestion(None, {}, f"cut off at the token limit; {i.error}")
                for i in items
            ]
        return Suggestions(tuple(items), done.usage, done.text)


def answer_schema(agents: Sequence[Agent]) -> dict[str, Any]:
    """The JSON schema of a routing answer."""

    def thing(properties: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }

    agent = thing({"id": {"type": "integer", "enum": [agent.id for agent in agents]}, "confidence": {"type": "number"}})
    answer = thing({"query": {"type": "integer"}, "agents": {"type": "array", "items": agent}})
    return thing({"answers": {"type": "array", "items": answer}})


def find_json(text: str) -> Any:
    """The JSON value in a model's answer, alone, in a code fence or within prose, mended where it could not be stored.
    Raises ValueError without one."""
    text = text.strip()
    try:
        return storable.mended(json.loads(text))[0]
    except (ValueError, RecursionError):
        pass
    decoder = json.JSONDecoder()
    starts = [i for i, c in enumerate(text) if c in "{["]
    # Prose may hold braces of its own: the first 200 places are tried, the outermost first.
    for start in starts[:200]:
        try:
            value, _ = decoder.raw_decode(text[start:])
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) or (isinstance(value, list) and value and isinstance(value[0], dict)):
            return storable.mended(value)[0]
    raise ValueError("the answer holds no JSON")


def find_object(text: str) -> dict[str, Any] | None:
    """The JSON object in a model's answer, as `find_json` reads it; None without one."""
    try:
        value = find_json(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def parse_suggestions(
    text: str, count: int, agents: Sequence[Agent], min_agents: int = 0, max_agents: int | None = None
) -> list[Suggestion]:
    """`count` suggestions out of a model's answer; what cannot be used is a Suggestion with its error."""
    if not text.strip():
        return [Suggestion(None, {}, "the answer is empty")] * count
    try:
        value = find_json(text)
    except ValueError as error:
        return [Suggestion(None, {}, str(error))] * count
    answers = value.get("answers") if isinstance(value, dict) else value
    if isinstance(value, dict) and answers is None and count == 1 and "agents" in value:
        answers = [{"query": 1, **value}]
    if not isinstance(answers, list):
        return [Suggestion(None, {}, "the answer holds no list of answers")] * count
    ids = {agent.id for agent in agents}
    suggestions: dict[int, Suggestion] = {}
    for entry in answers:
        number = entry.get("query", 1 if count == 1 else None) if isinstance(entry, dict) else None
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= count:
            continue
        if number in suggestions:
            suggestions[number] = Suggestion(None, {}, "the query is answered twice")
            continue
        suggestions[number] = _suggestion(entry.get("agents"), ids, min_agents, max_agents)
    missing = Suggestion(None, {}, "the answer leaves this query out")
    return [suggestions.get(number, missing) for number in range(1, count + 1)]


def _suggestion(named: Any, agent_ids: set[int], low: int, high: int | None) -> Suggestion:
    if not isinstance(named, list):
        return Suggestion(None, {}, "the agents are not a list")
    confidence: dict[int, float] = {}
    for item in named:
        identifier = item.get("id") if isinstance(item, dict) else item
        sure = item.get("confidence", 1.0) if isinstance(item, dict) else 1.0
        if isinstance(identifier, bool) or not isinstance(identifier, int) or identifier not in agent_ids:
            return Suggestion(None, {}, f"names agent {str(identifier)[:40]!r}, which does not exist")
        if isinstance(sure, bool) or not isinstance(sure, int | float) or not 0 <= sure <= 1:
            return Suggestion(None, {}, f"the confidence {str(sure)[:40]!r} is not from 0 to 1")
        confidence[identifier] = max(float(sure), confidence.get(identifier, 0.0))
    if len(confidence) < low or (high is not None and len(confidence) > high):
        return Suggestion(None, {}, f"names {len(confidence)} agents, outside the limits")
    return Suggestion(frozenset(confidence), confidence)


def _named(key: str, plain: bool, spoilt: int) -> dict[str, str]:
    """The header that names a call. Another body (without the schema) is another call to a server that honours the
    name, and so is a try after an answer that arrived whole and is none: the same name would bring it back."""
    parts = [key, *(["plain"] if plain else []), *([str(spoilt)] if spoilt else [])]
    return {"Idempotency-Key": "-".join(parts)} if key else {}


def _completion(response: httpx.Response) -> tuple[Completion | None, str]:
    """The completion in a 200 response, or None and why it cannot be used (a cut-off body is worth another try)."""
    try:
        body = response.json()
        choice = body["choices"][0]
        content = choice["message"].get("content")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return None, "the server's answer is not a chat completion"
    if content is None:
        content = ""
    if not isinstance(content, str):
        return None, "the server's answer holds no text"
    usage = body.get("usage") or {}

    def tokens(name: str) -> int:
        value = usage.get(name) if isinstance(usage, dict) else None
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOKENS:
            return value
        return 0

    spent = Usage(tokens("prompt_tokens"), tokens("completion_tokens"), 1)
    return Completion(storable.mended_text(content), spent, choice.get("finish_reason") == "length"), ""


def _message(response: httpx.Response) -> str:
    """What an error response says, in a line of at most 200 characters."""
    try:
        body = response.json()
        error = body.get("error", body) if isinstance(body, dict) else body
        text = error.get("message", str(error)) if isinstance(error, dict) else str(error)
    except (ValueError, RecursionError):
        text = response.text
    return storable.printable(" ".join(str(text).split()))[:200]


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds to wait, from a Retry-After of seconds or a date; None where there is none."""
    value = response.headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            until = parsedate_to_datetime(value)
        except (ValueError, TypeError):
            return None
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        seconds = (until - datetime.now(UTC)).total_seconds()
    return min(max(0.0, seconds), MAX_WAIT) if seconds == seconds else None
