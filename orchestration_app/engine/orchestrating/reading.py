"""What an orchestrator makes of texts: log-odds of a task and of an output, and a short encoding of an output. numpy only."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestration_app.engine.orchestrating.state import ENCODING, Heard
from training_app.engine.data.arrays import FloatArray
from training_app.engine.reading import sentences
from training_app.engine.reading.scorers import FittedScorer, Platt
from training_app.engine.routing.allowed import SetLimits
from training_app.engine.routing.router import Router
from training_app.engine.routing.walking import greedy

KEPT = 4096  # texts whose readings are remembered
LONGEST = 4_000  # characters of an output that are read
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Outputs:
    """A scorer of outputs: which agents are called after such an output, as recorded paths have it."""

    scorer: FittedScorer
    platt: Platt


class Reader:
    """Reads tasks and outputs for A agents. `router` is the pool's set router, whose scorer reads the task and, without `outputs`,
    the outputs; without a router, tasks say nothing and the one-shot set is empty.

    `encoding` is "words" (hashed words and character trigrams) or "sentences" (the sentence encoder through `projection`
    float32[SIZE, ENCODING]).
    """

    def __init__(
        self,
        agents: int,
        router: Router | None = None,
        outputs: Outputs | None = None,
        encoding: str = "words",
        projection: FloatArray | None = None,
    ) -> None:
        if router is not None and len(router.agents) != agents:
            raise ValueError(f"the router knows {len(router.agents)} agents, the policy {agents}")
        if encoding == "sentences" and (projection is None or projection.shape != (sentences.SIZE, ENCODING)):
            raise ValueError("the encoding sentences needs its projection")
        self.agents, self.router, self.outputs = agents, router, outputs
        self.encoding, self.projection = encoding, projection
        self._kept: dict[str, Heard] = {}

    def task(self, text: str) -> FloatArray:
        """The scorer's log-odds of a task, float32[A]; zeros without a router."""
        return np.zeros(self.agents, np.float32) if self.router is None else self.router.reader.log_odds([text])[0]

    def one_shot(self, log_odds: FloatArray) -> FloatArray:
        """The set router's sets by log-odds float32[N, A] alone, not by what says whether anybody is needed, as 0 and 1."""
        if self.router is None:
            return np.zeros_like(log_odds)
        chosen, _, _ = greedy(
            self.router.policy,
            log_odds,
            None,
            np.ones(log_odds.shape, np.bool_),
            SetLimits(*self.router.limits, self.router.calibration.margin),
        )
        return chosen.astype(np.float32)

    def hear(self, text: str) -> Heard:
        """What an output says. Outputs repeat in training, so some are remembered."""
        text = text[:LONGEST]
        heard = self._kept.get(text)
        if heard is None:
            heard = Heard(self._log_odds(text), self._encoding(text))
            if len(self._kept) >= KEPT:
                self._kept = {}  # a new dictionary: another thread may be reading the old one
            self._kept[text] = heard
        return heard

    def _log_odds(self, text: str) -> FloatArray:
        if self.outputs is not None:
            return self.outputs.platt(self.outputs.scorer.logits([text]))[0]
        return self.task(text)

    def _encoding(self, text: str) -> FloatArray:
        if self.encoding == "sentences" and self.projection is not None:
            return (sentences.embed([text])[0] @ self.projection).astype(np.float32)
        return words_encoding(text)


def silence(agents: int) -> Heard:
    """What a failed call says: nothing."""
    return Heard(np.zeros(agents, np.float32), np.zeros(ENCODING, np.float32))


def words_encoding(text: str) -> FloatArray:
    """The sum of a direction for each word and character trigram of a text, drawn by its hash (a random projection: Achlioptas 2003),
    of length one: float32[ENCODING]. Texts that differ in a word point elsewhere, however short they are."""
    words = _WORD.findall(text.casefold()) or [text]
    parts = [part for word in words for part in (word, *_trigrams(f" {word} "))]
    drawn = b"".join(
        hashlib.blake2b(part.encode("utf-8", "surrogatepass"), digest_size=ENCODING).digest() for part in parts
    )
    direction = (np.frombuffer(drawn, np.uint8).reshape(len(parts), ENCODING) - np.float32(127.5)).sum(
        axis=0
    )  # uniform, mean 0
    return (direction / np.sqrt(direction @ direction)).astype(np.float32)


def _trigrams(padded: str) -> list[str]:
    return [padded[i : i + 3] for i in range(max(len(padded) - 2, 1))]


def fitted_projection(texts: list[str]) -> NDArray[Any]:
    """The ENCODING directions in which the sentence encodings of some texts differ most, float32[SIZE, ENCODING]."""
    vectors = sentences.embed(texts)
    _, _, directions = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    projection = np.zeros((sentences.SIZE, ENCODING), np.float32)
    leading = directions[:ENCODING].T
    projection[:, : leading.shape[1]] = leading
    return projection
