"""What a router makes of a text before it chooses: log-odds of every agent, and how likely any agent is needed. numpy only."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.data.artifact import Artifact
from training_app.engine.reading.needed import Needed, score
from training_app.engine.reading.precedents import Likeness, PrecedentMargins
from training_app.engine.reading.scorers import READ_MEANING, FittedScorer, Platt, load_scorer
from training_app.engine.reading.text import LinearMargins
from training_app.engine.reading.tidying.tidied import TidiedMargins

#: Texts whose log-odds a reader keeps, and numbers of them all together: 4 MB at most.
REMEMBERED, REMEMBERED_NUMBERS = 2_000, 1_000_000


class TextReader:
    """A scorer with its scale, and what else is read of texts. Safe to share between threads."""

    def __init__(
        self, scorer: FittedScorer, platt: Platt, features: FittedScorer | None = None, needed: Needed | None = None
    ) -> None:
        """`features`, where given, is what the policy sees instead of the scorer's log-odds (raw TF-IDF). `needed`, where given, says
        how likely a text needs any agent."""
        self.scorer = scorer
        self._platt, self._features, self._needed = platt, features, needed
        if needed is not None and isinstance(needed.nearness, Likeness):
            for child in getattr(scorer, "children", ()):
                if isinstance(child, PrecedentMargins):
                    needed.nearness.join(child)
        self._remembered: dict[bytes, tuple[FloatArray, float]] = {}
        self._room = min(REMEMBERED, REMEMBERED_NUMBERS // max(1, len(platt.scale)))

    @classmethod
    def from_artifact(cls, parts: Artifact) -> TextReader:
        """Raises KeyError, TypeError or ValueError where the parts do not fit."""
        config = parts.config
        return cls(
            scorer_of("scorer", parts),
            Platt(parts.tensors["platt.scale"], parts.tensors["platt.shift"]),
            scorer_of("features", parts) if config.get("features") else None,
            Needed.from_parts(config["needed"], parts.under("needed")) if config.get("needed") else None,
        )

    @property
    def scales(self) -> tuple[int, int]:
        """Of how many agents it has a scale and a shift."""
        return len(self._platt.scale), len(self._platt.shift)

    @property
    def reads_meaning(self) -> bool:
        """Whether reading asks the sentence encoder."""
        kinds = (self.scorer.kind, *(child.kind for child in getattr(self.scorer, "children", ())))
        return not READ_MEANING.isdisjoint(kinds) or (self._needed is not None and self._needed.reads_meaning)

    def commonest_words(self, count: int) -> list[str]:
        """So many of the words that most training queries have; [] where no part knows words."""
        for part in (self.scorer, *getattr(self.scorer, "children", ())):
            if isinstance(part, LinearMargins):
                return part.tfidf.commonest_words(count)
        return []

    def one(self, text: str) -> tuple[FloatArray, float]:
        """What the scorer says of one text, float32[A], and how near it is to what was learnt from; of a text that was read not long
        ago what was said then. Texts are known by their hashes: none is kept."""
        if type(text) is not str:  # a turn depends on what was said before it
            return self._read_anew(text)
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        reading = self._remembered.get(key)
        if reading is None:
            reading = self._read_anew(text)
            if len(self._remembered) >= self._room:
                self._remembered = {}  # all is forgotten: no book-keeping on the hot path
            self._remembered[key] = reading
        return reading

    def _read_anew(self, text: str) -> tuple[FloatArray, float]:
        if isinstance(self.scorer, TidiedMargins):  # once for both that read it
            read = self.scorer.tidied((text,))
            log_odds = self.scorer.child.logits(read)
        else:
            read, log_odds = [text], self.scorer.logits((text,))
        return self._platt(log_odds)[0], self._needed.nearness.of(read[0]) if self._needed else 0.0

    def log_odds(self, texts: Sequence[str]) -> FloatArray:
        """The log-odds of each agent, float32[N, A]."""
        return self._platt(self.scorer.logits(texts))

    def seen(self, texts: Sequence[str], log_odds: FloatArray | None = None) -> FloatArray:
        """What the policy sees of each text: the log-odds float32[N, A], which are read where not given, or features float32[N, D]
        where it was trained on those."""
        if self._features is not None:
            return self._features.logits(texts)
        return self.log_odds(texts) if log_odds is None else log_odds

    def needed(self, texts: Sequence[str], log_odds: FloatArray, available: BoolArray | None = None) -> Any:
        """Log-odds that any agent is needed, float64[N]; None where the reader has not learnt them."""
        if self._needed is None:
            return None
        # Nearness is that of what the scorer reads.
        read = self.scorer.tidied(texts) if isinstance(self.scorer, TidiedMargins) else texts
        return self._needed.logits(read, log_odds, available)

    def needed_by_one(self, nearness: float, log_odds: FloatArray, available: BoolArray) -> float | None:
        """`needed` of one text by what `one` says of it, float32[A], and who is available, bool[A]."""
        return self._needed.logit_of(nearness, log_odds, available) if self._needed else None

    def answerable(self, texts: Sequence[str]) -> FloatArray:
        """How likely any agent is needed at all, float32[N], larger for likelier: log-odds where the reader has learnt them, else what
        the agents' log-odds say together."""
        log_odds = self.log_odds(texts)
        needed = self.needed(texts, log_odds)
        return (score(log_odds) if needed is None else needed).astype(np.float32)


def scorer_of(name: str, parts: Artifact) -> FittedScorer:
    """The scorer that an artifact holds as `name`: the inverse of `scorer_parts`. Raises KeyError, TypeError or ValueError."""
    entry = parts.config[name]
    settings = {**entry.get("settings", {}), **parts.vocabulary.get(name, {})}
    return load_scorer(str(entry["kind"]), settings, parts.under(name))


def scorer_parts(name: str, scorer: FittedScorer) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """(entry of config.json, entry of vocabulary.json, tensors) of a scorer that an artifact holds as `name`: long
    lists of texts go to the vocabulary."""
    settings: dict[str, Any] = {}
    vocabulary: dict[str, Any] = {}
    for key, value in scorer.config().items():
        long = isinstance(value, list) and len(value) > 16 and isinstance(value[0], str)
        (vocabulary if long or isinstance(value, dict) else settings)[key] = value
    tensors = {f"{name}.{key}": tensor for key, tensor in scorer.tensors().items()}
    return {"kind": scorer.kind, "settings": settings}, vocabulary, tensors
