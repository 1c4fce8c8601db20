"""Whether the queries that a router is tested on say what it was trained on: then its figures tell nothing of queries in new words.

Two texts are as near as their sets of words, by Jaccard. Numbers count as one word, since an order or a date differs in every text
that somebody made of the same sentence. Standard library only.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from math import ceil

from training_app.engine.data.conversations import transcript
from training_app.engine.data.examples import Example
from training_app.engine.reading.languages import RUN

#: Texts this near differ in about one word of four. Of test queries that people wrote, a twentieth to a half are so near a
#: training query (0.04 in mixsnips, 0.10 in a pool of 736, 0.22 in nlupp, 0.45 in clinc with its 100 paraphrases for each intent);
#: of those made of 83 sentences with other names in them, 0.65.
NEAR = 0.6
#: Most tested queries that are looked at, and most training queries that they are held against.
TESTED, LEARNT = 2_000, 20_000
_DIGITS = re.compile(r"\d+")


def figures(tested: Sequence[Example], learnt: Sequence[Example]) -> dict[str, int]:
    """How many of the tested queries, or of a sample of them, are near a training query of another group: {"queries", "near"}."""
    some = tested[:: max(1, ceil(len(tested) / TESTED))]
    others = learnt[:: max(1, ceil(len(learnt) / LEARNT))]
    groups = [e.fold_key for e in some], [e.fold_key for e in others]
    found = nearest([_words(e.text) for e in some], [_words(e.text) for e in others], NEAR, groups)
    return {"queries": len(some), "near": sum(likeness >= NEAR for likeness, _place in found)}


def _words(text: str) -> frozenset[str]:
    return frozenset(_DIGITS.sub("0", word) for word in RUN.findall(transcript(text).lower()))


def nearest(
    held: Sequence[frozenset[str]],
    others: Sequence[frozenset[str]],
    least: float,
    groups: tuple[Sequence[str], Sequence[str]] | None = None,
) -> list[tuple[float, int]]:
    """For each set the Jaccard and the place of its nearest among the others, where that is at least `least`; else (less, some place
    or -1). `groups` of both: sets of the same group are not held against each other.

    By the prefix filter of Chaudhuri, Ganti and Kaushik (2006): sets that are so near share one of their rarest words,
    |A| - ceil(t |A|) + 1 of them.
    """
    often = Counter(word for words in others for word in words)

    def prefix(words: frozenset[str]) -> list[str]:
        rarest = sorted(words, key=lambda word: (often[word], word))
        return rarest[: len(words) - ceil(least * len(words) - 1e-9) + 1] if words else []

    holders: dict[str, list[int]] = defaultdict(list)
    for i, words in enumerate(others):
        for word in prefix(words):
            holders[word].append(i)
    found = []
    for place, words in enumerate(held):
        best = (0.0, -1)
        for i in {i for word in prefix(words) for i in holders.get(word, ())}:
            if groups and groups[0][place] == groups[1][i]:
                continue
            shared = len(words & others[i])
            best = max(best, (shared / (len(words) + len(others[i]) - shared), i))
        found.append(best)
    return found
