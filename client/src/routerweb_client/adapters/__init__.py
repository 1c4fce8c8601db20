"""Routerweb inside other people's frameworks: a small file each, which alone needs that framework.

What they share: a conversation as the API takes it, who an answer names, by key, and the report of what became of an answer. Where the
framework, not the adapter, runs those whom an answer names, the run stands in a block of `outcomes`.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, TypeVar

from routerweb_client.answers import Answer, RouterwebError
from routerweb_client.clients import Client, Query
from routerweb_client.options import RouteOptions

logger = logging.getLogger(__name__)

Target = TypeVar("Target")

#: What frameworks call the four roles of a conversation.
ROLES = {"human": "user", "ai": "assistant", "developer": "system", "function": "tool"} | {
    role: role for role in ("user", "assistant", "system", "tool")
}


def text_of(content: Any) -> str:
    """What a message says: its text, or the texts among its parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else ()
    texts = [part if isinstance(part, str) else part.get("text") for part in parts if isinstance(part, str | Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))


def conversation(messages: Iterable[tuple[str, Any]]) -> list[dict[str, str]]:
    """(role, content) pairs as the API takes them, up to the user's last. Raises ValueError where the user said nothing."""
    turns = [(ROLES.get(role, "tool"), text_of(content).strip()) for role, content in messages]
    last = max((place for place, (role, text) in enumerate(turns) if role == "user" and text), default=-1)
    if last < 0:
        raise ValueError("There is no message of the user's to route.")
    return [{"role": role, "content": text} for role, text in turns[: last + 1] if text]


def chosen(answer: Answer, targets: Mapping[str, Target]) -> list[Target]:
    """The targets that an answer names, in its order; `targets` are by the agents' keys, those without one are left out."""
    return [targets[key] for key in answer.agent_keys if key in targets]


def report(client: Client, answer: Answer, success: bool) -> None:
    """Tell the server whether those whom an answer names did their work; nothing where an exported model answered. That the server is
    away, or refuses the report, is logged: it does not stop whoever works."""
    if answer.decision_id is None:
        return
    try:
        client.report(answer.decision_id, success)
    except RouterwebError as error:
        logger.warning("The outcome of %s was not reported: %s", answer.decision_id, error)


class reported:
    """A block, `with` or `async with`, in which those work whom an answer names: its end is reported as a success, an exception that
    leaves it as a failure. A block that is cancelled or left early reports nothing."""

    def __init__(self, client: Client, answer: Answer) -> None:
        self._client, self._answer = client, answer

    def __enter__(self) -> None:
        """Nothing happens yet."""

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if kind is None or issubclass(kind, Exception):
            report(self._client, self._answer, kind is None)

    async def __aenter__(self) -> None:
        """Nothing happens yet."""

    async def __aexit__(self, *error: Any) -> None:
        await asyncio.to_thread(self.__exit__, *error)


_given: ContextVar[list[tuple[Client, Answer]] | None] = ContextVar("routerweb_given", default=None)


def route(client: Client, query: Query, options: RouteOptions) -> Answer:
    """The client's answer, which the block of `outcomes` around it reports. Raises Refused and Unreachable."""
    answer = client.route(query, **options)
    if (routes := _given.get()) is not None:
        routes.append((client, answer))
    return answer


class outcomes:
    """A block, `with` or `async with`, around what a framework runs: each answer that an adapter got in it is reported as a success at
    its end. An exception that leaves it is the failure of the last of them. A block that is cancelled or left early reports nothing.
    Threads and tasks that are started in the block belong to it."""

    def __enter__(self) -> None:
        """Answers belong to this block from now on."""
        self._answers: list[tuple[Client, Answer]] = []
        self._before: Token[list[tuple[Client, Answer]] | None] = _given.set(self._answers)

    def __exit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        _given.reset(self._before)
        self._report(kind)

    async def __aenter__(self) -> None:
        """As `__enter__`."""
        self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        _given.reset(self._before)
        await asyncio.to_thread(self._report, kind)

    def _report(self, kind: type[BaseException] | None) -> None:
        if kind is not None and not issubclass(kind, Exception):
            return
        for place, (client, answer) in enumerate(self._answers, 1):
            report(client, answer, kind is None or place < len(self._answers))
