"""What assigning backends adds to a route: `python -m benchmarks.backend_times [--rounds 20000]`, in CPU microseconds of a call.

Ten agents with four backends each, in memory, no database. CPU time, so that whoever else uses the machine does not count; the best of
five rounds, and, apart, a call that finds nothing kept, as the first one after each settlement does. Below that a promoted chooser,
which reads the query, learned from 1,000 calls: the median of 200 texts that a router with the sentence encoder has just read, and of
200 that nobody has read.
"""

import argparse
import os
import time
from collections.abc import Callable

import django
import numpy as np

AGENTS, BACKENDS = 10, 4


def microseconds(call: Callable[[], object], rounds: int) -> float:
    """CPU time of one call, the best of five."""
    found = []
    for _ in range(5):
        began = time.process_time_ns()
        for _ in range(rounds // 5):
            call()
        found.append((time.process_time_ns() - began) / 1000 / (rounds // 5))
    return min(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20_000)
    parser.add_argument("--chooser", action="store_true", help="the promoted chooser alone")
    options = parser.parse_args()
    rounds = options.rounds
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
    os.environ.setdefault("SECRET_KEY", "benchmark")
    os.environ.setdefault("PLAIN_HTTP", "1")
    django.setup()
    from agents_app.models import Agent
    from orchestration_app.backends import choosing, state
    from orchestration_app.engine.backends import online
    from orchestration_app.engine.backends.online import Past
    from orchestration_app.models import Backend, BackendSettings, Provider

    rng = np.random.Generator(np.random.PCG64(0))
    if options.chooser:
        promoted(rng)
        return
    provider = Provider(pk=1, name="acme")
    rows = [
        Backend(
            pk=agent * BACKENDS + place + 1, agent=Agent(number=agent), provider=provider, model=f"model {place}",
            quality=float(rng.uniform(0.6, 0.95)), price_in=float(rng.uniform(0.1, 10)), price_out=float(rng.uniform(0.3, 30)),
            latency=float(rng.uniform(100, 2000)), at_once=0, order=0,
        )
        for agent in range(AGENTS) for place in range(BACKENDS)
    ]  # fmt: skip
    agents = list(range(AGENTS))
    print(f"{'':<44} {'kept':>7} {'first':>7}   CPU µs for {AGENTS} agents with {BACKENDS} backends each")
    for name, learner, exploration in (
        ("direct estimate", "", 0.0), ("exploration 0.1", "", 0.1), *((f"{one}, half of all", one, 0.0) for one in online.LEARNERS),
    ):  # fmt: skip
        chosen = BackendSettings(learner=learner, learning_share=0.5, learning_within=1.0, exploration=exploration)
        pool = state.PoolBackends(1, rows, chosen)
        if pool.learning is not None:
            past = [
                Past(arm.agent, arm.backend, bool(rng.random() < arm.prior), 0.001, 1.0)
                for _ in range(20) for arm in pool.arms
            ]  # fmt: skip
            pool.learning.hopes = online.learnt(learner, pool.arms, past, rng, {})
        pool.settled = True  # no database is asked
        state._pools = {1: pool}

        def kept(pool: state.PoolBackends = pool) -> None:
            pool.usage.last.clear()
            choosing.assign(1, "", agents)

        def first(pool: state.PoolBackends = pool) -> None:
            pool.plans.clear()
            kept(pool)

        print(f"{name:<44} {microseconds(kept, rounds):7.1f} {microseconds(first, rounds // 10):7.1f}")
    promoted(rng)


def promoted(rng: np.random.Generator) -> None:
    """What a promoted chooser takes for one query, in milliseconds: for the ten agents and for one of them."""
    from orchestration_app.engine.backends import chooser
    from orchestration_app.engine.backends.chooser import BackendChooser, Called, ChooserConfig
    from training_app.engine.data.examples import Agent
    from training_app.engine.reading import sentences

    words = [f"{a}{b}" for a in "bcdfghklmnprstvw" for b in ("ale", "ort", "ind", "eck", "uma", "olin")]

    def text() -> str:
        return f"please help me with {' '.join(rng.choice(words, 12))} as soon as you can"

    calls = [
        Called(text(), agent, agent * BACKENDS + place, bool(rng.random() < 0.7), 0.01)
        for agent, place in zip(rng.integers(AGENTS, size=1_000).tolist(), rng.integers(BACKENDS, size=1_000).tolist(), strict=True)
    ]  # fmt: skip
    agents = [Agent(number, f"agent {number}") for number in range(AGENTS)]
    with sentences.remembering():
        trained = next(step for step in chooser.train(ChooserConfig(), agents, [], calls=calls) if step.result)
    assert trained.result is not None
    loaded = BackendChooser.load(trained.result.artifact)
    for name, some, read in (
        ("a promoted chooser, ten agents, a text that the router read", range(AGENTS), True),
        ("one agent, a text that the router read", range(1), True),
        ("ten agents, a text that nobody has read", range(AGENTS), False),
    ):  # fmt: skip
        took = []
        for query in [text() for _query in range(200)]:
            if read:
                sentences.embed([query])
            began = time.process_time_ns()
            loaded.estimates(query, list(some))
            took.append((time.process_time_ns() - began) / 1e6)
        print(
            f"{name:<64} {np.median(took[10:]):6.2f} CPU ms in the median, {np.quantile(took[10:], 0.95):6.2f} at the 95th percentile"
        )


if __name__ == "__main__":
    main()
