"""The direct estimate: p(success | query, backend), and what each backend would charge. Fitted and served by numpy alone.

Within a category c, with mean successes μ_c [B] (shrunk to one half by one success and one failure), what a query adds is read from
its likeness to the N_c training queries of the category, k(x, i) = ½ (embedding cosine + n-gram cosine), centred:

    p(x) = μ_c + k(x)ᵀ ((K + λI)⁻¹ R̄ + (K + λ'I)⁻¹ (R − R̄)) + w · r_j M        R [N_c, B] what the training queries did beyond μ_c

The second term is kernel ridge regression: a linear model on embedding and n-grams, drawn to the category's means with the weight
of λ rows (the posterior mean of a Gaussian process). How hard a query is for all backends, R̄ [N_c, 1], is easier to tell than who is
better at it, which is drawn harder. The third reads the one most like query j: r_j [B] is its row of R, w rises
from 0 to 1 with the likeness, and M [B, B] says what it means, by ridge regression over the training rows' own neighbours. M may be
negative: where two texts differ in the one word that turns the answer, a backend that overlooks the word fails on exactly one of
them. From which likeness on a neighbour tells anything differs from category to category: it is the one whose M has the least
squared error on rows left out one by one, (R − seen M)_i / (1 − h_i) with h the diagonal of seen (seenᵀ seen + λI)⁻¹ seenᵀ (PRESS,
Allen 1974).
Text that many queries share word for word (examples in a prompt) is left out of both likenesses.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestration_app.engine.backends.grams import Grams
from training_app.engine.reading import sentences

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RIDGE, APART_RIDGE, NEIGHBOUR_RIDGE = 10.0, 10.0, 5.0  # rows
#: Likeness of n-grams from which a neighbour counts, one of these, and over which it comes to count whole.
ALIKE, WIDTH = (0.5, 0.6, 0.7, 0.8, 0.9), 0.1
NEIGHBOURS = (5, 10, 20, 40, 80)  # that the baseline may read
BEFORE = (0.65, 0.3)  # the same in artifacts that do not say
SHARED, LEAST_SHARED = 0.01, 5  # a paragraph in this share of the texts, and in so many, says nothing of one of them
SETTLED = 200.0  # rows that calibration must outweigh
_PARAGRAPH = re.compile(r"\n\s*\n")


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What every backend made of every query: success 0..1 and dollars, float64[N, B]. NaN where a backend was not asked."""

    texts: Sequence[str]
    categories: Sequence[str]
    success: Floats
    cost: Floats
    backends: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: Ints) -> Outcomes:
        """Some of the rows."""
        at = rows.tolist()
        return Outcomes(
            [self.texts[i] for i in at], [self.categories[i] for i in at], self.success[rows], self.cost[rows], self.backends
        )  # fmt: skip


class Gist:
    """What is a text's own: without the paragraphs that many of the texts share."""

    def __init__(self, shared: frozenset[int] = frozenset()) -> None:
        self.shared = shared

    @classmethod
    def of(cls, texts: Sequence[str]) -> Gist:
        """What these texts share."""
        counts = Counter(part for text in texts for part in {_hash(part) for part in _PARAGRAPH.split(text)})
        least = max(LEAST_SHARED, SHARED * len(texts))
        return cls(frozenset(part for part, count in counts.items() if count >= least))

    def __call__(self, text: str) -> str:
        """The rest of the text; all of it where nothing would be left."""
        if not self.shared:
            return text
        return "\n".join(part for part in _PARAGRAPH.split(text) if _hash(part) not in self.shared).strip() or text


def _hash(part: str) -> int:
    return zlib.crc32(part.strip().encode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Category:
    """What was learnt of one category with N training queries."""

    members: Ints  # their places among all training queries, [N]
    mean: Floats  # [B]
    beyond: Floats  # R, [N, B]
    dual: Floats  # what k(x) is multiplied by, [N, B]
    centre: Floats  # mean of K's columns before centring, [N]
    middle: float
    neighbour: Floats  # M, [B, B]
    alike: tuple[float, float]  # likeness from which a neighbour counts, and over which it comes to count whole
    dollars: Floats  # cost = dollars[0] + dollars[1] · characters, [2, B]


@dataclass
class DirectEstimate:
    """What is served. `vectors` float32[N, 512] are the training queries' embeddings, None where none are used."""

    backends: tuple[str, ...]
    gist: Gist
    grams: Grams
    idf: Floats
    vectors: NDArray[np.float32] | None
    categories: dict[str, Category]
    slope: float = 1.0  # of what a query adds, from validation
    terms: tuple[str, ...] = ("kernel", "neighbour")
    report: dict[str, Any] = field(default_factory=dict)

    def estimate(self, texts: Sequence[str], categories: Sequence[str | None]) -> tuple[Floats, Floats]:
        """p(success) and dollars of every query on every backend, float64[N, B] each.

        A category that is None or unknown is taken to be that of the query most like it.
        """
        gists = [self.gist(text) for text in texts]
        likeness = self.grams.likeness(Grams.of(gists, self.idf)[0])  # [N, training]
        both = likeness if self.vectors is None else (likeness + _embedded(gists) @ self.vectors.T) / 2
        success = np.zeros((len(texts), len(self.backends)))
        dollars = np.zeros_like(success)
        for row, name in enumerate(categories):
            part = self.categories.get(name or "") or self._nearest(both[row])
            success[row] = part.mean + self.slope * self._beyond(
                part, likeness[row, part.members], both[row, part.members]
            )
            dollars[row] = part.dollars[0] + part.dollars[1] * len(texts[row])
        return np.clip(success, 0.01, 0.99), np.maximum(dollars, 1e-9)

    def nearest(self, texts: Sequence[str], categories: Sequence[str], k: int) -> Floats:
        """The baseline: what the k most alike training queries of the category add to its mean, drawn to it by ten; float64[N, B]."""
        gists = [self.gist(text) for text in texts]
        likeness = self.grams.likeness(Grams.of(gists, self.idf)[0])
        both = likeness if self.vectors is None else (likeness + _embedded(gists) @ self.vectors.T) / 2
        shares = np.zeros((len(texts), len(self.backends)))
        for row, name in enumerate(categories):
            part = self.categories.get(name) or self._nearest(both[row])
            near = np.argsort(-both[row, part.members], kind="stable")[:k]
            shares[row] = part.mean + part.beyond[near].sum(axis=0) / (len(near) + 10)
        return shares

    def _nearest(self, both: Floats) -> Category:
        return max(self.categories.values(), key=lambda part: float(both[part.members].max()))

    def _beyond(self, part: Category, likeness: Floats, both: Floats) -> Floats:
        added = np.zeros(len(self.backends))
        if "kernel" in self.terms:
            centred = both - both.mean() - part.centre + part.middle
            added += centred @ part.dual
        if "neighbour" in self.terms:
            nearest = int(np.argmax(likeness))
            added += counts(likeness[nearest], part.alike) * part.beyond[nearest] @ part.neighbour
        return added

    # --- In an artifact -----------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Every array, by name."""
        arrays: dict[str, NDArray[Any]] = {
            "grams.rows": self.grams.rows, "grams.at": self.grams.at, "grams.weight": self.grams.weight, "idf": self.idf,
            "shared": np.array(sorted(self.gist.shared), np.int64),
        }  # fmt: skip
        if self.vectors is not None:
            arrays["vectors"] = self.vectors
        for place, part in enumerate(self.categories.values()):
            for name in ("members", "mean", "beyond", "dual", "centre", "neighbour", "dollars"):
                arrays[f"{place}.{name}"] = getattr(part, name)
        return arrays

    def config(self) -> dict[str, Any]:
        """All else, JSON-able."""
        return {
            "backends": list(self.backends), "categories": list(self.categories), "slope": self.slope,
            "middle": [part.middle for part in self.categories.values()], "terms": list(self.terms), "texts": self.grams.count,
            "encoder": None if self.vectors is None else sentences.NAME,
            "alike": [list(part.alike) for part in self.categories.values()],
        }  # fmt: skip

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> DirectEstimate:
        """The inverse of `tensors` and `config`. Raises KeyError and EncoderError."""
        if config["encoder"] is not None:
            sentences.check(config["encoder"])
        names = ("members", "mean", "beyond", "dual", "centre", "neighbour", "dollars")
        alike = config.get("alike") or [BEFORE] * len(config["categories"])
        parts = {}
        for place, (category, middle) in enumerate(zip(config["categories"], config["middle"], strict=True)):
            start, width = (float(value) for value in alike[place])
            arrays = {name: tensors[f"{place}.{name}"] for name in names}
            parts[category] = Category(middle=middle, alike=(start, width), **arrays)
        grams = Grams(tensors["grams.rows"], tensors["grams.at"], tensors["grams.weight"], int(config["texts"]))
        return cls(
            tuple(config["backends"]), Gist(frozenset(tensors["shared"].tolist())), grams, tensors["idf"],
            tensors.get("vectors"), parts, float(config["slope"]), tuple(config["terms"]),
        )  # fmt: skip


def fit(
    train: Outcomes,
    validation: Outcomes | None = None,
    *,
    meaning: bool | None = None,
    terms: tuple[str, ...] = ("kernel", "neighbour"),
) -> DirectEstimate:
    """A direct estimate from training rows. Where less of what a query adds holds on validation rows, so much less is added.

    `meaning` says whether sentence embeddings are read too: where they are installed, unless it says otherwise.
    """
    meaning = sentences.installed() if meaning is None else meaning
    fitted = _fitted(train, meaning, terms)
    if validation is not None and len(validation) and terms:
        fitted.slope = _slope(fitted, validation)
    return fitted


def tuned_neighbours(direct: DirectEstimate, rows: Outcomes) -> int:
    """As many nearest neighbours as have the least squared error on rows that were not trained on; the fewest of equals."""
    measured = ~np.isnan(rows.success)

    def error(k: int) -> float:
        return float(((direct.nearest(rows.texts, rows.categories, k) - rows.success)[measured] ** 2).mean())

    return min(NEIGHBOURS, key=error)


def _fitted(train: Outcomes, meaning: bool, terms: tuple[str, ...]) -> DirectEstimate:
    gist = Gist.of(train.texts)
    gists = [gist(text) for text in train.texts]
    grams, idf = Grams.of(gists)
    vectors = _embedded(gists) if meaning else None
    names = np.array(train.categories)
    parts = {}
    for name in sorted(set(train.categories)):
        members = np.flatnonzero(names == name)
        likeness = grams.likeness(_rows_of(grams, members))[:, members]
        both = likeness if vectors is None else (likeness + vectors[members] @ vectors[members].T) / 2
        parts[name] = _category(train.take(members), members, likeness, both)
    return DirectEstimate(train.backends, gist, grams, idf, vectors, parts, terms=terms)


def _category(rows: Outcomes, members: Ints, likeness: Floats, both: Floats) -> Category:
    measured = ~np.isnan(rows.success)
    mean = (np.where(measured, rows.success, 0).sum(axis=0) + 1) / (measured.sum(axis=0) + 2)
    beyond = np.where(measured, rows.success - mean, 0.0)
    centre, middle = both.mean(axis=0), float(both.mean())
    kernel = both - centre - centre[:, None] + middle
    together = beyond.mean(axis=1, keepdims=True)  # R̄
    identity = np.eye(len(members))
    dual = np.linalg.solve(kernel + RIDGE * identity, together) + np.linalg.solve(
        kernel + APART_RIDGE * identity, beyond - together
    )
    neighbour, alike = _neighbour(likeness, beyond, measured)
    return Category(members, mean, beyond, dual, centre, middle, neighbour, alike, _dollars(rows))


def _neighbour(likeness: Floats, beyond: Floats, measured: NDArray[np.bool_]) -> tuple[Floats, tuple[float, float]]:
    """M, and from which likeness on a neighbour counts: those of the least error on rows that are left out one by one."""
    others = likeness - 2 * np.eye(len(likeness))  # nobody is its own neighbour
    nearest, highest = np.argmax(others, axis=1), others.max(axis=1)
    candidates: list[tuple[float, Floats, tuple[float, float]]] = []
    for start in ALIKE:
        nearby = counts(highest, (start, WIDTH))[:, None] * beyond[nearest]  # [N, B]
        inverse = np.linalg.inv(nearby.T @ nearby + NEIGHBOUR_RIDGE * np.eye(beyond.shape[1]))
        meaning = inverse @ (nearby.T @ beyond)
        leverage = ((nearby @ inverse) * nearby).sum(axis=1)  # h, [N], below 1 by the ridge
        left_out = (beyond - nearby @ meaning) / (1 - leverage)[:, None]
        candidates.append((float((left_out[measured] ** 2).mean()), meaning, (start, WIDTH)))
    _error, best, alike = min(candidates, key=lambda candidate: candidate[0])
    return best, alike


def _dollars(rows: Outcomes) -> Floats:
    """Least squares of the cost on the text's length, [2, B], the slope drawn to 0 by the weight of ten rows."""
    length = np.array([len(text) for text in rows.texts], float)
    measured = ~np.isnan(rows.cost)
    prices = np.zeros((2, len(rows.backends)))
    for backend in np.flatnonzero(measured.any(axis=0)).tolist():
        x, y = length[measured[:, backend]], rows.cost[measured[:, backend], backend]
        spread = x - x.mean()
        slope = float(spread @ (y - y.mean())) / (float(spread @ spread) + 10 * max(float(x.var()), 1.0))
        prices[:, backend] = y.mean() - slope * x.mean(), slope
    return prices


def _slope(direct: DirectEstimate, rows: Outcomes) -> float:
    """How much of what a query adds holds on rows that were not trained on: least squares, drawn to 1."""
    estimate, _dollars = direct.estimate(rows.texts, rows.categories)
    mean = np.stack([
        direct.categories[name].mean if name in direct.categories else estimate[row] for row, name in enumerate(rows.categories)
    ])  # fmt: skip
    measured = ~np.isnan(rows.success)
    added, truth = (estimate - mean)[measured], (rows.success - mean)[measured]
    weight = SETTLED * len(direct.backends) * float((added**2).mean())
    return float(np.clip((added @ truth + weight) / max(added @ added + weight, 1e-12), 0.0, 1.0))


def counts(likeness: Any, alike: tuple[float, float]) -> Any:
    """How much a neighbour of that likeness counts, 0 to 1."""
    return np.clip((likeness - alike[0]) / alike[1], 0.0, 1.0)


def _embedded(texts: Sequence[str]) -> NDArray[np.float32]:
    return sentences.embed(texts)


def _rows_of(grams: Grams, members: Ints) -> Grams:
    place = np.full(grams.count, -1)
    place[members] = np.arange(len(members))
    mine = place[grams.rows] >= 0
    return Grams(place[grams.rows[mine]], grams.at[mine], grams.weight[mine], len(members))
