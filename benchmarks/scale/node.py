"""`python -m benchmarks.scale.node [NAME=VALUE ...]` reports the memory and the connections of one machine with every part.

It starts PostgreSQL and `manage.py up` with these settings, makes a pool with a small model, asks for its pages eight at a time,
routes, and prints each process: its proportional share of memory (PSS), and how many connections to PostgreSQL it holds at most.
"""

import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.machines.site import ROOT, free_port, tree, wait_for
from tests import migrated, on_postgresql
from tests.training_app import trained

PREPARE = """
import django
django.setup()
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from django_q.models import Schedule
from agents_app import keys, pools
from training_app.versions import registry
pool = pools.create_pool("Support", "support", actor=None)
for name in ("Billing", "Shipping", "Technical"):
    pools.add_agent(pool, name)
registry.promote(registry.register(None, pool, open("model.zip", "rb").read(), {}), actor=None)
Schedule.objects.update(next_run=timezone.now())  # hourly and daily work too, which a worker's memory grows with
browser = Client()
browser.force_login(User.objects.create_superuser("admin", "admin@example.com", "secret"))
print(keys.create_key("node", [pool], ["route"])[1])
print(settings.SESSION_COOKIE_NAME + "=" + browser.cookies[settings.SESSION_COOKIE_NAME].value)
"""
PAGES = (
    "", "queries/", "label/", "review/", "agreement/", "drift/", "models/", "runs/", "decisions/", "traffic/", "proposals/", "agents/",
)  # fmt: skip
ROUNDS = 5


def pss(pid: int) -> float:
    """A process's share of memory, in MB: what it has alone, and its part of what it shares."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss:\s+(\d+)", text, re.M)
    return int(found[1]) / 1024 if found else 0.0


def part(pid: int) -> str:
    """What a process is."""
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    environment = Path(f"/proc/{pid}/environ").read_text().split("\0")
    for name, title in (("keeper.py", "keeper of all parts"), ("supervisor.py", "supervisor of the web processes")):
        if any(word.endswith(name) for word in words):
            return title
    if "routerweb.serving.worker" in words:
        return "web process"
    if "run_cluster" in words:
        return "training cluster" if "Q_CLUSTER_NAME=train" in environment else "job cluster"
    return "episodes" if "run_episodes" in words else "manage.py up" if "up" in words else "other"


def connections(pids: list[int], port: int) -> Counter[str]:
    """How many connections to the database each part holds."""
    inodes: dict[str, int] = {}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        columns = line.split()
        if int(columns[2].split(":")[1], 16) == port and columns[3] == "01":
            inodes[f"socket:[{columns[9]}]"] = port
    held: Counter[str] = Counter()
    for pid in pids:
        try:
            links = [os.readlink(link) for link in Path(f"/proc/{pid}/fd").iterdir()]
            held[part(pid)] += sum(link in inodes for link in links)
        except OSError:  # it has ended
            continue
    return held


def main(words: list[str]) -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory(prefix="routerweb-node-") as name, on_postgresql.server() as server:
        folder, port = Path(name), free_port()
        environment = {
            **os.environ, "SECRET_KEY": secrets.token_urlsafe(50),
            "DJANGO_SETTINGS_MODULE": "routerweb.settings", "DATA_DIR": name, "PLAIN_HTTP": "1", "PYTHONPATH": str(ROOT),
            "DATABASE_URL": migrated.postgresql(server, "node"), "PORT": str(port), **dict(word.split("=", 1) for word in words),
        }  # fmt: skip
        (folder / "model.zip").write_bytes(trained.result().artifact)
        made = subprocess.run(
            [sys.executable, "-c", PREPARE], env=environment, cwd=folder, stdout=subprocess.PIPE, text=True, check=True
        )
        key, cookie = made.stdout.split()
        with (folder / "log").open("w") as log:
            up = subprocess.Popen(
                [sys.executable, "manage.py", "up"], env=environment, cwd=ROOT, stdout=log, stderr=log
            )
        try:
            _report(up.pid, f"http://127.0.0.1:{port}", key, cookie, int(server.rsplit(":", 1)[1].split("/")[0]))
        finally:
            up.send_signal(signal.SIGTERM)
            up.wait(60)


def _get(address: str, **headers: str) -> int:
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=60) as answer:
        answer.read()
        return int(answer.status)


def _up(address: str) -> bool:
    try:
        return _get(f"{address}/api/health/") == 200
    except OSError:
        return False


def _report(root: int, address: str, key: str, cookie: str, port: int) -> None:
    wait_for(lambda: _up(address), "the web server's answer")
    most: Counter[str] = Counter()
    with ThreadPoolExecutor(8) as threads:
        for _n in range(ROUNDS):
            waiting = [threads.submit(_get, f"{address}/p/support/{page}", Cookie=cookie) for page in PAGES]
            body = {"Authorization": f"Bearer {key}"}
            waiting += [threads.submit(_get, f"{address}/api/agents/", **body) for _m in range(8)]
            while not all(one.done() for one in waiting):
                for name, count in connections(tree(root), port).items():
                    most[name] = max(most[name], count)
                time.sleep(0.02)
            assert {one.result() for one in waiting} == {200}
    rows: dict[str, list[float]] = {}
    for pid in tree(root):
        rows.setdefault(part(pid), []).append(pss(pid))
    print("| part | processes | memory, MB | connections |\n| --- | --- | --- | --- |")
    for name, sizes in rows.items():
        print(f"| {name} | {len(sizes)} | {sum(sizes):.0f} | {most[name]} |")
    print(f"| together | {sum(map(len, rows.values()))} | {sum(map(sum, rows.values())):.0f} | {sum(most.values())} |")


if __name__ == "__main__":
    main(sys.argv[1:])
