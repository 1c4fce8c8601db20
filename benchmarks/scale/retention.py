"""`python -m benchmarks.scale.retention PLAIN PARTED [DAYS]` times how one day of decisions goes by retention in two databases.

`fill` filled both, the second with `--parted`. The oldest day goes from each in turns, DAYS times (5).
"""

import json
import os
import subprocess
import sys
import time

import numpy as np

ONE = """
import json, sys, time
import django
django.setup()
from django.db import connection
from django.utils import timezone
from training_app.answering import decisions
from training_app.models import Decision, Outcome
def rows():
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM training_app_decision")
        count = cursor.fetchone()[0]
        cursor.execute("SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('training_app_decision')")
        return count, int(cursor.fetchone()[0] or 0)
oldest = Decision.objects.order_by("at").values_list("at", flat=True).first()
days = (timezone.now() - oldest).days - 1
before = rows()
began = time.perf_counter()
decisions.prune(days)
took = time.perf_counter() - began
after = rows()
print(json.dumps({"s": took, "rows": before[0] - after[0], "freed": (before[1] - after[1]) / 1e6}))
"""


def main(plain: str, parted: str, days: int) -> None:
    """Print the table."""
    print("| table | rows of a day | retention, s | freed, MB |\n| --- | --- | --- | --- |")
    sides: dict[str, list[dict[str, float]]] = {"plain": [], "parted": []}
    for _n in range(days):
        for name, url in (("plain", plain), ("parted", parted)):
            environment = {**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "routerweb.settings"}
            command = [sys.executable, "-c", ONE]
            ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            sides[name].append(json.loads(ended.stdout.splitlines()[-1]))
            time.sleep(1)
    for name, seen in sides.items():
        rows, seconds, freed = (np.median([one[key] for one in seen]) for key in ("rows", "s", "freed"))
        print(f"| {name} | {rows:,.0f} | {seconds:.2f} | {freed:.0f} |")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 5)
