"""Training rows joined from two, while a sequence scorer learns (torch)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Joining:
    """Training rows, some of them followed or preceded by another that needs one agent: the two need the agents of both.

    rows [N]: int64[T] numbers of words; target, counted float32[N, A]. share: of the rows that are joined, where the result needs
    at most `max_agents`. ones int64[M]: the rows that need one agent. Where no row needs several, or none needs just one, a joined
    query is like none of the pool's, and the share is 0.
    """

    rows: list[Tensor]
    target: Tensor
    counted: Tensor
    share: float
    max_agents: int
    ones: Tensor

    @classmethod
    def between(cls, rows: list[Tensor], target: Tensor, counted: Tensor, share: float) -> Joining:
        """Of all rows, `share` of those that need several is joined."""
        size = target.sum(dim=1)
        ones = (size == 1).nonzero()[:, 0]
        several = float((size > 1).float().mean()) if len(ones) else 0.0
        return cls(rows, target, counted, share * several, int(size.max()), ones)

    def of(self, chosen: Sequence[int], draw: torch.Generator) -> tuple[list[Tensor], Tensor, Tensor]:
        """The rows of these numbers (B): words, target and counted float32[B, A]. An agent that either needs is needed and known;
        one that was not asked about either is not."""
        read, y, counted = [self.rows[i] for i in chosen], self.target[chosen], self.counted[chosen]
        if not self.share:
            return read, y, counted
        mates = self.ones[torch.randint(len(self.ones), (len(chosen),), generator=draw)]
        both = torch.maximum(y, self.target[mates])
        joined = (torch.rand(len(chosen), generator=draw) < self.share) & (both.sum(dim=1) <= self.max_agents)
        first = torch.rand(len(chosen), generator=draw) < 0.5
        for b in joined.nonzero()[:, 0].tolist():
            mate = self.rows[int(mates[b])]
            read[b] = torch.cat([mate, read[b]] if first[b] else [read[b], mate])
        together = torch.maximum(both, counted * self.counted[mates])
        return read, torch.where(joined[:, None], both, y), torch.where(joined[:, None], together, counted)
