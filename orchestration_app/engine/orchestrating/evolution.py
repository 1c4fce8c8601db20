"""Evolution of the same small policy: CMA-ES in its separable form, whose covariance is a diagonal (Ros and Hansen 2008), by `cmaes`.

A candidate's worth is its mean reward over the generation's tasks, which all candidates of a generation share. The learnt mean is
what is kept: it is better than the best of its noisy candidates. Imported by workers only.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from cmaes import SepCMA
from numpy.typing import NDArray

from orchestration_app.engine.orchestrating.environment import Environment, by_network, walk
from orchestration_app.engine.orchestrating.policy import PARAMETERS, Network
from orchestration_app.engine.orchestrating.reinforce import measured

SPREAD = 0.3  # of the first generation, in units of the parameters
#: Left as they are: what texts look like is learnt by gradients; the dimension that is searched stays small.
FIXED = ("agent.in", "stop.in")


def evolve(
    environment: Environment,
    network: Network,
    *,
    generations: int,
    population: int = 0,
    episodes: int = 64,
    seed: int = 0,
) -> Iterator[tuple[int, Network, dict[str, float]]]:
    """(generation, mean network, the generation's metrics) of each generation. The same seed gives the same policy."""
    shape = {name: network.tensors[name].shape for name in PARAMETERS if name not in FIXED}
    start = np.concatenate([network.tensors[name].ravel() for name in shape]).astype(np.float64)
    rng = np.random.Generator(np.random.PCG64(seed))
    search = SepCMA(mean=start, sigma=SPREAD, seed=seed, population_size=population or None)

    def network_of(flat: NDArray[np.float64]) -> Network:
        tensors, at = dict(network.tensors), 0
        for name, dimensions in shape.items():
            size = int(np.prod(dimensions))
            tensors[name] = flat[at : at + size].reshape(dimensions).astype(np.float32)
            at += size
        return Network(tensors)

    for generation in range(1, generations + 1):
        drawn = rng.integers(len(environment), size=episodes).tolist()
        solutions, metrics = [], []
        for _ in range(search.population_size):
            candidate = search.ask()
            measures = measured(
                environment, walk(environment, by_network(network_of(candidate), None), drawn, keep=False)
            )
            solutions.append((candidate, -measures["reward"]))
            metrics.append(measures)
        search.tell(solutions)
        mean = {name: float(np.mean([measures[name] for measures in metrics])) for name in metrics[0]}
        yield generation, network_of(search.mean), mean
