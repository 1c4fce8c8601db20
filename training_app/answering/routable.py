"""Which texts and conversations are routed, and why others are refused."""

import unicodedata
from collections.abc import Callable
from typing import Any

from django.conf import settings

from training_app.engine.data.conversations import BadConversation, Bounds, checked

#: A single character may stand for so many: U+FDFA does under NFKC, which the router reads a text in.
MOST_LETTERS = 18


class Unroutable(ValueError):
    """A text that cannot be routed. `code` is a word for programs; the message goes on after the name of the text: "is blank"."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code


def check_text(text: str) -> None:
    """Raises Unroutable for a text that is blank, too long, or that no database and no file could hold."""
    limit = settings.MAX_QUERY_CHARACTERS
    if len(text) > limit:
        raise Unroutable("too_long", f"has {len(text):,} characters; at most {limit:,} are taken")
    if not text or text.isspace():
        raise Unroutable("blank", "is blank")
    if "\0" in text:
        raise Unroutable("invalid", "holds a NUL character")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Unroutable("invalid", "holds half of a surrogate pair") from None
        if len(text) * MOST_LETTERS > limit and len(unicodedata.normalize("NFKC", text)) > limit:
            raise Unroutable(
                "too_long", f"has more than {limit:,} characters once its ligatures are written out (NFKC)"
            )


def bounds() -> Bounds:
    """What is taken of a conversation."""
    return Bounds(settings.MAX_MESSAGES, settings.MAX_CONVERSATION_CHARACTERS, settings.MAX_QUERY_CHARACTERS)


def conversation(messages: Any, path: str = "messages", named: Callable[[str], int | None] | None = None) -> str:
    """The query in a list of messages, checked as `check_text` checks a text; `named` finds the agent that an answer names. Raises
    BadConversation, its path from `path` on."""
    text = checked(messages, bounds(), path=path, named=named)
    if len(text) * MOST_LETTERS > settings.MAX_QUERY_CHARACTERS:
        try:
            check_text(str(text))
        except Unroutable as problem:
            raise BadConversation(f"{path}[{len(messages) - 1}].content", str(problem), problem.code) from None
    return text
