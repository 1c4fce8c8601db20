"""What is learnt from beside the labeled rows: texts that nobody has labeled, and queries that were written for agents.

Written queries are rows of the linear scorers with the agents' descriptions, of low weight (`fused_fit.Taught`). They are in no fold's
outer part and in no validation row, so every map, choice and figure goes by labeled queries alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from training_app.engine.data.examples import Agent, Example
from training_app.engine.reading.fused_fit import Taught
from training_app.engine.reading.tidying.tidied import tidied

#: How much a written query counts where a labeled row counts 1. Between 0.5 and 1 it made no difference that could be told, on draws
#: of 50 and 200 labels of `clinc_domains`; the lower one leaves labels the last word.
WRITTEN_WEIGHT = 0.5
#: So many labeled training rows leave written ones that weight; beside more they weigh less, so that they fade out.
FULL_WEIGHT_ROWS = 200


@dataclasses.dataclass(frozen=True, slots=True)
class Beside:
    """Texts that nobody has labeled, and queries that were written for the agents that they require."""

    unlabeled: Sequence[str] = ()
    written: Sequence[Example] = ()

    def tidied(self) -> Beside:
        """The same, as `tidied` reads texts."""
        written = [dataclasses.replace(example, text=tidied(example.text)) for example in self.written]
        return Beside([tidied(text) for text in self.unlabeled], written)

    def taught(self, agents: Sequence[Agent], labeled: int) -> Taught:
        """The written queries as rows for `agents` (A), beside so many labeled ones. One that is for anybody else is left out."""
        ids = {agent.id for agent in agents}
        known = [example for example in self.written if example.required <= ids]
        required = np.array([[agent.id in example.required for agent in agents] for example in known], np.bool_)
        required = required.reshape(len(known), len(agents))
        return Taught([example.text for example in known], required, np.full(required.shape, written_weight(labeled)))


def written_weight(labeled: int) -> float:
    """How much a written query counts beside so many labeled training rows, which count 1 each."""
    return WRITTEN_WEIGHT * min(1.0, FULL_WEIGHT_ROWS / max(1, labeled))
