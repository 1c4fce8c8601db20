"""p(success) of one text on an agent's backends, as a web process asks for it. numpy only.

It is what `chooser.success_probabilities` gives, and a test holds the two equal. What depends on the training rows alone is
multiplied out once: with V [N, 512] the embeddings of an agent's training queries, D [N, B] its dual weights, c [N] its centre, m its
middle, and l(x) [N] the likeness by n-grams,

    k(x) = (l(x) + V x) / 2                                       [N]
    (k(x) − mean k(x) − c + m)ᵀ D = ½ l(x)ᵀ D + ½ xᵀ (Vᵀ D) − cᵀ D + (m − mean k(x)) 1ᵀ D      [B]

so that likeness in meaning costs 512 products a backend, however many queries were learned from. The text is read once for all agents.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from orchestration_app.engine.backends.direct import Category, DirectEstimate, counts
from orchestration_app.engine.backends.estimator import features_of
from orchestration_app.engine.backends.grams import PLACES, hashes
from orchestration_app.engine.backends.heads import Heads
from training_app.engine.reading import sentences

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Product:
    """What is multiplied out of one agent's part, for its own backends (`columns` of B)."""

    columns: NDArray[np.int64]  # [b]
    mean: Floats  # [b]
    dual: Floats  # [N, b]
    total: Floats  # 1ᵀ D, [b]
    centred: Floats  # cᵀ D, [b]
    meaning: Floats  # Vᵀ D, [512, b]; [0, b] without embeddings
    middle_vector: Floats  # the mean of V, [512]
    neighbour: Floats  # M's columns of the own backends, [B, b]


@dataclass(frozen=True)
class OneText:
    """Immutable but for the products, which are made when the first text comes; safe to share between threads."""

    direct: DirectEstimate
    heads: Heads | None

    def success(self, text: str, agents: Sequence[str]) -> dict[str, Floats]:
        """p(success) on each backend of each of the agents, in the order of `products[agent].columns`; agents that were not learned
        are left out."""
        products = self.products
        learned = [agent for agent in agents if agent in products]
        if not learned:
            return {}
        direct = self.direct
        gist = direct.gist(text)
        hashed = hashes(gist)
        at, times = np.unique(hashed % PLACES, return_counts=True)
        weight = (1 + np.log(times)) * direct.idf[at]
        weight /= max(float(np.sqrt(weight @ weight)), 1e-12)
        likeness = direct.grams.likeness_of(at, weight)  # [all training queries]
        vector = None if direct.vectors is None else sentences.embed([gist])[0].astype(np.float64)
        more = None
        if self.heads is not None and self.heads.scale:
            more = features_of(hashed if gist == text else hashes(text), len(text.split()))
            more = self.heads.read(more[None])[0]
        by_agent = {}
        for agent in learned:
            part, product = direct.categories[agent], products[agent]
            p = np.clip(
                product.mean + direct.slope * self._beyond(part, product, likeness[part.members], vector), 0.01, 0.99
            )
            if more is not None and self.heads is not None and agent in self.heads.weights:
                p = np.clip(p + self.heads.scale * (more @ self.heads.weights[agent][:, product.columns]), 0.01, 0.99)
            by_agent[agent] = p
        return by_agent

    def _beyond(self, part: Category, product: Product, likeness: Floats, vector: Floats | None) -> Floats:
        """What the text adds to the agent's means, float64[b]."""
        added = np.zeros(len(product.columns))
        if "kernel" in self.direct.terms:
            kernel, mean = likeness @ product.dual, float(likeness.mean())
            if vector is not None:
                kernel = (kernel + vector @ product.meaning) / 2
                mean = (mean + float(vector @ product.middle_vector)) / 2
            added += kernel - product.centred + (part.middle - mean) * product.total
        if "neighbour" in self.direct.terms:
            nearest = int(np.argmax(likeness))
            if weight := counts(likeness[nearest], part.alike):
                added += weight * (part.beyond[nearest] @ product.neighbour)
        return added

    @cached_property
    def products(self) -> dict[str, Product]:
        """By agent, for the backends named `AGENT/BACKEND`."""
        direct = self.direct
        products = {}
        for agent, part in direct.categories.items():
            columns = np.array(
                [at for at, key in enumerate(direct.backends) if key.partition("/")[0] == agent], np.int64
            )
            dual = np.ascontiguousarray(part.dual[:, columns])
            vectors = (
                np.zeros((len(part.members), 0))
                if direct.vectors is None
                else direct.vectors[part.members].astype(np.float64)
            )
            products[agent] = Product(
                columns, part.mean[columns], dual, dual.sum(axis=0), part.centre @ dual, vectors.T @ dual, vectors.mean(axis=0),
                part.neighbour[:, columns],
            )  # fmt: skip
        return products
