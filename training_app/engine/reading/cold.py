"""Routing to agents that no model has learnt yet: by the likeness of a query to their descriptions. numpy only.

Each agent's name, description and keywords are one document; its features are words and the n-grams of 3 to 5 characters within
them, weighted by (1 + ln count) · ln((1 + N) / (1 + df)) over the N agents of the pool. The likeness is the cosine, 0 to 1. The agents
that a model knows are in the corpus too: what all descriptions share, such as "questions about", then says nothing.

With the sentence encoder, which a process has where the pool's model uses it, the likeness is the sum of that cosine, of the
largest one of the text's embedding and those of the agent's phrases, and of NAME times that of its name, which is the shortest
description and weighs a little more than any other; over 1 + NAME / 2, so that the sum stays as large as without the name. A sum of
UNLIKE counts as THRESHOLD, less in proportion, more by as much as it is more, at most 1: the order stays, and so does what the least
likeness means.

`benchmarks/cold.py` measures it by holding one agent out at a time; docs/operations.md has the figures.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import lru_cache

import numpy as np

from training_app.engine.data.arrays import FloatArray
from training_app.engine.data.examples import Agent
from training_app.engine.reading import sentences
from training_app.engine.reading.text import characters_of

#: Chosen on validation splits: see `benchmarks/cold.py`.
THRESHOLD = 0.10
RANGE = (3, 5)
UNLIKE = 0.35  # a sum that says as little as a cosine of THRESHOLD does; chosen on the demo pool and on first turns
NAME = 0.2  # of the name's own likeness in meaning; chosen on splits of five sets that are not test
_BREAK = re.compile(r"[.;:,!?\n]|\s[-–—]\s")
_WORD = re.compile(r"(?u)\b\w\w+\b")


@lru_cache(maxsize=4_000)
def _of_word(word: str) -> tuple[str, ...]:
    return (*characters_of(word, *RANGE), "=" + word, "=" + word)


def grams(text: str) -> Counter[str]:
    """How often each word and each character n-gram stands in a text; a word counts twice and begins with "=", as no n-gram does."""
    return Counter([gram for word in _WORD.findall(text.lower()) for gram in _of_word(word)])


def phrases(agent: Agent) -> list[str]:
    """What an agent says of itself, each once: its name, its description whole and by phrases, its keywords."""
    parts = [agent.name, *_BREAK.split(agent.description), agent.description, *agent.keywords]
    return list(dict.fromkeys(part.strip() for part in parts if part.strip()))


class ColdScorer:
    """The likeness of texts to the descriptions of some of a pool's agents. Immutable, safe to share between threads."""

    def __init__(self, agents: Sequence[Agent], cold: Collection[int], *, meaning: bool = False) -> None:
        """`agents` is the pool's whole roster, `cold` the ids of those to score; one without any words is never alike. `meaning`
        asks the sentence encoder too; it is loaded for that."""
        documents = {agent.id: grams(_document(agent)) for agent in agents}
        self._unseen = math.log(1 + len(documents))
        frequency = Counter(gram for document in documents.values() for gram in document)
        self._idf = {gram: math.log((1 + len(documents)) / (1 + count)) for gram, count in frequency.items()}
        self.ids = sorted(agent for agent in documents if agent in set(cold))
        places = {gram: i for i, gram in enumerate({g for agent in self.ids for g in documents[agent]})}
        weights = np.zeros((len(places), len(self.ids)), np.float32)  # [grams, cold agents]
        for column, agent in enumerate(self.ids):
            for gram, count in documents[agent].items():
                weights[places[gram], column] = (1 + math.log(count)) * self._idf[gram]
        length = np.linalg.norm(weights, axis=0)
        self._weights = weights / np.where(length > 0, length, 1)
        self._places = places
        by_id = {agent.id: agent for agent in agents}
        said = [phrases(by_id[agent]) for agent in self.ids] if meaning else []
        self._phrases = [sentences.embed(own) for own in said]  # float32[phrases, SIZE] each
        #: Changes with everything that the likeness depends on.
        self.profile = hashlib.sha256(
            json.dumps(
                [self.ids, sorted((agent.id, _document(agent)) for agent in agents), *[sentences.NAME, NAME] * meaning]
            ).encode()
        ).hexdigest()[:12]

    def scores(self, text: str) -> dict[int, float]:
        """The likeness, 0 to 1, of the text to each cold agent, rounded to four decimals as answers give it."""
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
        alike: FloatArray = np.zeros(len(self.ids), np.float32)
        if rows and square:
            alike = np.asarray(np.array(query, np.float32) @ self._weights[rows] / math.sqrt(square), np.float32)
        if self._phrases and _WORD.search(text):
            vector = sentences.embed([text])[0]
            near = [float((own @ vector).max()) if len(own) else -1.0 for own in self._phrases]
            named = [float(own[0] @ vector) if len(own) else -1.0 for own in self._phrases]
            total = alike + np.array(near, np.float32) + NAME * np.array(named, np.float32)
            total = total / np.float32(1 + NAME / 2)
            alike = np.where(total < UNLIKE, THRESHOLD / UNLIKE * total, THRESHOLD + total - UNLIKE)
            alike = np.clip(alike, 0, 1).astype(np.float32)
        return {agent: round(float(value), 4) for agent, value in zip(self.ids, alike, strict=True)}


def _document(agent: Agent) -> str:
    # The name counts twice: it is the shortest description.
    return " ".join((agent.name, agent.name, agent.description, *agent.keywords))
