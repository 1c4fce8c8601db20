"""Several scorers as one: a weighted sum of their log-odds. numpy only; `encoders.py` fits the weights.

    z(a)        = Σ_k w_k (scale_k,a margin_k,a + shift_k,a) + c
    log-odds(a) = z(a) − r log Σ_b e^z(b)

With r above 0 agents are each other's rivals: where another is likely, this one is less so, as in pools whose queries need one agent
mostly. At r = 0, which most pools ask for, each is judged on its own.

The weights are shared by all agents: with one number per scorer they are learnt from a few hundred rows, and an agent
with few examples leans on what the others taught.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from training_app.engine.data.arrays import BoolArray, FloatArray
from training_app.engine.reading.logistic import logistic
from training_app.engine.reading.scorers import FittedScorer, Platt, load_scorer

#: A scorer is asked for so many times the parts that are shown, as what is small in one may be much in the sum.
SUMMED = 4


@dataclass(frozen=True)
class StackedMargins:
    """`children` with their maps to log-odds, `weights` float32[K] and the constant `shift`."""

    children: tuple[FittedScorer, ...]
    platts: tuple[Platt, ...]
    weights: FloatArray
    shift: float
    rival: float = 0.0
    _factors: tuple[FloatArray, ...] = field(init=False, repr=False)
    _added: FloatArray = field(init=False, repr=False)
    kind: ClassVar[str] = "stack"

    def __post_init__(self) -> None:
        # Weight and map of each scorer as one product, and all that is added as one vector.
        parts = list(zip(self.weights, self.platts, strict=True))
        factors = tuple((w * platt.scale).astype(np.float32) for w, platt in parts)
        added = np.float32(self.shift) + sum(w * platt.shift for w, platt in parts)
        object.__setattr__(self, "_factors", factors)
        object.__setattr__(self, "_added", np.asarray(added, np.float32))

    def logits(self, texts: Sequence[str]) -> FloatArray:
        total: FloatArray = self._added
        for factor, child in zip(self._factors, self.children, strict=True):
            total = total + factor * child.logits(texts)
        return rivals(total, self.rival) if self.rival else total

    def tensors(self) -> dict[str, NDArray[Any]]:
        tensors: dict[str, NDArray[Any]] = {
            "weights": self.weights,
            "shift": np.array([self.shift], np.float32),
        }
        if self.rival:
            tensors["rival"] = np.array([self.rival], np.float32)
        for k, (child, platt) in enumerate(zip(self.children, self.platts, strict=True)):
            tensors |= {f"{k}.scale": platt.scale, f"{k}.shift": platt.shift}
            tensors |= {f"{k}.child.{name}": tensor for name, tensor in child.tensors().items()}
        return tensors

    def config(self) -> dict[str, Any]:
        children = {f"child {k}": dict(child.config()) for k, child in enumerate(self.children)}
        return {"kinds": [child.kind for child in self.children], **children}

    @classmethod
    def from_tensors(cls, config: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> StackedMargins:
        """Raises ValueError where the parts do not fit."""
        try:
            children, platts = [], []
            for k, kind in enumerate(config["kinds"]):
                if kind == cls.kind:
                    raise ValueError("a stack holds no stack")
                start = f"{k}.child."
                own = {name.removeprefix(start): t for name, t in tensors.items() if name.startswith(start)}
                children.append(load_scorer(kind, config[f"child {k}"], own))
                platts.append(Platt(tensors[f"{k}.scale"], tensors[f"{k}.shift"]))
            weights = tensors["weights"]
            if len(weights) != len(children) or not children:
                raise ValueError(f"{len(children)} scorers have {len(weights)} weights")
            rival = float(tensors["rival"][0]) if "rival" in tensors else 0.0
            return cls(tuple(children), tuple(platts), weights, float(tensors["shift"][0]), rival)
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"the stack lacks {error}") from None

    def explain(self, text: str, top: int = 8) -> list[list[tuple[str, float]]]:
        """The parts that the scorers name, each weight multiplied by its scorer's, strongest first; what several of them name, as a
        word on its own and one in its place, is told once with the sum."""
        agents = len(self.platts[0].scale)
        parts_of_agent: list[dict[str, float]] = [{} for _ in range(agents)]
        for weight, platt, child in zip(self.weights.tolist(), self.platts, self.children, strict=True):
            for a, parts in enumerate(child.explain(text, SUMMED * top)[:agents]):
                for part, value in parts:
                    parts_of_agent[a][part] = parts_of_agent[a].get(part, 0.0) + value * weight * float(platt.scale[a])
        return [sorted(parts.items(), key=lambda part: -abs(part[1]))[:top] for parts in parts_of_agent]


def rivals(z: FloatArray, share: float) -> FloatArray:
    """z float32[N, A] less `share` of its logarithm of the sum of exponentials over agents."""
    top = np.maximum.reduce(z, axis=1, keepdims=True)
    total = top + np.log(np.add.reduce(np.exp(z - top), axis=1, keepdims=True))
    return np.asarray(z - np.float32(share) * total, np.float32)


def fit_weights(
    log_odds: Sequence[FloatArray], Y: BoolArray, asked: BoolArray, counts: NDArray[np.float64] | None = None
) -> tuple[FloatArray, float]:
    """(weights float32[K], shift) by logistic regression on out-of-fold log-odds, K arrays float32[N, A], drawn
    towards their mean. A weight below 0 would turn a scorer against itself; it is left out and the rest fitted again.
    A row counts as `counts` float64[N] says.
    """
    each = 1.0 if counts is None else np.broadcast_to(counts[:, None], asked.shape)[asked]
    kept = list(range(len(log_odds)))
    while True:
        columns = [log_odds[k][asked].astype(np.float64) for k in kept]
        features = np.stack([*columns, np.ones_like(columns[0])], axis=1)
        prior = np.array([1 / len(kept)] * len(kept) + [0.0])
        fitted = logistic(features, Y[asked], prior, 3.0, each)
        worst = int(np.argmin(fitted[:-1]))
        if fitted[worst] >= 0 or len(kept) == 1:
            weights = np.zeros(len(log_odds), np.float32)
            weights[kept] = np.maximum(fitted[:-1], 0)
            return weights, float(fitted[-1])
        del kept[worst]
