"""How fast an application gets routes over HTTP; see README.md beside this file."""

import argparse
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
TICKS = os.sysconf("SC_CLK_TCK")


def processes(pid: int) -> list[int]:
    """The process and all its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(found for child in children for found in processes(int(child)))]


def processor_seconds(pid: int) -> float:
    """User and system time of a process and its descendants."""
    fields = [Path(f"/proc/{found}/stat").read_text().rsplit(")", 1)[1].split() for found in processes(pid)]
    return sum(int(field[11]) + int(field[12]) for field in fields) / TICKS


def megabytes(pid: int) -> list[float]:
    """Resident memory of a process and its descendants, pages that they share counted in parts."""
    found = []
    for one in processes(pid):
        lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        found.append(next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024)
    return found


def wait_until_it_answers(server: subprocess.Popen[bytes], address: str) -> float:
    """Seconds until the health address answers."""
    began = time.perf_counter()
    while time.perf_counter() - began < 60:
        if server.poll() is not None:
            raise SystemExit(f"The server ended with status {server.returncode} before it answered.")
        try:
            urllib.request.urlopen(f"{address}/api/health/", timeout=5).read()
            return time.perf_counter() - began
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.01)
    raise SystemExit(f"The server did not answer at {address} within a minute.")


def load(address: str, connections: int, options: argparse.Namespace) -> dict[str, float]:
    """What wrk measured over that many connections."""
    environment = {**os.environ, "QUERIES": options.queries, "ROUTE_KEY": options.key, "ROUTE_POOL": options.pool or ""}
    if not options.pool:
        del environment["ROUTE_POOL"]
    command = ["taskset", "-c", options.client_cpu, "wrk", "-t1", f"-c{connections}", f"-d{options.seconds}s"]
    ended = subprocess.run(
        [*command, "-s", str(HERE / "route.lua"), address], env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise SystemExit(f"wrk failed: {ended.stdout}{ended.stderr}")
    measured: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return measured


def main() -> None:
    """Start the server, measure it, print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queries", required=True, help='a JSONL file whose lines hold "text"')
    parser.add_argument("--key", required=True, help="an API key with the scope route")
    parser.add_argument("--pool", help="the pool's slug, where the key opens several")
    parser.add_argument("--seconds", type=int, default=10, help="length of each measurement (default 10)")
    parser.add_argument("--connections", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--port", default="8765")
    parser.add_argument("--server-cpu", default="0")
    parser.add_argument("--client-cpu", default="1")
    parser.add_argument("server", nargs="*", help="another server's command, after --")
    options = parser.parse_args()
    address = f"http://127.0.0.1:{options.port}"
    try:
        urllib.request.urlopen(address, timeout=2)
    except urllib.error.HTTPError:
        raise SystemExit(f"Something else answers at {address}; choose another --port.") from None
    except (urllib.error.URLError, ConnectionError):
        pass
    command = options.server or [sys.executable, "-m", "routerweb.serving.server"]
    environment = {**os.environ, "PORT": options.port, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    server = subprocess.Popen(["taskset", "-c", options.server_cpu, *command], env=environment, cwd=ROOT)
    try:
        print(f"{' '.join(map(str, command))}")
        print(f"first answer after {wait_until_it_answers(server, address):.2f} s")
        print(
            "| connections | requests/s | p50 ms | p99 ms | errors | server µs/request |\n| --- | --- | --- | --- | --- | --- |"
        )
        for connections in options.connections:
            before = processor_seconds(server.pid)
            found = load(address, connections, options)
            each = (processor_seconds(server.pid) - before) / (found["requests_per_second"] * options.seconds) * 1e6
            print(
                f"| {connections} | {found['requests_per_second']:.0f} | {found['p50_ms']:.2f} | {found['p99_ms']:.2f} "
                f"| {found['errors']:.0f} | {each:.0f} |",
                flush=True,
            )
        print("memory, MB:", ", ".join(f"{found:.0f}" for found in megabytes(server.pid)))
    finally:
        server.terminate()
        server.wait(timeout=20)


if __name__ == "__main__":
    main()
