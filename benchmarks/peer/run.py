"""Routerweb beside ddqn-router 0.2.0: the same data, the same split, the same core, one run.

    python benchmarks/peer/run.py DATA OUT [--seeds 3] [--peer DIR] [--seconds 10]

DATA holds agents.jsonl and train, val, test.jsonl. The peer is installed with its `serve` extra into a virtual environment of
its own under OUT and trained with its defaults, which takes most of an hour of one core; `--peer DIR` takes up an earlier one that
is trained. What is measured runs on one processor (the first), the load generator on another (the last). Prints a table and
writes OUT/peer.json.
"""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PEER = ("torch==2.13.0", "ddqn-router[serve]==0.2.0")
CONNECTIONS = (1, 8, 64)
CORES = sorted(os.sched_getaffinity(0))
SERVED_ON, LOAD_ON = str(CORES[0]), str(CORES[-1])
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def measured(command: list[str], **options: Any) -> tuple[str, dict[str, float]]:
    """Run a command on the measured core; its output, and CPU seconds and peak MB by the kernel's account."""
    with subprocess.Popen(
        ["taskset", "-c", SERVED_ON, *command],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **ONE_THREAD},
        **options,
    ) as child:
        assert child.stdout
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{' '.join(command)} ended with {child.returncode}")
    return output, {"cpu_seconds": usage.ru_utime + usage.ru_stime, "peak_mb": usage.ru_maxrss / 1000}


def say(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


# --- The peer ------------------------------------------------------------------------------------------------------


def train_peer(folder: Path, data: Path) -> dict[str, float]:
    """The peer, installed and trained with its defaults under `folder`; what is there already is taken up."""
    figures = folder / "training.json"
    if figures.exists():
        return dict(json.loads(figures.read_text()))
    folder.mkdir(parents=True, exist_ok=True)
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        say("installing the peer")
        subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PEER], check=True)
    shutil.copytree(data, folder / "data", dirs_exist_ok=True, copy_function=shutil.copyfile)
    (folder / "config.yaml").write_text(peer_config(data))
    say("training the peer with its defaults (200,000 steps)")
    command = [str(python), "-c", "from ddqn_router.cli import app; app()", "train", "--config", "config.yaml"]
    _, usage = measured(command, cwd=folder)
    figures.write_text(json.dumps(usage))
    return usage


def peer_config(data: Path) -> str:
    agents = [json.loads(line) for line in (data / "agents.jsonl").read_text("utf-8").splitlines() if line.strip()]
    lines = ["agents:"]
    for agent in agents:
        lines.append(f"  - id: {agent['id']}")
        lines += [
            f"    {name}: {json.dumps(agent.get(name, ''), ensure_ascii=False)}" for name in ("name", "description")
        ]
    return "\n".join([*lines, "dataset: {output_dir: ./data/}", "output_dir: ./artifacts/", ""])


# --- Ours ----------------------------------------------------------------------------------------------------------


def train_ours(out: Path, data: Path, seeds: int) -> list[dict[str, float]]:
    """Our router with its defaults, one model a seed, as out/ours-SEED.zip."""
    figures = []
    for seed in range(seeds):
        say(f"training ours, seed {seed}")
        artifact = str(out / f"ours-{seed}.zip")
        figures.append(measured([sys.executable, str(HERE / "train_ours.py"), str(data), artifact, str(seed)])[1])
    return figures


def prepare_ours(out: Path, data: Path, port: int) -> tuple[dict[str, str], str]:
    """An installation of ours under out/installation with the model of seed 0 active; its environment, and a key."""
    folder = out / "installation"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = {
        **os.environ, **ONE_THREAD, "DATA_DIR": str(folder), "SECRET_KEY": "only-for-a-benchmarks-site-on-this-machine",
        "PLAIN_HTTP": "1", "PORT": str(port),
        "LOG_LEVEL": "warning", "DATABASE_URL": "",
    }  # fmt: skip

    def manage(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    manage("migrate", "--verbosity", "0")
    manage("load_pool", str(data), "--slug", "bench")
    manage("import_model", str(out / "ours-0.zip"), "--pool", "bench")
    manage("promote", "bench-1", "--reason", "benchmark")
    key = re.search(r"rw_\S+", manage("create_api_key", "bench", "--pool", "bench", "--scope", "route"))
    assert key
    return environment, key[0]


# --- Over HTTP -----------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def serve_and_load(
    command: list[str], port: int, path: str, data: Path, seconds: int, key: str = "", **options: Any
) -> dict[str, Any]:
    """Start a server on the measured core, wait for its first answer, and load it with wrk from another core."""
    url = f"http://127.0.0.1:{port}{path}"
    started = time.perf_counter()
    server = subprocess.Popen(
        ["taskset", "-c", SERVED_ON, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        **options,
    )  # fmt: skip
    try:
        figures: dict[str, Any] = {"first_answer_seconds": first_answer(url, key, started, server)}
        environment = {**os.environ, "QUERIES": str(data / "test.jsonl"), "ROUTE_KEY": key, "ROUTE_PATH": path}
        for connections in CONNECTIONS:
            done = subprocess.run(
                ["taskset", "-c", LOAD_ON, "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency",
                 "-s", str(ROOT / "benchmarks" / "http" / "route.lua"), url],
                env=environment, capture_output=True, text=True, check=True,
            )  # fmt: skip
            figures[f"connections_{connections}"] = json.loads(done.stdout.strip().splitlines()[-1])
        figures["serving_mb"] = group_memory_mb(server.pid)
        return figures
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        try:
            server.wait(timeout=15)
        except subprocess.TimeoutExpired:
            os.killpg(server.pid, signal.SIGKILL)


def first_answer(url: str, key: str, started: float, server: subprocess.Popen) -> float:
    """Seconds from the start of the process to its first route."""
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    while time.perf_counter() - started < 60 and server.poll() is None:
        try:
            request = urllib.request.Request(url, json.dumps({"query": "first"}).encode(), headers)
            with urllib.request.urlopen(request, timeout=5) as answer:
                answer.read()
            return time.perf_counter() - started
        except (urllib.error.URLError, OSError):
            time.sleep(0.02)
    sys.exit(f"{url} did not answer")


def group_memory_mb(leader: int) -> float:
    """Memory, in MB, of all processes of a server's process group, its parent included: what several of them share counted once,
    and what they share with other programs of the machine counted whole.

    Of its own memory a process counts its proportional share, which only a fork divides. Of each mapped file counts what the
    process holds that holds most of it."""
    own, files = 0, dict[str, int]()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(status.read_text().rpartition(")")[2].split()[2]) != leader:
                continue
            for line in (status.parent / "smaps_rollup").read_text().splitlines():
                own += int(line.split()[1]) if line.startswith(("Pss_Anon:", "Pss_Shmem:")) else 0
            held = dict[str, int]()
            for line in (status.parent / "smaps").read_text().splitlines():
                name, *rest = line.split(maxsplit=5)
                if not name.endswith(":"):
                    file = rest[4] if len(rest) > 4 and rest[4].startswith("/") else ""
                elif file and name in ("Rss:", "Anonymous:"):
                    held[file] = held.get(file, 0) + (int(rest[0]) if name == "Rss:" else -int(rest[0]))
        except (OSError, IndexError, ValueError):
            continue
        files = {file: max(files.get(file, 0), held.get(file, 0)) for file in files.keys() | held.keys()}
    return (own + sum(files.values())) * 1024 / 1e6


# --- The table -----------------------------------------------------------------------------------------------------


def mean(rows: list[dict[str, Any]], name: str) -> float:
    return float(sum(row[name] for row in rows) / len(rows))


def table(peer: dict[str, Any], ours: dict[str, Any]) -> str:
    """Both sides and their ratio as a Markdown table."""
    rows: list[tuple[str, float, float, str]] = []
    for name, label, form in (
        ("jaccard", "test Jaccard", ".3f"),
        ("f1", "test F1", ".3f"),
        ("exact", "test exact match", ".3f"),
        ("cpu_seconds", "training, CPU seconds", ",.1f"),
        ("peak_mb", "training, peak MB", ",.0f"),
        ("route_us_p50", "one route, median µs", ",.0f"),
        ("route_us_p99", "one route, p99 µs", ",.0f"),
        ("batch_routes_per_second", "batch, routes a second", ",.0f"),
    ):
        rows.append((label, peer[name], ours[name], form))
    for name, label, form in (
        ("first_answer_seconds", "start to first answer, seconds", ".2f"),
        ("serving_mb", "serving process, MB", ",.0f"),
    ):
        rows.append((label, peer["http"][name], ours["http"][name], form))
    for connections in CONNECTIONS:
        one, other = (side["http"][f"connections_{connections}"] for side in (peer, ours))
        for name, label, form in (
            ("requests_per_second", "requests a second", ",.0f"), ("p50_ms", "p50 ms", ".2f"), ("p99_ms", "p99 ms", ".2f"),
            ("errors", "errors", ",.0f"),
        ):  # fmt: skip
            rows.append((f"HTTP, {connections} connections: {label}", one[name], other[name], form))
    lines = ["| | ddqn-router 0.2.0 | Routerweb | Routerweb / peer |", "| --- | ---: | ---: | ---: |"]
    for label, one, other, form in rows:
        ratio = f"{other / one:.3g}" if one else "–"
        lines.append(f"| {label} | {one:{form}} | {other:{form}} | {ratio} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--peer", type=Path, help="an earlier OUT/peer with a trained peer")
    parser.add_argument("--seconds", type=int, default=10, help="length of each load")
    options = parser.parse_args()
    data, out = options.data.resolve(), options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    folder = (options.peer or out / "peer").resolve()
    if not shutil.which("wrk") or not shutil.which("taskset"):
        sys.exit("wrk and taskset are needed: on Debian, the packages wrk and util-linux.")

    peer: dict[str, Any] = train_peer(folder, data)
    training = train_ours(out, data, options.seeds)
    python = str(folder / "venv" / "bin" / "python")
    say("measuring both in process")
    peer |= json.loads(measured([python, str(HERE / "measure_peer.py"), str(folder / "artifacts"), str(data)])[0])
    ours_script = str(HERE / "measure_ours.py")
    each = [
        json.loads(measured([sys.executable, ours_script, str(out / f"ours-{seed}.zip"), str(data)])[0])
        for seed in range(options.seeds)
    ]
    ours: dict[str, Any] = {name: mean(each, name) for name in each[0]}
    ours |= {name: mean(training, name) for name in training[0]}
    ours["seeds"] = [{**one, **two} for one, two in zip(each, training, strict=True)]

    say("loading both over HTTP")
    port = free_port()
    peer_command = [
        python, "-c", "from ddqn_router.cli import app; app()", "serve", "--artifacts", str(folder / "artifacts"),
        "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip
    peer["http"] = serve_and_load(peer_command, port, "/route", data, options.seconds, env={**os.environ, **ONE_THREAD})
    port = free_port()
    environment, key = prepare_ours(out, data, port)
    our_command = [sys.executable, "-m", "routerweb.serving.server"]
    ours["http"] = serve_and_load(
        our_command, port, "/api/route/", data, options.seconds, key, env=environment, cwd=ROOT
    )
    (out / "peer.json").write_text(json.dumps({"data": str(data.name), "peer": peer, "ours": ours}, indent=2))
    print(
        f"\nData {data.name}, {options.seeds} seeds of ours, one of the peer; one core each side.\n\n{table(peer, ours)}"
    )


if __name__ == "__main__":
    main()
