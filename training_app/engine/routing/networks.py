"""The networks of policies as torch learns them.

Imported by workers only: it brings torch.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn

from training_app.engine.data.arrays import FloatArray
from training_app.engine.routing.policy import PlainPolicy, SharedPolicy, inputs_of


def perceptron(sizes: list[int], generator: torch.Generator) -> nn.ModuleList:
    """Fresh layers of these widths."""
    layers = nn.ModuleList()
    for wide, narrow in pairwise(sizes):
        layer = nn.Linear(wide, narrow)
        nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu", generator=generator)
        nn.init.zeros_(layer.bias)
        layers.append(layer)
    return layers


def through(layers: nn.ModuleList, x: torch.Tensor) -> torch.Tensor:
    """x [..., widths[0]] through the layers, ReLU between them."""
    for i, layer in enumerate(layers):
        x = layer(torch.relu(x) if i else x)
    return x


class SharedNetwork(nn.Module):
    """The network of `SharedPolicy`: own [B, A, PER_AGENT], shared [B, C] -> values [B, A], STOP [B]; `pairs` float32[A, A] are
    served with it, and so are `costs` float32[A], which make both inputs wider."""

    def __init__(
        self,
        hidden: tuple[int, ...],
        stop: bool,
        generator: torch.Generator,
        pairs: FloatArray | None = None,
        costs: FloatArray | None = None,
    ) -> None:
        super().__init__()
        self.pairs, self.costs, self.beside = pairs, costs, pairs is not None or costs is not None
        own, state = inputs_of(self.beside, costs is not None)
        self.q = perceptron([own + state, *hidden, 1], generator)
        self.stop = perceptron([state, *hidden, 1], generator) if stop else nn.ModuleList()
        if self.beside:
            # It begins with what agents cost and promises nothing: what is promised too early is handed on from state to state, and
            # with rewards at the end of a set it takes long to be unlearnt.
            nn.init.zeros_(self.q[-1].weight)  # type: ignore[arg-type]

    def forward(self, own: torch.Tensor, shared: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        wide = shared[:, None].expand(-1, own.shape[1], -1)
        q = through(self.q, torch.cat([own, wide], dim=-1))[..., 0]
        if self.costs is not None:
            q = q - own[..., -1]  # what the agent costs is known
        stop = through(self.stop, shared)[:, 0] if len(self.stop) else shared.new_zeros(len(shared))
        return q, stop

    def policy(self) -> SharedPolicy:
        return SharedPolicy(exported(self.q), exported(self.stop), self.pairs, self.costs, self.beside)


class PlainNetwork(nn.Module):
    """The network of `PlainPolicy`: inputs [B, D + A] -> values [B, A], STOP [B]."""

    def __init__(
        self, inputs: int, agents: int, hidden: tuple[int, ...], stop: bool, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.q = perceptron([inputs, *hidden, agents + 1], generator)
        self.learns_stop = stop

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out = through(self.q, inputs)
        return out[:, :-1], out[:, -1] if self.learns_stop else torch.zeros_like(out[:, -1])

    def policy(self) -> PlainPolicy:
        return PlainPolicy(exported(self.q), stop_is_zero=not self.learns_stop)


def exported(layers: nn.ModuleList) -> tuple[tuple[FloatArray, FloatArray], ...]:
    """(weights [in, out], bias [out]) of each layer, as policies keep them."""
    arrays = []
    for layer in layers:
        assert isinstance(layer, nn.Linear)
        arrays.append((layer.weight.detach().numpy().T.copy(), layer.bias.detach().numpy().copy()))
    return tuple(arrays)
