"""Adam (Kingma and Ba 2015), with AdamW's decay of the weights (Loshchilov and Hutter 2019), at a rate that is given to each step.

The arithmetic is torch's own, bit for bit. Its classes, though, import its compiler when the first of them is made, which takes three
CPU seconds and 60 MB: as long as a small fit. Imports torch.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.optim.adamw import adamw


class Adam:
    """Moves `parameters` against their gradients; `weight_decay` is a share of each weight, times the rate."""

    def __init__(
        self,
        parameters: Iterable[Tensor],
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        fused: bool = False,
    ) -> None:
        self.parameters = list(parameters)
        self._betas, self._eps, self._weight_decay, self._fused = betas, eps, weight_decay, fused
        #: By torch's names: how many steps, and the running means of the gradient and of its square. Each is of all parameters.
        self._state = {
            "step": [torch.zeros(()) for _ in self.parameters],
            "exp_avg": [torch.zeros_like(p, requires_grad=False) for p in self.parameters],
            "exp_avg_sq": [torch.zeros_like(p, requires_grad=False) for p in self.parameters],
        }

    @torch.no_grad()
    def step(self, rate: float, beta1: float | None = None) -> None:
        """Follow the gradients, and drop them. A parameter without one stays. `beta1` holds for this step alone."""
        moved = [n for n, parameter in enumerate(self.parameters) if parameter.grad is not None]
        adamw(
            [self.parameters[n] for n in moved],
            [grad for n in moved if (grad := self.parameters[n].grad) is not None],
            [self._state["exp_avg"][n] for n in moved],
            [self._state["exp_avg_sq"][n] for n in moved],
            [],
            [self._state["step"][n] for n in moved],
            foreach=False,
            fused=self._fused,
            amsgrad=False,
            beta1=self._betas[0] if beta1 is None else beta1,
            beta2=self._betas[1],
            lr=rate,
            weight_decay=self._weight_decay,
            eps=self._eps,
            maximize=False,
        )
        for parameter in self.parameters:
            parameter.grad = None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that changes from step to step, named "parameter's place.torch's name"."""
        return {f"{n}.{name}": t.numpy().copy() for name, all_ in self._state.items() for n, t in enumerate(all_)}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on where another one's `arrays` were taken."""
        for name, all_ in self._state.items():
            all_[:] = [torch.from_numpy(np.array(arrays[f"{n}.{name}"])) for n in range(len(all_))]
