"""A linear scorer on sentence embeddings, for users who have an embedding model in a local folder.

The model is read with the optional package `sentence-transformers`, which brings torch into every process that
routes; nothing is downloaded, and neither the default settings nor the tests need it. The folder is not part of the
artifact: it must stand at the same path wherever the router is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from training_app.engine.config import ConfigError
from training_app.engine.data.arrays import FloatArray


@lru_cache(maxsize=2)
def _model(path: str) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ConfigError("encoder", "embedding needs the package sentence-transformers: install it first") from error
    if not Path(path).is_dir():
        raise ConfigError("embedding_path", f"{path} is not a folder with a sentence-embedding model")
    return SentenceTransformer(path, device="cpu", local_files_only=True)


def embed(path: str, texts: Sequence[str]) -> FloatArray:
    """Embeddings of length one, float32[N, D]. Raises ConfigError where the package or the folder is missing."""
    if not texts:
        return np.zeros((0, 0), np.float32)
    vectors = _model(path).encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
    return np.asarray(vectors, np.float32)


class EmbeddingMargins:
    """margin = embedding @ weights + bias; weights float32[D, agents], bias float32[agents]."""

    kind: ClassVar[str] = "embedding"

    def __init__(self, path: str, weights: FloatArray, bias: FloatArray) -> None:
        if weights.ndim != 2 or weights.shape[1] != len(bias):
            raise ValueError(f"weights are {weights.shape} for {len(bias)} agents")
        self.path, self.weights, self.bias = path, weights, bias

    def logits(self, texts: Sequence[str]) -> FloatArray:
        """Margins, float32[len(texts), agents]."""
        return np.asarray(embed(self.path, texts) @ self.weights + self.bias, np.float32)

    def tensors(self) -> dict[str, NDArray[Any]]:
        return {"weights": self.weights, "bias": self.bias}

    def config(self) -> dict[str, Any]:
        return {"path": self.path}

    @classmethod
    def from_tensors(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> EmbeddingMargins:
        """Raises ValueError where something is missing."""
        try:
            return cls(str(config["path"]), tensors["weights"], tensors["bias"])
        except KeyError as error:
            raise ValueError(f"the embedding scorer lacks {error}") from None

    def explain(self, text: str, top: int = 8) -> list[list[tuple[str, float]]]:
        """An embedding cannot say which words moved it."""
        return [[] for _ in self.bias]
