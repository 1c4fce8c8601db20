"""Outcomes that are made up, as `benchmark_backends` reads them: `python -m benchmarks.made_up_choice DIR [--seed 0]`.

Seven backends of different price in three kinds of task, each of which a query's text says something else about:

    facts    a backend knows some topics better than others, and the words say the topic
    steps    the more conditions a task has, the more backends fail, the cheap ones first
    turns    texts come in pairs that differ in the one word that turns the answer; a backend that overlooks it fails on exactly one

Nothing of a real set is in it: what is chosen for one and helps on this one as well was not chosen for its own sake alone.
"""

import argparse
import json
from pathlib import Path

import numpy as np

SIZES = {"train": 1200, "val": 200, "test": 1000}
PRICES = np.array([0.1, 0.25, 0.3, 0.4, 1.0, 3.5, 5.0]) / 1000  # of a call of usual length
TOPICS = ("stars", "rivers", "metals", "laws", "songs", "plants", "engines", "painters")
WORDS = 24  # of each topic
TURNS = (("larger", "smaller"), ("before", "after"), ("likes", "hates"), ("early", "late"))


def made_up(seed: int) -> list[dict[str, object]]:
    """Rows in random order: text, category, and what each backend made of it."""
    rng = np.random.Generator(np.random.PCG64([seed, 15]))
    count, backends = sum(SIZES.values()), len(PRICES)
    skill = np.sort(rng.normal(0.6, 0.5, backends)) + np.linspace(-0.3, 0.6, backends)
    knows = rng.normal(0, 0.8, (backends, len(TOPICS)))
    overlooks = rng.random(backends) < np.linspace(0.7, 0.1, backends)
    rows: list[dict[str, object]] = []
    while len(rows) < count:
        kind = str(rng.choice(["facts", "steps", "turns"], p=[0.4, 0.3, 0.3]))
        if kind == "facts":
            topic = int(rng.integers(len(TOPICS)))
            own = [f"{TOPICS[topic]}{n}" for n in rng.integers(WORDS, size=3)]
            asked = [f"which of {own[0]} and {own[1]} has more {own[2]} in case {rng.integers(10**6)}"]
            logits = [skill + knows[:, topic]]
        elif kind == "steps":
            steps = int(rng.integers(1, 9))
            own = [f"rule{n}" for n in rng.integers(60, size=steps)]
            asked = ["write what keeps " + " and then ".join(own) + f" for client {rng.integers(10**6)}"]
            logits = [skill + 1.5 - 0.45 * steps * np.linspace(1.4, 0.6, backends)]
        else:
            stem = " ".join(f"name{n}" for n in rng.integers(3_000, size=10))
            asked = [f"{stem} because it is {word}" for word in TURNS[int(rng.integers(len(TURNS)))]]
            first = rng.random(backends) < 0.5  # which of the two the backend that overlooks the word gets right
            either = skill + 0.8 + rng.normal(0, 0.5)
            logits = [
                np.where(overlooks, np.where(first == bool(place), 3.0, -3.0), either) for place in range(len(asked))
            ]
        for text, logit in zip(asked, logits, strict=True):
            success = rng.random(backends) < 1 / (1 + np.exp(-logit))
            cost = PRICES * (0.5 + len(text) / 120) * rng.lognormal(0, 0.2, backends)
            outcomes = [
                {"backend": f"model {b}", "success": float(success[b]), "cost": float(cost[b])} for b in range(backends)
            ]
            rows.append({"text": text, "category": kind, "outcomes": outcomes})
    return [rows[at] for at in rng.permutation(count).tolist()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder, rows, first = Path(options.directory), made_up(options.seed), 0
    folder.mkdir(parents=True, exist_ok=True)
    for name, size in SIZES.items():
        lines = [json.dumps({"id": f"{first + n}", **row}) for n, row in enumerate(rows[first : first + size])]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
        first += size


if __name__ == "__main__":
    main()
