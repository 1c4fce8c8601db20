"""Requests a second of two checkouts, each with the default model that it trained, in turns; see README.md beside this file."""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.http.run import ROOT, load, processor_seconds, wait_until_it_answers

#: Modules that are a checkout's web server, the newest name first.
SERVERS = ("routerweb.serving.server", "routerweb.server")
POOL = "support"
#: Routes that a server answers before it is measured: it has met the pool's words then.
WARM_SECONDS = 5


def command_of(checkout: Path) -> list[str]:
    """What starts the web server of a checkout. Raises SystemExit where it has none, or no environment."""
    python = checkout / ".venv" / "bin" / "python"
    if not python.exists():
        raise SystemExit(f"{checkout} has no .venv: make one there first.")
    for module in SERVERS:
        if (checkout / (module.replace(".", "/") + ".py")).exists():
            return [str(python), "-m", module]
    raise SystemExit(f"{checkout} holds no web server; known are {', '.join(SERVERS)}.")


def slices(lines: list[str], count: int) -> list[list[str]]:
    """The lines in so many parts of one size, without what is left over. Raises SystemExit where a part would be empty."""
    size = len(lines) // count
    if not size:
        raise SystemExit(f"{len(lines)} queries are too few for {count} measurements.")
    return [lines[at * size : (at + 1) * size] for at in range(count)]


@contextlib.contextmanager
def serving(checkout: Path, data: Path, port: int, cpu: str) -> Iterator[tuple[str, int]]:
    """The address and the process of a checkout's server on one processor, which answers by the models of its data folder."""
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "SECRET_KEY")}
    own = {"DATA_DIR": str(data), "PORT": str(port), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    command = ["taskset", "-c", cpu, *command_of(checkout)]
    with subprocess.Popen(command, env=kept | own, cwd=checkout) as server:
        try:
            address = f"http://127.0.0.1:{port}"
            wait_until_it_answers(server, address)
            yield address, server.pid
        finally:
            server.terminate()


def main() -> None:
    """Start both servers, measure them in turns, print each measurement and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="the other checkout, with a .venv")
    parser.add_argument(
        "--data", type=Path, required=True, help="the data folder of this checkout, whose demo is trained"
    )
    parser.add_argument("--other-data", type=Path, required=True, help="that of the other one")
    parser.add_argument("--queries", type=Path, required=True, help="texts that differ, of `benchmarks.new_queries`")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=10, help="length of each measurement (default 10)")
    parser.add_argument("--connections", type=int, default=8)
    parser.add_argument("--port", type=int, default=8765, help="this one and the next")
    parser.add_argument("--server-cpu", default="0")
    parser.add_argument("--client-cpu", default="1")
    options = parser.parse_args()
    parts = slices(options.queries.read_text("utf-8").splitlines(), 2 * (options.pairs + 1))
    size, parts_left = len(parts[0]), iter(parts)
    options.pool = POOL
    checkouts = {"this": (ROOT, options.data), "other": (options.other.resolve(), options.other_data)}
    keys = {name: json.loads((data / "demo.json").read_text("utf-8"))["key"] for name, (_at, data) in checkouts.items()}

    def measured(name: str, seconds: int) -> dict[str, float]:
        """One measurement with texts that no server has met, and "cpu": µs of the server's processor a request."""
        address, pid = servers[name]
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".jsonl") as file:
            file.write("\n".join(next(parts_left)) + "\n")
            file.flush()
            options.queries, options.key, options.seconds = file.name, keys[name], seconds
            before = processor_seconds(pid)
            figures = load(address, options.connections, options)
        if figures["requests_per_second"] * seconds > size:
            raise SystemExit(f"{size} queries a measurement are too few: a text was sent twice.")
        spent = processor_seconds(pid) - before
        return figures | {"cpu": spent / (figures["requests_per_second"] * seconds) * 1e6}

    seconds = options.seconds
    with contextlib.ExitStack() as running:
        servers = {
            name: running.enter_context(serving(at, data.resolve(), options.port + place, options.server_cpu))
            for place, (name, (at, data)) in enumerate(checkouts.items())
        }
        for name in servers:
            measured(name, WARM_SECONDS)
        print("| pair | checkout | requests/s | p50 ms | p99 ms | errors | server µs/request |\n|" + " --- |" * 7)
        ratios = []
        for pair in range(1, options.pairs + 1):
            found = {name: measured(name, seconds) for name in (servers if pair % 2 else reversed(servers))}
            for name, f in found.items():
                print(
                    f"| {pair} | {name} | {f['requests_per_second']:.0f} | {f['p50_ms']:.2f} | {f['p99_ms']:.2f} | {f['errors']:.0f} "
                    f"| {f['cpu']:.0f} |",
                    flush=True,
                )
            ratios.append(
                (found["this"]["requests_per_second"] / found["other"]["requests_per_second"],
                found["other"]["cpu"] / found["this"]["cpu"])
            )  # fmt: skip
    rate, cpu = (statistics.median(each) for each in zip(*ratios, strict=True))
    print(
        f"this answers {rate:.2f} times the requests a second, and spends 1/{cpu:.2f} of the processor time on one (medians)"
    )


if __name__ == "__main__":
    main()
