"""How hard a query is, what it is about, and whether it needs a tool: three heads on one small layer, from labels. numpy only.

    h = tanh(φ(text) W)        complexity = σ(h u), category = softmax(h V), tool = σ(h t)
    loss = λ_c · MSE + λ_cat · CE + λ_t · BCE        λ = 1, 1, ½, minimised by Adam (Kingma and Ba 2015)

φ is a text's hashed word n-grams beside its length. Labels come from people, from outcomes (1 − mean success over backends is
how hard a query was) or from an LLM. After AAMC's estimator (Rjoub et al. 2025), which takes a transformer; this one needs none.
Temperatures of the two probabilities are set on validation. `generated` makes up queries with all three labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestration_app.engine.backends.grams import hashes

Floats = NDArray[np.float32]
PLACES, HIDDEN = 2_048, 32
WEIGHTS = (1.0, 1.0, 0.5)  # λ of complexity, category, tool
EPOCHS, BATCH, RATE, DECAY = 12, 128, 3e-3, 1e-4


@dataclass(frozen=True, slots=True)
class Labels:
    """Texts with complexity 0..1 float64[N], category int64[N] and tool 0 or 1 float64[N]; NaN, or −1, where nobody said."""

    texts: Sequence[str]
    complexity: NDArray[np.float64]
    category: NDArray[np.int64]
    tool: NDArray[np.float64]

    def take(self, rows: NDArray[np.int64]) -> Labels:
        """Some of the rows."""
        return Labels(
            [self.texts[row] for row in rows.tolist()], self.complexity[rows], self.category[rows], self.tool[rows]
        )


@dataclass
class Estimator:
    """Weights of the layer and of the heads: complexity, categories, tool, one after the other."""

    layer: Floats  # [PLACES + 1, HIDDEN]
    heads: Floats  # [HIDDEN + 1, 1 + K + 1]
    temperatures: tuple[float, float] = (1.0, 1.0)  # of category and tool

    def estimate(self, texts: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Complexity [N], p(category) [N, K] and p(needs a tool) [N]."""
        return self.of_features(features(texts))

    def of_features(self, x: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """The same of texts that were read, φ [N, PLACES + 1]."""
        out = self._out(x).astype(np.float64)
        category = _softmax(out[:, 1:-1] / self.temperatures[0])
        return _sigmoid(out[:, 0]), category, _sigmoid(out[:, -1] / self.temperatures[1])

    def _out(self, x: Floats) -> Floats:
        out: Floats = _biased(np.tanh(x @ self.layer)) @ self.heads
        return out


def features(texts: Sequence[str]) -> Floats:
    """φ, float32[N, PLACES + 1]: hashed n-grams of length one, and the logarithm of the length in words."""
    rows = [features_of(hashes(text), len(text.split())) for text in texts]
    return np.stack(rows) if rows else np.zeros((0, PLACES + 1), np.float32)


def features_of(hashed: NDArray[np.int64], words: int) -> Floats:
    """φ of one text, float32[PLACES + 1], from the hashes of its n-grams and its length in words."""
    counts = np.bincount(hashed % PLACES, minlength=PLACES + 1).astype(np.float32)
    counts /= max(float(np.linalg.norm(counts)), 1e-9)
    counts[PLACES] = np.log1p(words) / 5
    return counts


def fit(train: Labels, validation: Labels, categories: int, seed: int = 0) -> Estimator:
    """An estimator of that many categories. A label that nobody gave pulls at nothing."""
    rng = np.random.Generator(np.random.PCG64(seed))
    x = features(train.texts)
    kinds = np.eye(categories, dtype=np.float32)[train.category]
    truth = np.concatenate([train.complexity[:, None], kinds, train.tool[:, None]], axis=1).astype(np.float32)
    labeled = ~np.isnan(truth)  # [N, 1 + K + 1]
    labeled[:, 1:-1] = (train.category >= 0)[:, None]
    truth = np.where(labeled, truth, 0)
    layer = rng.normal(0, 0.3, (PLACES + 1, HIDDEN)).astype(np.float32)
    heads = rng.normal(0, 0.1, (HIDDEN + 1, categories + 2)).astype(np.float32)
    estimator = Estimator(layer, heads)
    moments = [np.zeros_like(w) for w in (layer, layer, heads, heads)]
    step = 0
    for _ in range(EPOCHS):
        for some in np.array_split(rng.permutation(len(x)), max(len(x) // BATCH, 1)):
            step += 1
            h = np.tanh(x[some] @ layer)
            out = _biased(h) @ heads
            p = np.concatenate([_sigmoid(out[:, :1]), _softmax(out[:, 1:-1]), _sigmoid(out[:, -1:])], axis=1)
            # d loss / d out: σ' for the squared error; p − y for both cross-entropies.
            error = np.where(labeled[some], p - truth[some], 0)
            error[:, 0] *= 2 * WEIGHTS[0] * p[:, 0] * (1 - p[:, 0])
            error[:, 1:-1] *= WEIGHTS[1]
            error[:, -1] *= WEIGHTS[2]
            error /= len(some)
            back = (error @ heads[:-1].T) * (1 - h**2)
            slopes = (x[some].T @ back + DECAY * layer, _biased(h).T @ error + DECAY * heads)
            for place, (weight, slope) in enumerate(zip((layer, heads), slopes, strict=True)):
                m, v = moments[2 * place], moments[2 * place + 1]
                m += 0.1 * (slope - m)
                v += 0.001 * (slope**2 - v)
                weight -= RATE * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    estimator.temperatures = _calibrated(estimator, validation)
    return estimator


def _calibrated(estimator: Estimator, rows: Labels) -> tuple[float, float]:
    """The temperatures of least cross-entropy on validation."""
    if not len(rows.texts):
        return 1.0, 1.0
    out = estimator._out(features(rows.texts)).astype(np.float64)
    grid = np.geomspace(0.25, 4.0, 33).tolist()
    categorised, with_tool = np.flatnonzero(rows.category >= 0), ~np.isnan(rows.tool)

    def category(t: float) -> float:
        return -float(
            np.log(
                _softmax(out[categorised, 1:-1] / t)[np.arange(len(categorised)), rows.category[categorised]] + 1e-12
            ).mean()
        )

    def tool(t: float) -> float:
        p = _sigmoid(out[with_tool, -1] / t)
        return -float(np.log(np.where(rows.tool[with_tool] > 0.5, p, 1 - p) + 1e-12).mean())

    return (min(grid, key=category) if len(categorised) else 1.0), (min(grid, key=tool) if with_tool.any() else 1.0)


def _biased(h: NDArray[Any]) -> NDArray[Any]:
    return np.concatenate([h, np.ones((len(h), 1), h.dtype)], axis=1)


def _sigmoid(x: NDArray[Any]) -> NDArray[Any]:
    return 1 / (1 + np.exp(-np.clip(x, -30, 30)))


def _softmax(x: NDArray[Any]) -> NDArray[Any]:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


# --- Made-up queries ------------------------------------------------------------------------------------------------

CATEGORIES = ("chat", "code", "maths", "search")
SIZES = (10_000, 2_000, 2_000)
_ASKED = {
    "chat": ("tell me about", "what do you think of", "write a note on", "explain"),
    "code": ("write a function for", "fix the bug in", "refactor", "add tests to"),
    "maths": ("compute", "prove the bound of", "solve for", "estimate"),
    "search": ("find the newest", "look up", "what is today's", "compare prices of"),
}
_THINGS = (
    "invoices",
    "a parser",
    "the schedule",
    "matrices",
    "weather",
    "a recipe",
    "logins",
    "trains",
    "graphs",
    "taxes",
)
_HARDER = (
    "under a memory limit",
    "with a proof",
    "for every edge case",
    "in three languages",
    "without libraries",
    "step by step",
)
_TOOLS = ("today", "from our database", "from the web", "and send it", "in the calendar")


def generated(sizes: Sequence[int] = SIZES, seed: int = 0) -> list[Labels]:
    """Made-up queries with their labels, a set of each size (train, val, test). One label in twenty is wrong, as people's are."""
    rng = np.random.Generator(np.random.PCG64(seed))
    return [_some(rng, size) for size in sizes]


def _some(rng: np.random.Generator, count: int) -> Labels:
    category, harder = rng.integers(len(CATEGORIES), size=count), rng.integers(0, 5, count)
    tool = rng.random(count) < np.array([0.1, 0.2, 0.3, 0.9])[category]
    texts = []
    for kind, hard, needs in zip(category.tolist(), harder.tolist(), tool.tolist(), strict=True):
        parts = [
            str(rng.choice(_ASKED[CATEGORIES[kind]])),
            str(rng.choice(_THINGS)),
            *rng.choice(_HARDER, hard, replace=False),
        ]
        texts.append(" ".join([*parts, str(rng.choice(_TOOLS))] if needs else parts))
    base = np.array([0.1, 0.3, 0.4, 0.2])[category]
    complexity = np.clip(base + 0.12 * harder + rng.normal(0, 0.05, count), 0, 1)
    wrong = rng.random(count) < 0.05
    odd = rng.random(count) < 0.05
    labeled = np.where(wrong, rng.integers(len(CATEGORIES), size=count), category)
    return Labels(texts, complexity, labeled, (tool ^ odd).astype(np.float64))
