"""What is learned from outcomes where labels mislead, and how far the figure of the log can be relied on.

    python -m benchmarks.orchestration.outcomes [--seeds 5] [--logs 100]

The pool has four agents. Labels name Archive for four tasks in five, and an answer that Archive took part in is spoiled: it succeeds
with 0.35 instead of 0.85. 500 episodes of the one-shot set are judged, of which a tenth has one agent more or less. An orchestrator
is trained on labels and episodes; what it really earns is computed, since the pool is known.
"""

import argparse

import numpy as np

from orchestration_app.engine.orchestrating.environment import (
    Environment,
    RecordedPath,
    RecordedWorld,
    by_network,
    read_tasks,
    walk,
)
from orchestration_app.engine.orchestrating.logs import KeptEpisode, KeptStep
from orchestration_app.engine.orchestrating.policy import Orchestrator
from orchestration_app.engine.orchestrating.state import Call
from orchestration_app.engine.orchestrator_config import OrchestratorConfig
from orchestration_app.engine.train_orchestrator import train
from tests.orchestration_app.engine.orchestrating import misleading
from training_app.engine.data.examples import Agent, Example

WORDS = ("refund the invoice", "track the parcel", "reset the password", "as agreed last year")
AGENTS = tuple(
    Agent(number, name, cost=0.1) for number, name in enumerate(("Billing", "Shipping", "Access", "Archive"))
)
JUDGED, LABELED, TESTED = 500, 500, 300


def texts(rng: np.random.Generator, count: int) -> list[tuple[str, frozenset[int]]]:
    """Tasks with the set that labels name."""
    _x, labels = misleading.tasks(rng, count)
    found = []
    for row, one in enumerate(labels):
        parts = [WORDS[agent] for agent in np.flatnonzero(one)]
        text = f"case {int(rng.integers(10**6))}: please {', '.join(parts) or 'say hello'} {row}"
        found.append((text, frozenset(np.flatnonzero(one).tolist())))
    return found


def matrix(sets: list[frozenset[int]]) -> np.ndarray:
    """bool[N, A]."""
    return np.array([[agent in one for agent in range(len(AGENTS))] for one in sets])


def judged(rng: np.random.Generator) -> list[KeptEpisode]:
    """Episodes of the one-shot set with exploration, as they were judged."""
    episodes = []
    for text, own in texts(rng, JUDGED):
        called, chance = own, 1.0
        if own:
            chance = 1 - misleading.EXPLORED
            if rng.random() < misleading.EXPLORED:
                turnable = [agent for agent in range(len(AGENTS)) if own != {agent}]
                called = own ^ {turnable[int(rng.integers(len(turnable)))]}
                chance = misleading.EXPLORED / len(turnable)
        calls = tuple(Call(agent, "done", cost=0.1, answer="done") for agent in sorted(called))
        good = misleading.good(matrix([own]), matrix([called]))[0]
        steps = (KeptStep(calls, chance), KeptStep(())) if calls else (KeptStep((), chance),)
        episodes.append(KeptEpisode(text, steps, float(rng.random() < good)))
    return episodes


def learned(seed: int) -> str:
    """One training: what its policy and the one-shot set really earn, and what the log said, in a line."""
    rng = np.random.default_rng(seed)
    rows = texts(rng, LABELED)
    examples = [
        Example(str(row), text, own, split="train" if row % 5 else "val") for row, (text, own) in enumerate(rows)
    ]
    config = OrchestratorConfig.from_mapping(
        {
            "seed": seed,
            "encoder": "linear",
            "price": misleading.REWARD.price,
            "updates": 100,
            "max_steps": 4,
            "baselines": False,
        }
    )
    result = None
    for progress in train(config, AGENTS, examples, logged=judged(rng)):
        result = progress.result or result
    assert result is not None
    card = result.scorecard
    orchestrator = Orchestrator.load(result.artifact)
    tested = texts(rng, TESTED)
    world = RecordedWorld.of(AGENTS, [RecordedPath(text, own, ()) for text, own in tested])
    tasks = read_tasks(orchestrator, [text for text, _own in tested])
    environment = Environment(orchestrator, world, tasks, misleading.REWARD)
    walks = walk(environment, by_network(orchestrator.network, None), range(len(tested)), keep=False)
    labels = matrix([own for _text, own in tested])
    ours = misleading.worth(labels, matrix([frozenset(call.agent for call in one.calls) for one in walks])).mean()
    one_shot = misleading.worth(labels, np.asarray(tasks.one_shot, bool)).mean()
    kept = f"{card['kept']['name']}, measured by {card.get('measured_by', 'labels')}"
    figures = f"one-shot {one_shot:.3f}, learned {ours:.3f} (lead {ours - one_shot:+.3f}; {kept})"
    said = card["outcomes"].get("ours")
    if said is None:
        return f"{figures}; on the log not estimable"
    return f"{figures}; on the log {said['mean']:.3f} ({said['low']:.3f} to {said['high']:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--logs", type=int, default=100)
    options = parser.parse_args()
    for seed in range(options.seeds):
        print(f"seed {seed}: {learned(seed)}", flush=True)
    inside, estimable = misleading.covered(options.logs)
    print(
        f"{inside} of {estimable} intervals contain the truth; {options.logs - estimable} of {options.logs} logs were not estimable"
    )


if __name__ == "__main__":
    main()
