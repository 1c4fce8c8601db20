"""`python -m benchmarks.scale.growth [SMALL LARGE DECISIONS [PAGE …]]` compares pages of a pool of LARGE queries with one of SMALL.

It starts a PostgreSQL server of its own, fills a database for each size (10,000 and 1,000,000, with 50,000 decisions each) by `fill`,
counts their figures as the clock does, and times the pages by `pages`, all of them or those named. A million queries take ten minutes
and 4 GB of disk.
"""

import os
import subprocess
import sys
import tempfile

from benchmarks.machines.site import ROOT
from benchmarks.scale import pages
from tests import migrated, on_postgresql

#: Makes the index of words again and counts what the clock counts.
COUNT = """
import django
django.setup()
from datasets_app.figures import counting
from routerweb.database import trigrams
from training_app.rollout import traffic_hours
trigrams.make_all()
counting.count_all()
traffic_hours.count_all()
"""


def make(server: str, queries: int, decisions: int) -> str:
    """A filled database of the server; its address."""
    url = migrated.postgresql(server, f"queries_{queries}")
    environment = {**os.environ, "DATABASE_URL": url}
    subprocess.run(
        [sys.executable, "-m", "benchmarks.scale.fill", str(queries), str(decisions)],
        env=environment, cwd=ROOT, check=True,
    )  # fmt: skip
    subprocess.run([sys.executable, "-c", COUNT], env=environment, cwd=ROOT, check=True)
    return url


def main(small: int, large: int, decisions: int, names: list[str]) -> int:
    """Fill, count, compare; the exit status."""
    with tempfile.TemporaryDirectory(prefix="routerweb-growth-") as data, on_postgresql.server() as server:
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "routerweb.settings", "SECRET_KEY": "only-for-this-benchmark", "PLAIN_HTTP": "1",
            "DATA_DIR": data,
        }  # fmt: skip
        return pages.main([make(server, queries, decisions) for queries in (small, large)], names)


if __name__ == "__main__":
    few, many, stored = [int(word) for word in sys.argv[1:4]] or [10_000, 1_000_000, 50_000]
    sys.exit(main(few, many, stored, sys.argv[4:]))
