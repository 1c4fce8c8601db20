"""Made-up pools of any size, for what grows with queries and agents.

Every agent has words of its own, some of them shared with another agent; a query joins one clause per required agent,
each with a few of that agent's words among common ones whose frequency follows Zipf's law, and now and then a name
that never comes again. New queries so bring new words for ever, as in real collections. All words are invented.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import accumulate

from training_app.engine.data.examples import Agent, Example

OWN_WORDS = 40  # words of one agent; every tenth is another agent's too
COMMON_WORDS = 20_000
SIZES = (0.05, 0.45, 0.3, 0.15, 0.05)  # share of queries that need 0, 1, 2, 3 and 4 agents
HELD_OUT = 5_000  # most validation queries, and most test queries
_ONSETS = (
    "b",
    "br",
    "d",
    "dr",
    "f",
    "g",
    "gl",
    "h",
    "k",
    "kl",
    "l",
    "m",
    "n",
    "p",
    "pl",
    "r",
    "s",
    "st",
    "t",
    "tr",
    "v",
)
_NUCLEI = ("a", "e", "i", "o", "u", "ai", "ou")
_CODAS = ("", "", "n", "r", "s", "l", "m", "nd")


def _word(rng: random.Random) -> str:
    syllables = rng.choice((1, 2, 2, 3))
    return "".join(rng.choice(_ONSETS) + rng.choice(_NUCLEI) + rng.choice(_CODAS) for _ in range(syllables))


def pool(queries: int, agents: int, seed: int = 0) -> tuple[tuple[Agent, ...], list[Example]]:
    """`agents` agents, and `queries` training queries with a tenth as many, at most HELD_OUT, each for validation and
    test. Some agents are needed thirty times as often as others."""
    rng = random.Random(seed)
    own = [[_word(rng) for _ in range(OWN_WORDS)] for _ in range(agents)]
    for words in own:
        for i in range(0, OWN_WORDS, 10):
            words[i] = rng.choice(rng.choice(own))
    common = [_word(rng) for _ in range(COMMON_WORDS)]
    falling = list(accumulate(1 / rank for rank in range(1, COMMON_WORDS + 1)))
    wanted = list(accumulate(1 / (1 + 30 * a / agents) for a in range(agents)))
    roster = tuple(Agent(a, f"Agent {a}", " ".join(own[a][:8]), tuple(own[a][:4])) for a in range(agents))

    def clause(words: list[str]) -> str:
        said = rng.choices(common, cum_weights=falling, k=rng.randint(3, 7)) + words
        if rng.random() < 0.3:
            said.append(_word(rng) + _word(rng))  # a name
        rng.shuffle(said)
        return " ".join(said)

    def drawn(split: str, count: int) -> Iterator[Example]:
        for i in range(count):
            size = min(rng.choices(range(len(SIZES)), SIZES)[0], agents)
            needed: set[int] = set()
            while len(needed) < size:
                needed.add(rng.choices(range(agents), cum_weights=wanted)[0])
            clauses = [clause(rng.sample(own[a], rng.choice((1, 2, 2, 3)))) for a in sorted(needed)]
            rng.shuffle(clauses)
            yield Example(f"{split}-{i}", ", ".join(clauses or [clause([])]), frozenset(needed), None, split)

    held_out = min(HELD_OUT, max(100, queries // 10))
    return roster, [*drawn("train", queries), *drawn("val", held_out), *drawn("test", held_out)]
