"""`python -m benchmarks.scale.stored [ROWS]` measures what a stored decision costs: CPU of the writer and of PostgreSQL, bytes.

It starts a PostgreSQL server and writes rows as a web process does, 500 in a transaction, into a table with all its indexes.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.machines.site import ROOT
from tests import migrated, on_postgresql

WRITE = """
import os, sys, time
import django
django.setup()
from django.db import connection
from agents_app import pools
from training_app.answering import decision_rows, decisions
rows, batch = int(sys.argv[1]), 500
pool = pools.create_pool("Support", "support", actor=None)
words = [f"word{n}" for n in range(5000)]
def row(n):
    at = time.time() - rows + n
    text = " ".join(words[(n * 7919 + k * k * 31) % 5000] for k in range(8 + n % 9))
    return (f"{decisions.new_id(at):032x}", pool.pk, None, None, text, [n % 10], {n % 10: 0.9, 3: 0.2}, 0.8, 2, "stop", False, 400, at,
            None, None, None)
made = [[row(n) for n in range(first, first + batch)] for first in range(0, rows, batch)]
with connection.cursor() as cursor:
    cursor.execute("SELECT pg_backend_pid()")
    pid = cursor.fetchone()[0]
def server():
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
own, theirs = time.process_time(), server()
for batch_of_rows in made:
    decision_rows.write(batch_of_rows)
own, theirs = time.process_time() - own, server() - theirs
with connection.cursor() as cursor:
    cursor.execute("SELECT pg_table_size('training_app_decision'), pg_indexes_size('training_app_decision')")
    table, indexes = cursor.fetchone()
print(f"{rows:,} rows: {own / rows * 1e6:.0f} µs of the writer, {theirs / rows * 1e6:.0f} µs of PostgreSQL, "
      f"{table / rows:.0f} bytes in the table and {indexes / rows:.0f} in its indexes a row")
"""


def main(rows: int) -> None:
    """Measure, and print a line."""
    with tempfile.TemporaryDirectory(prefix="routerweb-stored-") as name, on_postgresql.server() as server:
        environment = {
            **os.environ, "DJANGO_SETTINGS_MODULE": "routerweb.settings", "DEBUG": "1", "DATA_DIR": name, "PYTHONPATH": str(ROOT),
            "DATABASE_URL": migrated.postgresql(server, "stored"),
        }  # fmt: skip
        subprocess.run([sys.executable, "-c", WRITE, str(rows)], env=environment, cwd=Path(name), check=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
