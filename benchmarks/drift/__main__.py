"""`python -m benchmarks.drift POOL OTHER` measures looks for drift: how often chance is taken for it, and how little is seen.

POOL is a folder of labeled queries, on whose training split a linear router is trained; OTHER one of texts about something else. The
held-out queries are split in two at random, again and again: one half is the reference, the other the traffic, of which a share is
replaced by texts of OTHER.
"""

import sys
from pathlib import Path

import numpy as np

from training_app.engine import drift
from training_app.engine.config import Config
from training_app.engine.files import read_folder
from training_app.engine.router import Route, Router
from training_app.engine.train import train

SHARES = (0.0, 0.05, 0.10, 0.20, 0.30, 0.50)
REPEATS = 60


def sketched(pairs: list[tuple[str, Route]], vocabulary: drift.Vocabulary) -> dict[str, list[int]]:
    """The histograms of so many answers."""
    sketch = drift.Sketch(vocabulary)
    for text, route in pairs:
        sketch.add(
            text, confidence=route.confidence, likeliest=max(route.scores.values()), size=len(route.agents),
            abstained=route.abstained,
        )  # fmt: skip
    return sketch.counts


def main(pool: Path, other: Path) -> None:
    """Print the table."""
    folder = read_folder(pool)
    config = Config(encoder="linear", baselines=False)
    result = next(p.result for p in train(config, folder.agents, list(folder.examples)) if p.result)
    router = Router.load(result.artifact)
    vocabulary = drift.Vocabulary.of(e.text for e in folder.train)
    held_out = list(dict.fromkeys(e.text for e in folder.val + folder.test))
    rng = np.random.default_rng(0)
    strange = [e.text for e in read_folder(other).test]
    strange = [strange[i] for i in rng.choice(len(strange), min(len(strange), 2_000), replace=False)]
    usual = list(zip(held_out, router.route_batch(held_out), strict=True))
    odd = list(zip(strange, router.route_batch(strange), strict=True))
    half = len(usual) // 2
    print(f"{half} queries in the reference, {half} in the traffic, {REPEATS} times each\n")
    print("| replaced | " + " | ".join(m.name for m in drift.MEASURES) + " | any |")
    print("| --- " * (len(drift.MEASURES) + 2) + "|")
    for share in SHARES:
        seen = dict.fromkeys([m.name for m in drift.MEASURES] + ["any"], 0)
        for _ in range(REPEATS):
            order = rng.permutation(len(usual))
            reference, live = [usual[i] for i in order[:half]], [usual[i] for i in order[half : 2 * half]]
            count = round(share * half)
            live = live[count:] + [odd[i] for i in rng.choice(len(odd), count, replace=False)]
            drifting = {
                one.measure.name
                for one in drift.compare(sketched(reference, vocabulary), sketched(live, vocabulary))
                if one.drifts
            }
            for name in drifting:
                seen[name] += 1
            seen["any"] += bool(drifting)
        print(f"| {share:.0%} | " + " | ".join(f"{count / REPEATS:.0%}" for count in seen.values()) + " |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
