"""A set whose queries share their clauses: one to three single-agent queries of another set, joined, each many times.

    .venv/bin/python -m benchmarks.joined DIR OUT [--sources 600] [--rows 4000]
    .venv/bin/python manage.py benchmark OUT --routers ddqn,svm

DIR is a folder as `benchmark` reads it. Sources of train, validation and test stand apart, so no clause of a test query was ever
trained on, while within train every clause comes back in other queries: cross-validation over its rows sees nothing new, and
flatters what remembers. `auto` must not be fooled by that.
"""

import argparse
import json
import random
from pathlib import Path

JOINS = (" and ", " and then ", ", also ", ". ", "; after that ")


def write_joined(source: Path, out: Path, sources: int, rows: int, seed: int = 0) -> None:
    """`sources` queries of each split of `source`, joined to `rows` training queries and a quarter as many of the others."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "agents.jsonl").write_bytes((source / "agents.jsonl").read_bytes())
    for number, split in enumerate(("train", "val", "test")):
        rng = random.Random(seed + number)
        lines = (source / f"{split}.jsonl").read_text("utf-8").splitlines()
        single = [row for line in lines if len((row := json.loads(line)).get("required_agents") or []) == 1]
        drawn = rng.sample(single, min(sources, len(single)))
        made = []
        for i in range(rows if split == "train" else rows // 4):
            parts = rng.sample(drawn, rng.choice((1, 2, 2, 3)))
            text = parts[0]["text"]
            for part in parts[1:]:
                text += rng.choice(JOINS) + part["text"]
            required = sorted({agent for part in parts for agent in part["required_agents"]})
            made.append({"id": f"{split}-{i}", "text": text, "required_agents": required})
        (out / f"{split}.jsonl").write_text(
            "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made), "utf-8"
        )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sources", type=int, default=600)
    parser.add_argument("--rows", type=int, default=4_000)
    options = parser.parse_args()
    write_joined(options.source, options.out, options.sources, options.rows)


if __name__ == "__main__":
    main()
