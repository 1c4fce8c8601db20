"""The user turns in the spans of one trace: what was asked, after what, who answered and how it was rated."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from datasets_app.traces.spans import AGENT, HANDOFF, Span
from training_app.engine.data import conversations
from training_app.engine.data.conversations import Bounds

#: Spans above a span that are looked at, and spans of one trace that are read; nothing sane has more.
HIGHEST, LARGEST = 60, 5_000

#: Agents, tools and handoffs that are kept of a turn.
MOST_NAMES = 50
#: A score counts as good from here on, of those between 0 and 1.
GOOD = 0.5
_GOOD = frozenset(
    [
        "true",
        "pass",
        "passed",
        "yes",
        "good",
        "correct",
        "positive",
        "thumbs_up",
        "thumbs-up",
        "up",
        "like",
        "relevant",
        "👍",
    ]
)
_BAD = frozenset(
    [
        "false",
        "fail",
        "failed",
        "no",
        "bad",
        "incorrect",
        "negative",
        "thumbs_down",
        "thumbs-down",
        "down",
        "dislike",
        "irrelevant",
        "👎",
    ]
)


@dataclass(slots=True)
class Turn:
    """One user turn. `messages` are [speaker, text] up to the user's, `names` are [role, name] of who took part in the order of
    time; `rating` is from 0 to 1, `success` None where nothing was said."""

    trace: str
    at: float
    messages: list[list[str]]
    conversation: str = ""
    source: str = ""
    answer: str = ""
    names: list[list[str]] = field(default_factory=list)
    success: bool | None = None
    rating: float | None = None
    comment: str = ""
    decision: str = ""
    line: int = 0


def of_trace(spans: Sequence[Span]) -> list[Turn]:
    """The turns of one trace, in the order of time. A turn begins at the outermost span with a user's message: what agents ask each
    other below it is no user's turn."""
    by_id = {span.id: span for span in spans[:LARGEST]}
    below: dict[str, list[Span]] = defaultdict(list)
    for span in by_id.values():
        below[_outermost(span, by_id)].append(span)
    below.pop("", None)
    asking = [by_id[key] for key in below]
    if any(span.role == AGENT for span in asking):
        asking = [span for span in asking if span.role == AGENT]
    turns_of_place: dict[str, tuple[Turn, list[Span]]] = {}
    for span in sorted(asking, key=lambda span_: span_.at):
        turn = Turn(span.trace, span.at, _fullest(span, below[span.id]), answer=span.answer)
        first, inside = turns_of_place.setdefault(place_of(turn), (turn, []))
        first.answer = span.answer or first.answer
        inside += below[span.id]
    for turn, inside in turns_of_place.values():
        # Whatever else the trace has belongs to its only turn.
        _complete(turn, list(by_id.values()) if len(turns_of_place) == 1 else inside, by_id)
    return [turn for turn, _inside in turns_of_place.values()]


def beside(spans: Sequence[Span]) -> Turn:
    """What spans without a user's message add to a turn of their trace that came before them."""
    turn = Turn(spans[0].trace, 0.0, [])
    _complete(turn, spans[:LARGEST], {span.id: span for span in spans})
    return turn


def _outermost(span: Span, by_id: Mapping[str, Span]) -> str:
    """The id of the outermost span with a user's message among a span and those above it, "" without one. Of a ring of parents all
    members agree on one."""
    line = _line(span, by_id)
    asking = [span for span in line if span.messages]
    if not asking:
        return ""
    return min(span.id for span in asking) if line[-1].parent in {span.id for span in line} else asking[-1].id


def _line(span: Span, by_id: Mapping[str, Span]) -> list[Span]:
    """A span and those above it, each once."""
    line = {span.id: span}
    while span.parent in by_id and span.parent not in line and len(line) < HIGHEST:
        span = by_id[span.parent]
        line[span.id] = span
    return list(line.values())


def _fullest(span: Span, inside: Sequence[Span]) -> list[list[str]]:
    """The longest history of the same question: a framework's span often has the last message alone, its LLM's the whole."""
    question = span.messages[-1][1].strip()
    same = [span.messages for span in inside if span.messages and span.messages[-1][1].strip() == question]
    return max([span.messages, *same], key=len)


def _complete(turn: Turn, spans: Sequence[Span], by_id: Mapping[str, Span]) -> None:
    """Who answered a turn, and what was said of the answer."""
    handing = {ancestor.id for span in spans if span.role in (AGENT, HANDOFF) for ancestor in _line(span, by_id)[1:]}
    names: dict[tuple[str, str], None] = {}
    for span in sorted(spans, key=lambda span_: span_.at):
        turn.conversation = turn.conversation or span.conversation
        turn.decision = turn.decision or span.decision
        turn.source = turn.source or span.source
        turn.answer = turn.answer or span.answer
        # An agent that calls or hands over to another did not answer itself.
        if span.name and not (span.role == AGENT and span.id in handing):
            names[span.role, span.name] = None
    turn.names = [list(name) for name in names][:MOST_NAMES]
    rate(turn, [rating for span in spans for rating in span.feedback])


def rate(turn: Turn, feedback: Sequence[Sequence[Any]]) -> None:
    """Add scores and feedback, [name, value, label, comment] each, to a turn. One that is bad makes the turn a failure."""
    comments = []
    for name, value, label, comment in feedback:
        good, rating = verdict_of(value, label)
        if good is not None:
            turn.success = good if turn.success is None else turn.success and good
            turn.rating = rating if turn.rating is None else min(turn.rating, rating)
            comments.append(f"{name or 'score'}: {label or value}" + (f" ({comment})" if comment else ""))
    turn.comment = "; ".join([*filter(None, [turn.comment]), *comments])[:500]


def verdict_of(value: Any, label: Any = None) -> tuple[bool | None, float]:
    """Whether a score is good, and as how much between 0 and 1; None for one that does not say."""
    if isinstance(label, str) and isinstance(value, bool | None):
        word = label.strip().lower()
        if word in _GOOD or word in _BAD:
            return word in _GOOD, float(word in _GOOD)
    if isinstance(value, bool):
        return value, float(value)
    if isinstance(value, int | float) and 0 <= value <= 1:
        return value >= GOOD, float(value)
    if isinstance(value, int | float) and 1 < value <= 5:  # stars
        return value >= 4, (value - 1) / 4
    if isinstance(value, str):
        return verdict_of(None, value)
    return None, 0.0


@dataclass(frozen=True, slots=True)
class EarlierTurn:
    """What one turn adds to the history of those after it in its conversation."""

    trace: str
    at: float
    text: str
    answer: str


def is_alone(turn: Turn) -> bool:
    """Whether a trace has the last message of a conversation alone: those before it are in other traces."""
    return bool(turn.conversation) and len(turn.messages) == 1


def history(turns: Iterable[EarlierTurn], turn: EarlierTurn) -> list[list[str]]:
    """What was said in a conversation before a turn, as [speaker, text]; what its own trace says of it again is no history."""
    messages = []
    for earlier in sorted(turns, key=lambda turn_: turn_.at):
        if earlier.at < turn.at and (earlier.trace, earlier.text) != (turn.trace, turn.text):
            messages += [["user", earlier.text], *([["assistant", earlier.answer]] if earlier.answer.strip() else [])]
    return messages


def join(turns: Sequence[Turn], earlier: Mapping[str, Sequence[EarlierTurn]]) -> None:
    """Give turns that came alone the turns before them in their conversation: those of `earlier`, by conversation, and of `turns`."""
    turns_of_conversation: dict[str, dict[tuple[str, str], EarlierTurn]] = defaultdict(dict)
    for name, before in earlier.items():
        turns_of_conversation[name] = {(turn.trace, turn.text): turn for turn in before}
    new_turns = [EarlierTurn(turn.trace, turn.at, turn.messages[-1][1], turn.answer) for turn in turns]
    for turn, new_turn in zip(turns, new_turns, strict=True):
        turns_of_conversation[turn.conversation].setdefault(
            (new_turn.trace, new_turn.text), new_turn
        )  # one that comes again is there already
    for turn, new_turn in zip(turns, new_turns, strict=True):
        if is_alone(turn):
            turn.messages = [*history(turns_of_conversation[turn.conversation].values(), new_turn), turn.messages[-1]]


def text_of(turn: Turn, bounds: Bounds) -> str:
    """The query that a turn asks. Raises BadConversation."""
    return conversations.checked([{"role": speaker, "content": text} for speaker, text in turn.messages], bounds)


def place_of(turn: Turn) -> str:
    """What tells a turn from others of its trace: its question, and how many came before it there."""
    users = sum(speaker == "user" for speaker, _text in turn.messages)
    return hashlib.sha256(f"{users}\0{turn.messages[-1][1]}".encode()).hexdigest()[:32]
