"""How likely a text needs agents that no model has learnt yet, and those that it has, by what all of them say of themselves. numpy
only.

`routing/joint.py` decides on both kinds together.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from training_app.engine.data.examples import Agent
from training_app.engine.reading.conversing.said import document
from training_app.engine.reading.descriptions import Descriptions
from training_app.engine.reading.sentences import NAME as ENCODER

DECIMALS = 4  # as answers give probabilities


@dataclass(frozen=True, slots=True)
class ColdScores:
    """By agent id the probability that a text needs it, by description alone: of the `cold` agents, and of the `trained` ones."""

    cold: dict[int, float]
    trained: dict[int, float] = field(default_factory=dict)


class ColdScorer:
    """The descriptions of a pool's agents, some of which no model knows. Immutable, safe to share between threads."""

    def __init__(
        self,
        agents: Sequence[Agent],
        cold: Collection[int],
        *,
        meaning: bool = False,
        examples: Mapping[int, Sequence[str]] | None = None,
    ) -> None:
        """`agents` is the pool's whole roster, `cold` the ids of those that no model knows; `examples` are queries that an agent
        says it is for, by id. `meaning` asks the sentence encoder too, which is then loaded with the first text."""
        self._scorer = Descriptions(agents, meaning=meaning, examples=examples, beside_model=True)
        self.ids = sorted(agent.id for agent in agents if agent.id in set(cold))
        documents = sorted((agent.id, document(agent), list((examples or {}).get(agent.id, ()))) for agent in agents)
        parts = [self.ids, documents, self._scorer.weights.tolist(), *[ENCODER] * meaning]
        #: Changes with everything that the scores depend on.
        self.profile = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]

    def scores(self, text: str) -> ColdScores:
        """The probabilities of all agents, rounded as answers give them."""
        odds = self._scorer.logits([text])[0].tolist()
        p = {
            agent.id: round(1 / (1 + math.exp(-z)), DECIMALS)
            for agent, z in zip(self._scorer.agents, odds, strict=True)
        }
        cold = {agent: p[agent] for agent in self.ids}
        return ColdScores(cold, {agent: value for agent, value in p.items() if agent not in cold})
