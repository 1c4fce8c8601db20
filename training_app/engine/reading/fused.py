"""A linear model per agent that sees n-grams and the sentence embedding of a text at once. numpy only; `fused_fit.py` fits it.

    margin(a) = W_a · [tf-idf(x) ; SCALE · e(x)] + b_a

n-grams tell apart what was met, the embedding says what was not met is like it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import FloatArray
from training_app.engine.reading import sentences
from training_app.engine.reading.text import LinearMargins


class FusedMargins:
    """The `linear` margins of the n-grams, and `weights` float32[SIZE, agents] of the embedding, SCALE included."""

    kind: ClassVar[str] = "fused"

    def __init__(self, linear: LinearMargins, weights: FloatArray) -> None:
        if weights.shape != (sentences.SIZE, len(linear.bias)):
            raise ValueError(
                f"weights are {weights.shape} for {len(linear.bias)} agents and {sentences.SIZE} numbers a text"
            )
        self.linear, self.weights = linear, np.ascontiguousarray(weights, np.float32)

    def logits(self, texts: Sequence[str]) -> FloatArray:
        """Margins, float32[len(texts), agents]."""
        log_odds = self.linear.logits(texts)
        for row, vector in enumerate(sentences.embed(texts)):
            # Row by row, by the product that one text takes: a batch answers as its texts would.
            log_odds[row] = log_odds[row] + vector @ self.weights
        return log_odds

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All arrays, by name."""
        return {"sentence_weights": self.weights, **self.linear.tensors()}

    def config(self) -> dict[str, Any]:
        """All else; of the encoder its name, which holds the hash of its weights."""
        return {"sentence_encoder": sentences.NAME, **self.linear.config()}

    @classmethod
    def from_tensors(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> FusedMargins:
        """Raises ValueError where something is missing, or the encoder is another."""
        try:
            sentences.check(str(config["sentence_encoder"]))
            return cls(LinearMargins.from_tensors(config, tensors), tensors["sentence_weights"])
        except KeyError as error:
            raise ValueError(f"the fused scorer lacks {error}") from None

    def explain(self, text: str, top: int = 8) -> list[list[tuple[str, float]]]:
        """Per agent, the n-grams that moved its margin most; of the embedding nothing can be told by parts."""
        return self.linear.explain(text, top)
