"""Rows a CPU second and peak memory of an import: `python -m benchmarks.importing [ROWS]`, into an SQLite database of its own.

The rows are made up: six to eighteen words out of 4,000, none to three of nine agents, all of the training split.
"""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def write(path: Path, count: int, seed: int = 3) -> None:
    """A file of made-up rows, one JSON object a line."""
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefghijklmnop", k=draw.randint(3, 9))) for _ in range(4_000)]
    with path.open("w") as file:
        for _ in range(count):
            text = " ".join(draw.choices(words, k=draw.randint(6, 18)))
            required = sorted(draw.sample(range(9), draw.randint(0, 3)))
            file.write(json.dumps({"text": text, "required_agents": required, "split": "train"}) + "\n")


def main(count: int) -> None:
    """Import so many rows and print what it took."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"DATABASE_URL": f"sqlite:///{folder}/db.sqlite3", "DATA_DIR": folder, "PLAIN_HTTP": "1"}
        os.environ |= {
            "SECRET_KEY": "only for this benchmark, which serves nobody",
            "DJANGO_SETTINGS_MODULE": "routerweb.settings",
        }
        subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], check=True)
        path = Path(folder) / "rows.jsonl"
        # In a process of its own, so that its memory is not this one's.
        subprocess.run([sys.executable, "-m", "benchmarks.importing", "write", str(path), str(count)], check=True)
        import django

        django.setup()
        from agents_app import pools
        from datasets_app.files import imports
        from datasets_app.queries import adding

        pool = pools.create_pool("Made up", "made-up")
        for number in range(9):
            pools.add_agent(pool, f"Agent {number}")
        began = time.process_time()
        with path.open("rb") as stream:
            upload = imports.read_file(adding.dataset_of(pool), stream, "jsonl")
        seconds = time.process_time() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{upload.queries_added:,} rows: {count / seconds:,.0f} rows a CPU second, peak memory {peak:.0f} MB")


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
