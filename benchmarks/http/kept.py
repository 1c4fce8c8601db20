"""Whether every decision is kept at the full rate, and what that costs; see README.md beside this file.

Two servers on one processor, one of which keeps no decisions, are measured in turns; then the other answers at its full rate for two
minutes, and the decisions in the database are counted.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

from benchmarks.http.run import HERE, ROOT, wait_until_it_answers

COUNT = """
import django; django.setup()
from training_app.models import Decision
print(Decision.objects.count())
"""


def load(port: int, options: argparse.Namespace, seconds: int) -> tuple[float, int]:
    """Requests a second over eight connections, and how many were answered."""
    environment = {**os.environ, "QUERIES": options.queries, "ROUTE_KEY": options.key}
    command = [*options.client, "wrk", "-t1", "-c8", f"-d{seconds}s", "-s", str(HERE / "route.lua")]
    ended = subprocess.run(
        [*command, f"http://127.0.0.1:{port}"], env=environment, capture_output=True, text=True, check=True
    )
    measured = json.loads(ended.stdout.splitlines()[-1])
    assert measured["errors"] == 0, measured
    answered = next(int(line.split()[0]) for line in ended.stdout.splitlines() if "requests in" in line)
    return float(measured["requests_per_second"]), answered


def counted() -> int:
    """Decisions in the database."""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COUNT], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return int(ended.stdout.split()[-1])


def main() -> None:
    """Start both servers, measure, count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", required=True, help='a JSONL file whose lines hold "text"')
    parser.add_argument("--key", required=True, help="an API key with the scope route")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--port", type=int, default=8765)
    parser.add_argument("--server", default="taskset -c 0", help="how the servers are started (default: taskset -c 0)")
    parser.add_argument("--client", default="taskset -c 1", help="how wrk is started (default: taskset -c 1)")
    options = parser.parse_args()
    options.client = options.client.split()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "routerweb.settings")
    servers = []
    try:
        for place, buffer in enumerate(("0", "10000")):
            environment = {**os.environ, "PORT": str(options.port + place), "DECISION_BUFFER": buffer}
            command = [*options.server.split(), sys.executable, "-m", "routerweb.serving.server"]
            servers.append(subprocess.Popen(command, env=environment, cwd=ROOT))
        for place, server in enumerate(servers):
            wait_until_it_answers(server, f"http://127.0.0.1:{options.port + place}")
        before, answered, ratios = counted(), 0, []
        for _ in range(options.turns):
            off, _none = load(options.port, options, 2)
            on, some = load(options.port + 1, options, 2)
            answered += some
            ratios.append(on / off)
        rate, some = load(options.port + 1, options, options.seconds)
        answered += some
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait(timeout=30)
    print(
        f"{rate:.0f} requests a second for {options.seconds} s; {answered:,} answered in all, {counted() - before:,} decisions kept"
    )
    print(f"rate against keeping none, in {options.turns} turns: {statistics.median(ratios):.3f}")


if __name__ == "__main__":
    main()
