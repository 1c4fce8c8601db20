"""An orchestrator that calls who a test says."""

import itertools
from collections.abc import Sequence

import numpy as np

from agents_app import pools
from agents_app.models import Pool
from orchestration_app.engine.orchestrating.policy import Network, Orchestrator, fresh_network
from orchestration_app.engine.orchestrating.reading import Reader


def artifact(pool: Pool, order: Sequence[int], *, repeats: int = 2) -> bytes:
    """An orchestrator that calls these agents (ids) one after another, and then stops."""
    agents = pools.roster(pool)
    network = fresh_network(len(agents), 4, np.random.default_rng(0), one_shot=False)
    follows = np.zeros_like(network.tensors["next"])
    places = {agent.id: place for place, agent in enumerate(agents)}
    walk = [len(agents), *(places[agent] for agent in order), len(agents)]
    for here, there in itertools.pairwise(walk):
        follows[here, there] = 20.0
    tensors = {**network.tensors, "next": follows.astype(np.float32)}
    made = Orchestrator(agents, Reader(len(agents)), Network(tensors), repeats=repeats)
    return made.to_artifact().to_bytes()
