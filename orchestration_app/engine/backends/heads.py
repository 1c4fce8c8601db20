"""What an estimate of difficulty, category and need of a tool adds to the direct estimate. numpy only.

    z(x) = [complexity, p(category) [K], p(tool)] − their means          float64[K + 2], by `estimator`
    p(success | x, backend) = direct + s · z(x) W_agent                  W = (ZᵀZ + λI)⁻¹ ZᵀR

R [N, B] is what the agent's training calls did beyond the backends' means, 0 where a backend was not asked. The training rows' own z
come from estimators that have not seen them (three folds), or difficulty would be read off the outcomes that it was learnt from.
s in 0..1 is how much of it holds on validation rows beside the direct estimate, drawn to 0: what says nothing adds nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestration_app.engine.backends import estimator
from orchestration_app.engine.backends.direct import DirectEstimate, Outcomes
from orchestration_app.engine.backends.estimator import Estimator, Labels

Floats = NDArray[np.float64]
FOLDS, RIDGE = 3, 20.0  # rows
SETTLED = 20.0  # rows that what holds on validation must outweigh


@dataclass
class Heads:
    """What is served. `categories` name the estimator's K; `weights` are an agent's W, float64[K + 2, B]; `scale` is s."""

    estimator: Estimator
    categories: tuple[str, ...]
    mean: Floats  # [K + 2]
    weights: dict[str, Floats] = field(default_factory=dict)
    scale: float = 0.0

    def added(self, texts: Sequence[str], agents: Sequence[str]) -> Floats:
        """What each text adds to the success of each backend, float64[N, B]."""
        z = self.read(estimator.features(texts))
        width = next((part.shape[1] for part in self.weights.values()), 0)
        none = np.zeros((len(self.mean), width))
        return self.scale * np.stack(
            [row @ self.weights.get(agent, none) for row, agent in zip(z, agents, strict=True)]
        )

    def read(self, features: NDArray[np.float32]) -> Floats:
        """z of texts by their features, float64[N, K + 2]."""
        complexity, category, tool = self.estimator.of_features(features)
        return np.concatenate([complexity[:, None], category, tool[:, None]], axis=1) - self.mean

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Every array, by name."""
        arrays: dict[str, NDArray[Any]] = {
            "heads.layer": self.estimator.layer, "heads.out": self.estimator.heads, "heads.mean": self.mean,
        }  # fmt: skip
        return arrays | {f"heads.{place}": part for place, part in enumerate(self.weights.values())}

    def config(self) -> dict[str, Any]:
        """All else, JSON-able."""
        return {
            "categories": list(self.categories), "temperatures": list(self.estimator.temperatures), "scale": self.scale,
            "agents": list(self.weights),
        }  # fmt: skip

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> Heads:
        """The inverse of `tensors` and `config`. Raises KeyError, TypeError and ValueError."""
        category, tool = (float(value) for value in config["temperatures"])
        learnt = Estimator(tensors["heads.layer"], tensors["heads.out"], (category, tool))
        weights = {str(agent): tensors[f"heads.{place}"] for place, agent in enumerate(config["agents"])}
        return cls(learnt, tuple(config["categories"]), tensors["heads.mean"], weights, float(config["scale"]))


def fit(
    direct: DirectEstimate, train: Outcomes, labels: Labels, validation: Outcomes, labeled: Labels, categories: Sequence[str],
    seed: int = 0,
) -> Heads:  # fmt: skip
    """Heads on a direct estimate. `labels` and `told` are those of the rows of `train` and `validation`."""
    count = max(len(categories), 1)
    z = np.zeros((len(train), count + 2))
    fold = np.random.Generator(np.random.PCG64(seed)).permutation(len(train)) % FOLDS
    for held_out in range(FOLDS):
        rest = np.flatnonzero(fold != held_out)
        out = np.flatnonzero(fold == held_out)
        z[out] = _z(estimator.fit(labels.take(rest), labeled, count, seed), [train.texts[row] for row in out.tolist()])
    fitted = Heads(estimator.fit(labels, labeled, count, seed), tuple(categories), z.mean(axis=0))
    agents = np.array(train.categories)
    for agent, part in direct.categories.items():
        rows = z[agents == agent] - fitted.mean
        fitted.weights[agent] = np.linalg.solve(rows.T @ rows + RIDGE * np.eye(count + 2), rows.T @ part.beyond)
    fitted.scale = 1.0
    measured = ~np.isnan(validation.success)
    if measured.any():
        more = fitted.added(validation.texts, validation.categories)
        residual = (validation.success - direct.estimate(validation.texts, validation.categories)[0])[measured]
        weight = SETTLED * float((more[measured] ** 2).mean())
        fitted.scale = float(
            np.clip((more[measured] @ residual) / (float(more[measured] @ more[measured]) + weight + 1e-12), 0.0, 1.0)
        )
    return fitted


def _z(learnt: Estimator, texts: Sequence[str]) -> Floats:
    complexity, category, tool = learnt.estimate(texts)
    return np.concatenate([complexity[:, None], category, tool[:, None]], axis=1)


def figures(heads: Heads, rows: Labels) -> dict[str, Any]:
    """How well the three are told on labeled rows, for a scorecard: complexity's mean absolute error, the category's accuracy beside
    its mean confidence, the tool's accuracy and Brier score; each with how many rows say."""
    complexity, category, tool = heads.estimator.estimate(rows.texts)
    card: dict[str, Any] = {"scale": heads.scale}
    if (labeled := ~np.isnan(rows.complexity)).any():
        card["complexity"] = {
            "rows": int(labeled.sum()),
            "error": float(np.abs(complexity - rows.complexity)[labeled].mean()),
        }
    if (labeled := rows.category >= 0).any():
        right = category.argmax(axis=1) == rows.category
        card["category"] = {
            "rows": int(labeled.sum()), "accuracy": float(right[labeled].mean()),
            "confidence": float(category.max(axis=1)[labeled].mean()),
            "names": list(heads.categories),
        }  # fmt: skip
    if (labeled := ~np.isnan(rows.tool)).any():
        truth = rows.tool[labeled] > 0.5
        card["tool"] = {
            "rows": int(labeled.sum()), "accuracy": float(((tool[labeled] > 0.5) == truth).mean()),
            "brier": float(((tool[labeled] - truth) ** 2).mean()),
        }  # fmt: skip
    return card
