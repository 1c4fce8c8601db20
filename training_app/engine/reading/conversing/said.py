"""What an agent says of itself, and how alike a text is to that by words and n-grams of 3 to 5 characters. numpy only.

Each agent's name, description and keywords are one document; its features are words and the n-grams within them, weighted by
(1 + ln count) · ln((1 + N) / (1 + df)) over the N agents of the pool. The likeness is the cosine, 0 to 1. All agents of the pool
are in the corpus: what all descriptions share, such as "questions about", then says nothing.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np

from training_app.engine.data.arrays import FloatArray
from training_app.engine.data.examples import Agent
from training_app.engine.reading.text import characters_of, single_words

RANGE = (3, 5)
_BREAK = re.compile(r"[.;:,!?\n。、，；：！？،؛؟।]|\s[-–—]\s")
WORD = re.compile(r"\w\w")


@lru_cache(maxsize=4_000)
def _of_word(word: str) -> tuple[str, ...]:
    return (*characters_of(word, *RANGE), "=" + word, "=" + word)


def grams(text: str) -> Counter[str]:
    """How often each word and each character n-gram stands in a text; a word counts twice and begins with "=", as no n-gram does."""
    return Counter([gram for word in single_words(text.lower()) for gram in _of_word(word)])


def phrases(agent: Agent) -> list[str]:
    """What an agent says of itself, each once: its name, its description whole and by phrases, its keywords."""
    parts = [agent.name, *_BREAK.split(agent.description), agent.description, *agent.keywords]
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))


class WordLikeness:
    """The cosine of texts and the descriptions of some of a pool's agents, by words and n-grams. Immutable, safe to share between
    threads."""

    def __init__(self, agents: Sequence[Agent], scored: Collection[int]) -> None:
        """`agents` is the pool's whole roster, `scored` the ids of those to compare; one without any words is never alike."""
        documents = {agent.id: grams(document(agent)) for agent in agents}
        self._unseen = math.log(1 + len(documents))
        frequency = Counter(gram for document in documents.values() for gram in document)
        self._idf = {gram: math.log((1 + len(documents)) / (1 + count)) for gram, count in frequency.items()}
        self.ids = [agent for agent in documents if agent in set(scored)]
        places = {gram: i for i, gram in enumerate({g for agent in self.ids for g in documents[agent]})}
        weights = np.zeros((len(places), len(self.ids)), np.float32)  # [grams, agents]
        for column, agent in enumerate(self.ids):
            for gram, count in documents[agent].items():
                weights[places[gram], column] = (1 + math.log(count)) * self._idf[gram]
        length = np.linalg.norm(weights, axis=0)
        self._weights = weights / np.where(length > 0, length, 1)
        self._places = places

    def of(self, text: str) -> FloatArray:
        """The cosine with each agent, float32[len(ids)], 0 to 1."""
        find, idf, unseen = self._places.get, self._idf.get, self._unseen
        square, query, rows = 0.0, [], []
        for gram, count in grams(text).items():
            weight = idf(gram, unseen)
            if count > 1:
                weight *= 1 + math.log(count)
            square += weight * weight
            place = find(gram)
            if place is not None:
                query.append(weight)
                rows.append(place)
        if not (rows and square):
            return np.zeros(len(self.ids), np.float32)
        return np.asarray(np.array(query, np.float32) @ self._weights[rows] / math.sqrt(square), np.float32)


def document(agent: Agent) -> str:
    """All that an agent says of itself as one text."""
    # The name counts twice: it is the shortest description.
    return " ".join((agent.name, agent.name, agent.description, *agent.keywords))
