"""`python -m benchmarks.machines [scenario …]` runs an installation on several machines and prints what was seen; all without names.

Needs PostgreSQL, and for a full disk the right to mount one (root). Exit status 1 where a scenario does not hold.
"""

import os
import sys
import tempfile
import time
import traceback
from pathlib import Path

from benchmarks.machines.bench import Bench
from benchmarks.machines.faults import artifacts, full_disk
from benchmarks.machines.jobs import killed_labeling, killed_training, runs, sweep
from benchmarks.machines.site import Site, small_disk
from benchmarks.machines.traffic import database, promotions
from tests import on_postgresql
from tests.test_end_to_end import NEEDS, OPENINGS, write_folder

DISK_MB = 400
SCENARIOS = {
    "runs": runs,
    "sweep": sweep,
    "killed-training": killed_training,
    "killed-labeling": killed_labeling,
    "promotions": promotions,
    "database": database,
    "full-disk": full_disk,
    "artifacts": artifacts,
}


def main(names: list[str]) -> int:
    unknown = set(names) - set(SCENARIOS)
    if unknown:
        print(f"Unknown: {', '.join(sorted(unknown))}. There are {', '.join(SCENARIOS)}.")
        return 2
    failed = 0
    with (
        tempfile.TemporaryDirectory(prefix="routerweb-machines-", ignore_cleanup_errors=True) as name,
        small_disk(Path(name), DISK_MB) as disk,
    ):
        folder = Path(name)
        server = on_postgresql.Server(folder, disk / "data" if disk else None)
        server.start()
        site = Site(folder, server.url, DECISION_BUFFER="300", ROUTE_RATE_PER_MINUTE="0")
        try:
            site.manage("migrate", "--verbosity", "0")
            (folder / "pool").mkdir()
            write_folder(folder / "pool")
            site.manage("load_pool", str(folder / "pool"), "--slug", "shop")
            texts = [f"{opening}, {phrase}" for opening in OPENINGS for need in NEEDS.values() for phrase in need]
            bench = Bench(site, server, disk, texts)
            for scenario in names or SCENARIOS:
                run = SCENARIOS[scenario]
                print(f"{scenario}: {run.__doc__}", flush=True)
                began = time.monotonic()
                try:
                    run(bench)
                except AssertionError:
                    traceback.print_exc()
                    failed += 1
                print(f"    {time.monotonic() - began:.0f} s\n", flush=True)
        finally:
            site.close()
            server.stop()
            if failed and os.environ.get("SHOW_LOGS"):
                for machine in site.machines:
                    print(f"--- {machine.name}\n{machine.log.read_text()[-4000:]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
