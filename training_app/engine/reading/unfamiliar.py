"""Texts that a model cannot read: in a language that none of its training queries is in. numpy only.

N-grams of an unknown language say nothing, so that a model trained on them answers "nobody", surely. Where few of a text's n-grams are
known and its language is not one of the training queries', the descriptions, some training queries of each agent and a linear model of
the embeddings of all decide by the sentence encoder (`descriptions.py`), with log-odds of their own; where the encoder does not read
the language either, the answer is the best guess and says that it does not know.

    familiar(x) = share of x's n-grams that training queries have          strange: familiar < LEAST · its 5 % quantile on rows
    left out

n-grams are those of 4 characters in words with a space on both sides, and pairs of characters in scripts without spaces.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.examples import Agent
from training_app.engine.data.rows import Rows
from training_app.engine.reading import sentences
from training_app.engine.reading.descriptions import Descriptions, Labeled
from training_app.engine.reading.languages import ENCODED, SPACELESS, counted, language_of

LEAST = 0.8  # of the familiarity that 95 % of the pool's own queries exceed; on five pools 1 % of validation rows is below it
NO_LANGUAGE = 0.7  # of that level, for a text whose language cannot be told
SPOKEN = 0.02  # of the training queries: a language of so many is one of theirs
MOST_GRAMS = 100_000
EXAMPLES = 20  # of an agent
LABELED = 3_000  # queries that teach `Labeled` at most
KEPT = 20_000  # tokens that are remembered
LONGEST = 4_000  # characters that are looked at
_TOKEN = re.compile(rf"[{SPACELESS}]+|[^\W\d_{SPACELESS}]+")
_SPACELESS = re.compile(f"[{SPACELESS}]")


class Unfamiliar:
    """What tells strange texts, and what reads them. Immutable but for what it remembers; safe to share between threads."""

    def __init__(
        self,
        grams: NDArray[np.uint32],
        level: float,
        languages: Sequence[str],
        descriptions: Descriptions,
        shared_words: bool = True,
    ) -> None:
        """`grams` are hashes of the known n-grams, ascending; `languages` those of the training queries, told with words that
        languages share or without."""
        self.grams, self.level, self.languages = grams, level, frozenset(languages)
        self.shared_words = shared_words
        self.descriptions = descriptions
        self._known = frozenset(grams.tolist())
        self._tokens: dict[str, tuple[int, int]] = {}

    @classmethod
    def fit(cls, rows: Rows, agents: Sequence[Agent], *, meaning: bool, seed: int) -> Unfamiliar | None:
        """From training rows; None where they have no letters. `meaning`: whether the sentence encoder may read strange texts."""
        texts = [str(text) for text in rows.texts]
        counts = Counter(gram for text in texts for gram in set(grams_of(text)))
        if not counts:
            return None
        known_grams = np.sort(np.array([gram for gram, _count in counts.most_common(MOST_GRAMS)], np.uint32))
        order = np.random.Generator(np.random.PCG64(seed)).permutation(len(texts))
        half = {gram for i in order[::2].tolist() for gram in grams_of(texts[i])}
        others = [grams_of(texts[i]) for i in order[1::2].tolist()]
        shares = [sum(gram in half for gram in grams) / len(grams) for grams in others if grams]
        level = LEAST * float(np.quantile(shares, 0.05)) if shares else 0.0
        languages = [language for language, n in counted(texts).items() if n >= SPOKEN * len(texts)]
        examples, nobody = _examples(rows, agents, seed) if meaning else ({}, [])
        labeled = None
        if meaning:
            some = order[:LABELED]
            labeled = Labeled.fit([texts[i] for i in some.tolist()], rows.required[some], rows.asked[some])
        described = Descriptions(agents, meaning=meaning, examples=examples, nobody=nobody, labeled=labeled)
        return cls(known_grams, level, languages, described)

    def strange(self, text: str) -> bool:
        """Whether the model cannot read the text."""
        familiar, total = 0, 0
        for token in _TOKEN.findall(str(text)[:LONGEST].lower()):
            counted_before = self._tokens.get(token)
            if counted_before is None:
                grams = _grams_of_token(token)
                counted_before = sum(gram in self._known for gram in grams), len(grams)
                if len(self._tokens) < KEPT and len(token) <= 40:
                    self._tokens[token] = counted_before
            familiar, total = familiar + counted_before[0], total + counted_before[1]
        if not total or familiar >= self.level * total:
            return False
        language = language_of(text, shared=self.shared_words)
        return language not in self.languages and bool(language or familiar < NO_LANGUAGE * self.level * total)

    def readable(self, text: str) -> bool:
        """Whether the sentence encoder reads the language of a strange text."""
        return self.descriptions.meaning and language_of(text, shared=self.shared_words) in ENCODED | {""}

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All arrays, by name."""
        return {"grams": self.grams, **self.descriptions.tensors()}

    def config(self) -> dict[str, Any]:
        """All else, as JSON-able values."""
        return {
            "level": self.level,
            "languages": sorted(self.languages),
            "shared_words": self.shared_words,
            "descriptions": self.descriptions.config(),
        }

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Unfamiliar:
        """The inverse of `config` and `tensors`. Raises ValueError, TypeError or KeyError where they do not fit together."""
        grams = tensors["grams"]
        if grams.dtype != np.uint32 or grams.ndim != 1:
            raise ValueError("unfamiliar: n-grams of the wrong kind")
        descriptions = Descriptions.from_tensors(config["descriptions"], tensors)
        languages = [str(language) for language in config["languages"]]
        return cls(grams, float(config["level"]), languages, descriptions, bool(config.get("shared_words", False)))


def grams_of(text: str) -> list[int]:
    """The hashes of a text's n-grams, with repeats."""
    return [gram for token in _TOKEN.findall(text[:LONGEST].lower()) for gram in _grams_of_token(token)]


def _grams_of_token(token: str) -> list[int]:
    if _SPACELESS.match(token):
        parts = [token[i : i + 2] for i in range(max(1, len(token) - 1))]
    else:
        padded = f" {token} "
        parts = [padded[i : i + 4] for i in range(max(1, len(padded) - 3))]
    return [crc32(part.encode("utf-8", "replace")) for part in parts]


def _examples(rows: Rows, agents: Sequence[Agent], seed: int) -> tuple[dict[int, list[str]], list[str]]:
    """Training queries that need one agent alone, by its id, and some that need nobody."""
    texts_of: dict[int, list[str]] = {agent.id: [] for agent in agents}
    nobody: list[str] = []
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)  # noqa: S311 - a sample needs no secret
    for i in order:
        places = np.flatnonzero(rows.required[i])
        if len(places) > 1 or not rows.asked[i].all():
            continue
        own = texts_of[agents[int(places[0])].id] if len(places) else nobody
        if len(own) < EXAMPLES:
            own.append(str(rows.texts[i])[: sentences.LONGEST])
    return texts_of, nobody
