"""The policy that `ppo` learnt, as it is served: three matrix products. numpy only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from orchestration_app.engine.backends.model_pool import ModelPool


@dataclass(frozen=True)
class Served:
    """Weights [in, out] and biases [out] of each layer; tanh between them, a softmax at the end."""

    weights: Sequence[NDArray[Any]]
    biases: Sequence[NDArray[Any]]

    def probabilities(self, state: NDArray[Any]) -> NDArray[np.float64]:
        """π(· | observation, preference), float64[actions]; `state` is both, one after the other."""
        x = state
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = np.tanh(x @ weight + bias)
        logits = (x @ self.weights[-1] + self.biases[-1]).astype(np.float64)
        p = np.exp(logits - logits.max())
        return p / p.sum()

    def taking(self, preference: Sequence[float]) -> Any:
        """The greedy policy of one preference (quality, cost, latency), for simulator 1."""
        weights = np.asarray(preference, np.float32)

        def best_action(env: ModelPool) -> int:
            return int(np.argmax(self.probabilities(np.concatenate([env.observation(), weights]).astype(np.float32))))

        return best_action
