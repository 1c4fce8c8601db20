"""A fine-tuned sentence encoder as a scorer: the served half. numpy, and onnxruntime and tokenizers once a text is read; never torch.

    e(x)      = encoder(tokens of x),  of length one      the graph that `teacher_fit.py` exported
    margin(a) = W_a · e(x) + b_a

The artifact holds graph and tokenizer whole, so the folder that the encoder came from need not stand where it is served. A graph is
data: it runs no code of its own, and one that would read other files is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import FloatArray

DECIMALS = 5  # of a vector that are kept
LONGEST = 8_000  # characters of a text that are tokenized
#: How a graph of ONNX says that weights lie in a file beside it: the key of a name and value pair.
ELSEWHERE = b"\x0a\x08location\x12"
INSTALL = "install requirements-teacher.txt (or pip install 'routerweb-engine[teacher]')"
#: What fine-tunes a teacher and exports it; onnxruntime and tokenizers serve it.
PACKAGES = ("transformers", "tokenizers", "onnxruntime", "onnx")


class TeacherError(ValueError):
    """A teacher that cannot be read or served; the message says why and what to do."""


def served_here() -> bool:
    """Whether what serves a teacher is installed. Loads nothing."""
    return find_spec("onnxruntime") is not None and find_spec("tokenizers") is not None


def missing_packages() -> list[str]:
    """Those of PACKAGES that are not installed. Loads nothing."""
    return [name for name in PACKAGES if find_spec(name) is None]


class TeacherMargins:
    """`graph` and `tokenizer` uint8[bytes] (ONNX; the JSON of tokenizers), `weights` float32[D, A], `bias` float32[A]; `about` says
    where the encoder came from, `prefix` what stands before each text, and `tokens` how many are read."""

    kind: ClassVar[str] = "teacher"

    def __init__(
        self,
        graph: NDArray[np.uint8],
        tokenizer: NDArray[np.uint8],
        weights: FloatArray,
        bias: FloatArray,
        *,
        tokens: int,
        prefix: str = "",
        about: Mapping[str, Any],
    ) -> None:
        if weights.ndim != 2 or weights.shape[1] != len(bias):
            raise ValueError(f"weights are {weights.shape} for {len(bias)} agents")
        if graph.dtype != np.uint8 or tokenizer.dtype != np.uint8:
            raise ValueError("graph and tokenizer of a teacher are bytes")
        if ELSEWHERE in graph.tobytes():
            raise ValueError("the teacher's graph names other files: only one that holds its weights is read")
        self.graph, self.tokenizer, self.weights, self.bias = graph, tokenizer, weights, bias
        self.tokens, self.prefix, self.about = tokens, prefix, dict(about)
        self._reader: Any = None
        self._lock = threading.Lock()

    def logits(self, texts: Sequence[str]) -> FloatArray:
        """Margins, float32[len(texts), agents]."""
        log_odds = np.empty((len(texts), len(self.bias)), np.float32)
        for row, vector in enumerate(self.vectors(texts)):
            log_odds[row] = vector @ self.weights + self.bias
        return log_odds

    def vectors(self, texts: Sequence[str]) -> FloatArray:
        """float32[N, D] of length one. One text at a time: int8 activations are scaled over all that is read at once, and a text's
        answer may not depend on its neighbours. Raises TeacherError."""
        tokenizer, session = self._loaded()
        vectors = np.empty((len(texts), self.weights.shape[0]), np.float32)
        for row, text in enumerate(texts):
            ids = np.array([tokenizer.encode(readable(self.prefix + text)).ids], np.int64)
            (vector,) = session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})
            vectors[row] = np.round(vector[0], DECIMALS)
        return vectors

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All arrays, by name."""
        return {"graph": self.graph, "tokenizer": self.tokenizer, "weights": self.weights, "bias": self.bias}

    def config(self) -> dict[str, Any]:
        """All else."""
        return {"tokens": self.tokens, "prefix": self.prefix, "about": self.about}

    @classmethod
    def from_tensors(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> TeacherMargins:
        """Raises ValueError where something is missing, and TeacherError where nothing here can serve it."""
        if not served_here():
            raise TeacherError(f"the model reads with a teacher, which needs onnxruntime and tokenizers: {INSTALL}")
        try:
            return cls(
                tensors["graph"],
                tensors["tokenizer"],
                tensors["weights"],
                tensors["bias"],
                tokens=int(config["tokens"]),
                prefix=str(config["prefix"]),
                about=config["about"],
            )
        except KeyError as error:
            raise ValueError(f"the teacher lacks {error}") from None

    def explain(self, text: str, top: int = 8) -> list[list[tuple[str, float]]]:
        """An embedding cannot say which words moved it."""
        return [[] for _ in self.bias]

    def _loaded(self) -> Any:
        """(tokenizer, session), loaded when the first text is read: a process that never routes with the model never pays."""
        if self._reader is None:
            with self._lock:
                if self._reader is None:
                    self._reader = (tokenizer_of(self.tokenizer.tobytes(), self.tokens), _session(self.graph.tobytes()))
        return self._reader


def readable(text: str) -> str:
    """What a tokenizer can take: half a surrogate pair has no UTF-8 and is read as a question mark."""
    return text[:LONGEST].encode("utf-8", "replace").decode("utf-8")


def tokenizer_of(saved: bytes, tokens: int) -> Any:
    """The tokenizer of a `tokenizer.json`, that gives at most `tokens` a text and no padding. Raises TeacherError."""
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise TeacherError(f"a teacher needs the package tokenizers: {INSTALL}") from error
    try:
        tokenizer = Tokenizer.from_str(saved.decode("utf-8"))
    except Exception as error:  # the library raises plain Exception
        raise TeacherError(f"tokenizer.json cannot be read: {error}") from None
    tokenizer.no_padding()
    tokenizer.enable_truncation(tokens)
    return tokenizer


def _session(graph: bytes) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise TeacherError(f"a teacher needs the package onnxruntime: {INSTALL}") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # an arena keeps what the longest text took
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the library's errors have no public base
        raise TeacherError(f"the teacher's graph cannot be read: {error}") from None
