"""`python -m benchmarks.drift POOL OTHER` measures looks for drift: how often chance is taken for it, and how little is seen.

POOL is a folder of labeled queries, on whose training split a linear router is trained; OTHER one of texts about something else. The
held-out queries are split in two at random, again and again: one half is the reference, of the other as many as TRAFFIC says are the
traffic, of which a share is replaced by texts of OTHER.
"""

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training_app.engine.config import Config
from training_app.engine.data.folders import read_folder
from training_app.engine.judging import drift
from training_app.engine.routing.router import Router
from training_app.engine.routing.routes import Route
from training_app.engine.train import train

TRAFFIC = (60, 220)
SHARES = (0.0, 0.05, 0.10, 0.20, 0.30, 0.50)
REPEATS = 40
#: Where nothing is replaced: what is rare needs more.
REPEATS_OF_NOTHING = 200
NAMES = [measure.name for measure in drift.MEASURES]


def bins_of(pairs: list[tuple[str, Route]], vocabulary: drift.Vocabulary) -> NDArray[np.int64]:
    """The bin of each answer in each measure, (answers, measures)."""
    rows = []
    for text, route in pairs:
        sketch = drift.Sketch(vocabulary)
        sketch.add(
            text, confidence=route.confidence, likeliest=max(route.scores.values()), size=len(route.agents),
            abstained=route.abstained,
        )  # fmt: skip
        rows.append([sketch.counts[name].index(1) for name in NAMES])
    return np.array(rows, np.int64)


def histograms(bins: NDArray[np.int64]) -> dict[str, list[int]]:
    """The counts of so many answers by measure."""
    return {
        measure.name: np.bincount(column, minlength=measure.bins).tolist()
        for measure, column in zip(drift.MEASURES, bins.T, strict=True)
    }


def main(pool: Path, other: Path) -> None:
    """Print a table for each number of queries."""
    folder = read_folder(pool)
    config = Config(encoder="linear", baselines=False)
    result = next(p.result for p in train(config, folder.agents, list(folder.examples)) if p.result)
    router = Router.load(result.artifact)
    vocabulary = drift.Vocabulary.of(e.text for e in folder.train)
    held_out = list(dict.fromkeys(e.text for e in folder.val + folder.test))
    rng = np.random.default_rng(0)
    strange = [e.text for e in read_folder(other).test]
    strange = [strange[i] for i in rng.choice(len(strange), min(len(strange), 2_000), replace=False)]
    usual = bins_of(list(zip(held_out, router.route_batch(held_out), strict=True)), vocabulary)
    odd = bins_of(list(zip(strange, router.route_batch(strange), strict=True)), vocabulary)
    half = len(usual) // 2
    for traffic in TRAFFIC:
        traffic = min(traffic, half)
        print(f"\n{half} queries in the reference, {traffic} in the traffic\n")
        print("| replaced | " + " | ".join(NAMES) + " | any | looks |")
        print("| --- " * (len(NAMES) + 3) + "|")
        for share in SHARES:
            repeats = REPEATS if share else REPEATS_OF_NOTHING
            seen = dict.fromkeys([*NAMES, "any"], 0)
            for _ in range(repeats):
                order = rng.permutation(len(usual))
                reference, live = usual[order[:half]], usual[order[half : half + traffic]]
                count = round(share * traffic)
                live = np.concatenate([live[count:], odd[rng.choice(len(odd), count, replace=False)]])
                drifting = [
                    one.measure.name for one in drift.compare(histograms(reference), histograms(live)) if one.drifts
                ]
                for name in drifting:
                    seen[name] += 1
                seen["any"] += bool(drifting)
            figures = " | ".join(f"{count / repeats:.1%}" for count in seen.values())
            print(f"| {share:.0%} | {figures} | {repeats:,} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
