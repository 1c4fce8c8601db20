"""When to ask the user who is meant, and what: without a language model, from scores and descriptions. Standard library only.

With p_a the calibrated probability that agent a is needed, S the answer and c the probability that S is right, changing agent a
alone makes another answer r_a = (1 - p_a) / p_a times as likely (a in S), or p_a / (1 - p_a) (a not in S). Whoever is asked about the
agents C says which of them are needed, and the answer is right wherever S is right beside C:

    worth(C) = min(1 - c, c (prod_{a in C} (1 + r_a) - 1))              what asking about C adds to the probability of being right

The user is asked if that is more than asking costs, in wrong answers.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from training_app.engine.data.conversations import USER, before
from training_app.engine.reading.conversing.continuing import asks
from training_app.engine.reading.languages import RUN

#: Only agents of the answer are named in a question, and others that are at least so likely: about the rest nobody would expect one.
PLAUSIBLE = 0.2
#: A third agent is asked about where it adds so much.
THIRD = 0.05
#: Characters of a description in a question.
DESCRIBED = 70
#: How every question begins, by which a reply to one is told from others.
BEGINS = "Is this about "
#: A reply of at most so many words may mean agents by no name of theirs.
SHORT = 6
#: Letters from which a word is known by its beginning.
STEM = 4
#: What such a reply says, in seven languages: none of them, both, all, or which by its place. "That is all" and "one
#: second" say something else: so `all` begins a reply, and a place begins it or follows an article.
NEITHER = re.compile(
    r"\b(neither|none|nothing|keine[rs]?|nichts|ninguno|ninguna|nenhum|nenhuma|nessuno|nessuna|aucun|aucune|ничего|никто)\b"
)
EVERY = re.compile(
    r"\b(both|beide[sn]?|ambos|ambas|entrambi|entrambe|les deux|оба|обе)\b"
    r"|^(all|alle|todos|todas|tutti|tutte|tous|toutes|все|всё)\b"
)
_ARTICLE = r"(?:^|\b(?:the|der|die|das|den|el|la|le|il|o) )"
PLACES = [
    re.compile(rf"{_ARTICLE}({words})\b")
    for words in (
        "first|former|1st|erste[ns]?|primer[oa]|primeir[oa]|prim[oa]|premi[eè]re?|перв(?:ый|ая|ое)",
        "second|2nd|zweite[ns]?|segund[oa]|second[oa]|seconde|deuxième|втор(?:ой|ая|ое)",
        "third|3rd|dritte[ns]?|tercer[oa]|terceir[oa]|terz[oa]|troisième|трет(?:ий|ья|ье)",
    )
]


@dataclass(frozen=True, slots=True)
class Doubt:
    """The two or three agents, by id, that an answer may be wrong about, and what it is worth to ask."""

    agents: tuple[int, ...]
    worth: float


class Described(Protocol):
    """An agent as a question names it."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...


def doubt(
    scores: Mapping[int, float], chosen: Collection[int], confidence: float, settled: Collection[int] = ()
) -> Doubt | None:
    """What a question could clear up; None where fewer than two agents are plausible. Nothing is asked about `settled` agents, which
    the pool's rules bring along with others of the answer."""
    edge = 1e-6
    odds = {a: min(max(p, edge), 1 - edge) / (1 - min(max(p, edge), 1 - edge)) for a, p in scores.items()}
    named = [a for a, p in scores.items() if a not in settled and (a in chosen or p >= PLAUSIBLE)]
    ratios = {a: 1 / odds[a] if a in chosen else odds[a] for a in named}
    ranked = sorted(ratios, key=lambda a: (-ratios[a], a))[:3]
    if len(ranked) < 2:
        return None

    def worth(agents: Sequence[int]) -> float:
        return min(1 - confidence, confidence * (prod(1 + ratios[a] for a in agents) - 1))

    agents = ranked if worth(ranked) - worth(ranked[:2]) >= THIRD else ranked[:2]
    return Doubt(tuple(sorted(agents, key=lambda a: (-scores[a], a))), max(0.0, worth(agents)))


def question(agents: Sequence[Described]) -> str:
    """A question that names two or three agents by name and the beginning of their descriptions."""
    *first, last = [_named(agent) for agent in agents]
    return f"{BEGINS}{', '.join(first)} or {last}?"


def _named(agent: Described) -> str:
    summary = re.split(r"(?<=[.;!?])\s|\n", agent.description.strip(), maxsplit=1)[0].rstrip(".;!? ")
    if len(summary) > DESCRIBED:
        summary = summary[:DESCRIBED].rsplit(" ", 1)[0].rstrip(",;:- ") + " …"
    return f"{agent.name} ({summary})" if summary else agent.name


def asked_before(text: str) -> bool:
    """Whether a turn follows a question of this module: whatever the reply, the user is not asked again at once."""
    earlier = before(text)
    return bool(earlier) and earlier[-1].role != USER and earlier[-1].content.startswith(BEGINS)


def replied(text: str, agents: Mapping[int, Described]) -> tuple[frozenset[int], frozenset[int]] | None:
    """Of a reply to a question that names agents: (those named in the question, those of them that the reply means: by the words that
    only their part of the question has, or, where it has none of these, by what it says of all: both, the second, neither). None for
    every other turn, and for a reply that says nothing of them."""
    if not asked_before(text) or not asks(text):
        return None
    asked = before(text)[-1].content
    named = {a: _named(agent) for a, agent in agents.items()}
    about = sorted((a for a in agents if named[a] in asked), key=lambda a: asked.index(named[a]))
    if not 2 <= len(about) <= 3:
        return None
    words = {a: set(_words(named[a])) for a in about}
    own = {a: mine.difference(*(others for b, others in words.items() if b != a)) for a, mine in words.items()}
    reply_words = _words(text)
    meant = [a for a in about if any(_same_word(word, its) for word in reply_words for its in own[a])]
    said = meant or _by_place(text, about)
    return None if said is None else (frozenset(about), frozenset(said))


def _by_place(text: str, about: list[int]) -> list[int] | None:
    """Those that a short reply means by no name; None where it does not say."""
    said = RUN.findall(text.casefold())
    reply = " ".join(said)
    if len(said) > SHORT:
        return None
    if NEITHER.search(reply):
        return []
    if EVERY.search(reply):
        return about
    return [agent for agent, place in zip(about, PLACES, strict=False) if place.search(reply)] or None


def _words(text: str) -> list[str]:
    return [word for word in RUN.findall(text.casefold()) if len(word) > 2]


def _same_word(one: str, other: str) -> bool:
    """The same word, or its plural: `invoice` and `invoices`."""
    short, long = sorted((one, other), key=len)
    return long.startswith(short) and (short == long or (len(short) >= STEM and len(long) - len(short) <= 2))
