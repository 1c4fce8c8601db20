"""What keeps web workers alive, tried on commands that do nothing else than live or end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from routerweb import supervisor

pytestmark = [
    pytest.mark.process,
    pytest.mark.any_database,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the workers in /proc, which only Linux has"),
]


def supervised(count: int, *command: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(supervisor.__file__), str(count), *command], stderr=subprocess.PIPE, text=True
    )


def workers(process: "subprocess.Popen[str]", count: int) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    for _ in range(200):
        found = [int(child) for child in children.read_text().split()]
        if len(found) == count:
            return found
        time.sleep(0.05)
    raise AssertionError(f"not {count} workers: {found}")


def test_workers_that_fail_at_their_start_end_it():
    process = supervised(2, "/bin/false")
    assert process.wait(20) == 1
    assert process.stderr is not None
    assert "ended as it started, with status 1" in process.stderr.read()


def test_a_killed_worker_is_replaced_until_it_is_asked_to_end():
    process = supervised(2, "/bin/sleep", "60")
    first = workers(process, 2)
    os.kill(first[0], signal.SIGKILL)
    for _ in range(200):
        now = workers(process, 2)
        if set(now) != set(first):
            break
        time.sleep(0.05)
    assert set(now) & set(first) == {first[1]}
    process.terminate()
    assert process.wait(20) == 0
    assert not [pid for pid in now if Path(f"/proc/{pid}").exists()]


def test_a_worker_that_does_not_end_is_killed():
    impatient = f"""
import sys
sys.path.insert(0, {str(Path(supervisor.__file__).parent)!r})
import supervisor
supervisor.END_SECONDS = 0.2
"""
    stubborn = [
        sys.executable,
        "-c",
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)",
    ]
    process = subprocess.Popen([sys.executable, "-c", impatient + f"sys.exit(supervisor.main(1, {stubborn!r}))"])
    pid = workers(process, 1)[0]
    for _ in range(200):
        ignored = next(
            line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("SigIgn")
        )
        if int(ignored.split()[1], 16) >> (signal.SIGTERM - 1) & 1:
            break
        time.sleep(0.05)
    process.terminate()
    assert process.wait(20) == 0
    assert not Path(f"/proc/{pid}").exists()
