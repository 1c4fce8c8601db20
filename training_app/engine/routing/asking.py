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

#: Only agents of the answer are named in a question, and others that are at least so likely: about the rest nobody would expect one.
PLAUSIBLE = 0.2
#: A third agent is asked about where it adds so much.
THIRD = 0.05
#: Characters of a description in a question.
DESCRIBED = 70
#: How every question begins, by which a reply to one is told from others.
BEGINS = "Is this about "


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
    """Of a reply to a question that names agents: (those named in the question, those of them that the reply means, by the words that
    only their part of the question has). None for every other turn, and for a reply that means none of them."""
    if not asked_before(text) or not asks(text):
        return None
    asked = before(text)[-1].content
    about = {a: agent for a, agent in agents.items() if _named(agent) in asked}
    if not 2 <= len(about) <= 3:
        return None
    words = {a: set(_words(_named(agent))) for a, agent in about.items()}
    own = {a: mine.difference(*(others for b, others in words.items() if b != a)) for a, mine in words.items()}
    reply_words = set(_words(text))
    meant = frozenset(a for a in about if reply_words & own[a])
    return (frozenset(about), meant) if meant else None


def _words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.casefold()) if len(word) > 2]
