"""What another conversation's first exchange, put in front of every query, costs a router of conversations.

    .venv/bin/python -m benchmarks.strange_turns DIR MODEL.zip [--split val] [--draws 5]

DIR is a folder as `benchmark` reads it, MODEL.zip an artifact trained on it. First turns and later ones stand apart, each with the
interval of what it loses: over queries, of the mean over draws of the other conversation.
"""

import argparse
from pathlib import Path

import numpy as np

from training_app.engine.data.conversations import before
from training_app.engine.data.folders import read_folder
from training_app.engine.data.intervals import spread
from training_app.engine.data.metrics import jaccard
from training_app.engine.data.rows import rows_of
from training_app.engine.judging.scorecard import with_strange_turns
from training_app.engine.routing.router import Router


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--split", default="test")
    parser.add_argument("--draws", type=int, default=1)
    options = parser.parse_args()
    found = read_folder(options.folder)
    rows = rows_of([example for example in found.examples if example.split == options.split], found.agents)
    router = Router.load(options.model)
    first = np.array([not before(text) for text in rows.texts])
    plain = jaccard(router.selections(rows.texts), rows.required)
    drawn = [
        jaccard(router.selections(with_strange_turns(rows.texts, draw)), rows.required) for draw in range(options.draws)
    ]
    strange = np.mean(drawn, axis=0)
    print(f"all {len(first)} turns: Jaccard {plain.mean():.4f}")
    for name, some in (("first", first), ("later", ~first)):
        lost = spread(strange[some] - plain[some]).plain()
        interval = f"{lost['mean']:+.4f} ({lost['low']:+.4f} to {lost['high']:+.4f})"
        print(
            f"{name} turns ({some.sum()}): {plain[some].mean():.4f}, behind strange turns {strange[some].mean():.4f}, {interval}"
        )


if __name__ == "__main__":
    main()
