"""A toy whose answers depend on the order of words, and small pools and scorers for tests of the sequence scorer."""

import itertools

import numpy as np

from training_app.engine.reading.sequences.sequence_fit import SequenceScorer

SMALL = SequenceScorer(width=16, states=24, buckets=512, min_count=1, batch_size=16)
QUICK = SequenceScorer(width=8, states=8, buckets=64, min_count=1, batch_size=8, passes=2)


def order_task(rng: np.random.Generator, rows: int) -> tuple[list[str], np.ndarray]:
    """Texts of one to three clauses, "get <name> <noun>" or "not get <name> <noun>": the noun that ends a clause names
    its agent, and the "not" that begins it says that the agent is not needed."""
    nouns = ["song", "game", "table"]
    names = [a + b for a, b in itertools.product(["ka", "lo", "mi", "nu"], ["ra", "te", "so", "du"])]
    texts, Y = [], np.zeros((rows, 3), bool)
    for row in range(rows):
        clauses = []
        for agent in rng.permutation(3)[: rng.integers(1, 4)]:
            wanted = rng.random() < 0.5
            Y[row, agent] |= wanted
            clauses.append(f"{'' if wanted else 'not '}get {rng.choice(names)} {nouns[agent]}")
        texts.append(" and ".join(clauses))
    return texts, Y


def small_pool() -> tuple[list[str], np.ndarray, np.ndarray]:
    texts = ["play a song", "book a table", "play a song and book a table", "Закажи столик", "播放音乐", "nothing"] * 3
    Y = np.array([[1, 0], [0, 1], [1, 1], [0, 1], [1, 0], [0, 0]] * 3, bool)
    return texts, Y, np.ones_like(Y)
