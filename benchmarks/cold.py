"""How well descriptions alone route to an agent that no model knows.

    .venv/bin/python -m benchmarks.cold DIR... [--split val] [--meaning]

Each DIR holds agents.jsonl and SPLIT.jsonl. An agent counts as found in a query where its probability reaches the threshold. Prints
precision and recall over all pairs of a query and a held-out agent, how often the likeliest agent is needed where any is (what a
pool without labels would get right), and the time that one text takes. With --meaning the sentence encoder is asked too.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from training_app.engine.data.folders import read_folder
from training_app.engine.reading.cold import ColdScorer

THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7)


def measure(folder: Path, split: str, meaning: bool) -> None:
    """Print one line a threshold for a folder."""
    found = read_folder(folder)
    examples = [example for example in found.examples if example.split == split]
    if not examples:
        sys.exit(f"{folder} has no {split} split.")
    # Scores do not depend on which of the other agents is known, so all are scored at once.
    scorer = ColdScorer(found.agents, [agent.id for agent in found.agents], meaning=meaning)
    began = time.process_time()
    scores = np.array([list(scorer.scores(example.text).cold.values()) for example in examples])  # [queries, agents]
    each = (time.process_time() - began) / len(examples)
    needed = np.array([[agent in example.required for agent in scorer.ids] for example in examples])
    print(f"{folder.name}, {split}: {len(examples)} queries, {len(scorer.ids)} agents, needed in {needed.mean():.1%} of the pairs;"
          f" {each * 1e6:.0f} µs of processor time a text")  # fmt: skip
    any_needed = needed.any(axis=1)
    first = needed[any_needed, scores[any_needed].argmax(axis=1)]
    print(f"  the likeliest agent is needed in {first.mean():.3f} of {len(first)} queries")
    for threshold in THRESHOLDS:
        taken = scores >= threshold
        hits = int((taken & needed).sum())
        precision = f"{hits / taken.sum():.3f}" if taken.any() else "–"
        print(f"  from {threshold:.2f}: precision {precision}, recall {hits / needed.sum():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("--split", default="test")
    parser.add_argument("--meaning", action="store_true", help="ask the sentence encoder too")
    options = parser.parse_args()
    for one in options.folders:
        measure(one, options.split, options.meaning)
