"""The recurrent layer of a sequence scorer, training half (torch); `sequence.Layer` serves it, and says what it computes.

Imported by workers only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def _accumulate(into: Tensor, share: Tensor, last_first: bool) -> None:
    """row_t += share_t * row_before, in place, from the first row to the last, or the other way round.
    into, share float32[T, B, H]."""
    rows, shares = into.unbind(0), share.unbind(0)
    order = range(len(rows) - 2, -1, -1) if last_first else range(1, len(rows))
    step = 1 if last_first else -1
    for t in order:
        rows[t].addcmul_(shares[t], rows[t + step])


class Gates(torch.autograd.Function):
    """A recurrent layer after its matrix product: projected float32[T, B, gates * n], columns as in `sequence.Layer`; x
    float32[T, B, n], the highway where the columns hold none; mask float32[T, B, 1] -> states float32[T, B, n].

    The gradient is written by hand: autograd through the same lines fills some twenty arrays of the product's size
    and walks four nodes a word.
    """

    @staticmethod
    def forward(ctx: Any, projected: Tensor, x: Tensor, mask: Tensor, n: int) -> Tensor:
        half = n // 2
        gates = torch.sigmoid(projected[..., n : 3 * n])
        forget, output = gates[..., :n], gates[..., n:]
        candidate = projected[..., :n]
        c = torch.addcmul(candidate, candidate, forget, value=-1).mul_(mask)  # (1 - f_t) * candidate_t
        _accumulate(c[..., :half], forget[..., :half], last_first=False)
        _accumulate(c[..., half:], forget[..., half:], last_first=True)
        squashed = torch.tanh(c)
        highway = projected[..., 3 * n :] if projected.shape[2] == 4 * n else x
        ctx.save_for_backward(projected, x, mask, gates, c, squashed)
        return torch.lerp(highway, squashed, output).mul_(mask)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None, None]:
        projected, x, mask, gates, c, squashed = ctx.saved_tensors
        n = c.shape[2]
        half = n // 2
        forget, output = gates[..., :n], gates[..., n:]
        own = projected.shape[2] == 4 * n
        highway = projected[..., 3 * n :] if own else x
        d = torch.empty_like(projected)
        d_candidate, d_gates = d[..., :n], d[..., n : 3 * n]
        d_forget, d_output = d_gates[..., :n], d_gates[..., n:]
        grad = grad * mask
        d_c = grad * output  # of tanh(c_t), then of c_t
        d_highway = torch.sub(grad, d_c, out=d[..., 3 * n :] if own else None)
        torch.sub(squashed, highway, out=d_output).mul_(grad)
        d_c.addcmul_(d_c * squashed, squashed, value=-1)
        # c_t is read by c_{t+1} in the forward half, by c_{t-1} in the backward half.
        _accumulate(d_c[..., :half], forget[..., :half].roll(-1, 0), last_first=True)
        _accumulate(d_c[..., half:], forget[..., half:].roll(1, 0), last_first=False)
        d_forget[0, :, :half] = 0
        d_forget[-1, :, half:] = 0
        torch.mul(d_c[1:, :, :half], c[:-1, :, :half], out=d_forget[1:, :, :half])
        torch.mul(d_c[:-1, :, half:], c[1:, :, half:], out=d_forget[:-1, :, half:])
        d_c.mul_(mask)  # of (1 - f_t) * candidate_t
        d_forget.addcmul_(d_c, projected[..., :n], value=-1)
        torch.addcmul(d_c, d_c, forget, value=-1, out=d_candidate)
        d_gates.mul_(gates).addcmul_(d_gates, gates, value=-1)
        return d, None if own else d_highway, None, None


class Recurrence(nn.Module):
    """The trained form of `sequence.Layer`: the same columns, the same equations."""

    def __init__(self, inputs: int, states: int, window: int, draw: torch.Generator) -> None:
        super().__init__()
        self.states, self.window = states, window
        gates = 3 if inputs == states else 4
        self.weight = nn.Parameter(torch.empty(window * inputs, gates * states))
        nn.init.xavier_uniform_(self.weight, generator=draw)
        self.bias = nn.Parameter(torch.zeros(gates * states))
        with torch.no_grad():
            self.bias[states : 2 * states] = 1.0  # remember at first (Jozefowicz, Zaremba and Sutskever 2015)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x float32[T, B, inputs], mask float32[T, B, 1] -> float32[T, B, states]."""
        steps, batch, _ = x.shape
        x_in = x
        if self.window > 1:
            reach = self.window // 2
            padded = nn.functional.pad(x, (0, 0, 0, 0, reach, reach))
            x_in = torch.cat([padded[k : k + steps] for k in range(self.window)], dim=2)  # [T, B, window * inputs]
        projected = torch.addmm(self.bias, x_in.reshape(steps * batch, -1), self.weight)
        states: Tensor = Gates.apply(projected.view(steps, batch, -1), x, mask, self.states)
        return states
