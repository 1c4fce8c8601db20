"""A process that is to end with its parent does, whatever ended that, and where the system does not say so."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import until

pytestmark = [pytest.mark.process, pytest.mark.any_database]
ROOT = Path(__file__).parents[2]

CHILD = """
import sys, time
from routerweb import lifeline
lifeline.LOOK_SECONDS = 0.05
sys.platform = sys.argv[1]
lifeline.end_with_starter()
print("ready", flush=True)
time.sleep(60)
"""
#: Starts a child, says which, and waits to be killed.
PARENT = """
import subprocess, sys, time
from routerweb import lifeline
child = subprocess.Popen(
    [sys.executable, "-c", sys.argv[2], sys.argv[1]], stdout=subprocess.PIPE, env=lifeline.for_child() if sys.argv[3] else None
)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # Nobody may have asked yet how it ended.
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
    return not state.startswith("Z") and bool(state)


def orphan(platform: str, asked: bool = True) -> int:
    """A child whose parent was killed."""
    words = [sys.executable, "-c", PARENT, platform, CHILD, "1" if asked else ""]
    parent = subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    return child


@pytest.mark.parametrize(
    "platform",
    [pytest.param("linux", marks=pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")), "darwin"],
)
def test_a_child_ends_with_a_killed_parent(platform: str) -> None:
    child = orphan(platform)
    until(lambda: not lives(child), "the end of the child")


def test_one_that_was_started_otherwise_goes_on() -> None:
    child = orphan(sys.platform, asked=False)
    try:
        assert lives(child)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_child_whose_parent_is_gone_already_does_not_begin() -> None:
    environment = {**os.environ, "ROUTERWEB_PARENT": "999999999"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, sys.platform],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "")
