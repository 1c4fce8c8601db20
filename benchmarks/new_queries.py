"""Write queries of nine words that no cache knows: each begins as one query of a file and ends as another.

    .venv/bin/python -m benchmarks.new_queries QUERIES.jsonl OUT.jsonl [--count N] [--words N]

A router keeps what it read of the last 2,000 texts, so that a file of fewer queries measures its memory. The words of these queries
are those of the pool, as in real traffic; only their order is new. All texts differ.
"""

import argparse
import json
import random
from collections.abc import Sequence
from pathlib import Path


def new_queries(texts: Sequence[str], count: int, words: int = 9, seed: int = 0) -> list[str]:
    """So many different texts of `words` words. Raises ValueError where the texts have too few words for that."""
    rng = random.Random(seed)
    split = [parts for text in texts if len(parts := text.split()) > 1]
    if not split:
        raise ValueError("No text has two words.")
    made: dict[str, None] = {}
    for _attempt in range(20 * count):
        if len(made) == count:
            break
        chosen: list[str] = []
        while len(chosen) < words:
            parts = rng.choice(split)
            start = rng.randrange(len(parts) // 2 + 1)
            chosen += parts[start : start + min(words // 2 + 1, words - len(chosen))]
        made[" ".join(chosen)] = None
    if len(made) < count:
        raise ValueError(f"The texts give {len(made)} different queries of {words} words, not {count}.")
    return list(made)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("queries", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--count", type=int, default=40_000)
    parser.add_argument("--words", type=int, default=9)
    options = parser.parse_args()
    rows = map(json.loads, options.queries.read_text("utf-8").splitlines())
    texts = [row["text"] for row in rows if row.get("text")]
    made = new_queries(texts, options.count, options.words)
    options.out.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in made), "utf-8")


if __name__ == "__main__":
    main()
