"""`kill -9` of each kind of process: the cluster goes on, nothing stays behind, nobody else ends."""

import os
import signal
import sys

import pytest

from tests.chaos.installation import MONITOR, PUSHER, SENTINEL, UP, WORKER, Installation

pytestmark = [
    pytest.mark.process,
    pytest.mark.both_databases,
    pytest.mark.skipif(sys.platform != "linux", reason="finds the processes in /proc, which only Linux has"),
]
#: A job begins within a minute of whatever was killed.
A_MINUTE = 60


def runs(installation: Installation, name: str) -> None:
    installation.act("send", name)
    installation.until(lambda: installation.act("ran", name), f"the job {name}", A_MINUTE)


@pytest.mark.at_length
def test_a_killed_idle_worker_blocks_nobody(installation: Installation) -> None:
    installation.up("jobs")
    runs(installation, "before")
    for turn in range(3):
        killed = installation.kill(WORKER)
        installation.until(lambda killed=killed: killed not in installation.processes(), "its end")
        runs(installation, f"after {turn}")


@pytest.mark.at_length
def test_what_killed_processes_had_taken_is_done_at_once_and_acknowledged(installation: Installation) -> None:
    installation.up("jobs")
    runs(installation, "before")
    family = installation.family("jobs")
    for what in (WORKER, MONITOR, PUSHER):
        os.kill(family[what], signal.SIGSTOP)
    for number in range(20):
        installation.act("send", f"waiting {number}")
    for what in (WORKER, MONITOR, PUSHER):
        os.kill(family[what], signal.SIGKILL)
    installation.until(lambda: installation.act("messages") == 0, "an empty queue", A_MINUTE)
    assert [installation.act("ran", f"waiting {number}") for number in range(20)] == [1] * 20


@pytest.mark.at_length
def test_a_killed_sentinel_takes_its_children_along_and_nobody_else(installation: Installation) -> None:
    installation.up()
    before = installation.family("jobs")
    training, web = installation.family("training"), installation.web()
    installation.kill(SENTINEL)
    installation.until(lambda: not set(before.values()) & set(installation.left()), "the end of its children", A_MINUTE)
    runs(installation, "after")
    assert installation.answers()
    assert (installation.family("training"), installation.web()) == (training, web)


@pytest.mark.at_length
def test_a_killed_parent_of_the_web_processes_is_replaced_with_them(installation: Installation) -> None:
    installation.up("web")
    parent = installation.until(installation.parent_of_web, "the parent of the web processes", A_MINUTE)
    before = [pid for pid in installation.processes() if pid != installation.root]
    os.kill(parent, signal.SIGKILL)
    installation.until(lambda: not set(before) & set(installation.left()), "the end of its children", A_MINUTE)
    installation.until(installation.answers, "an answer", A_MINUTE)


@pytest.mark.at_length
def test_nothing_survives_the_process_that_started_it(installation: Installation) -> None:
    installation.up()
    assert len(installation.processes()) > 8
    installation.kill(UP)
    installation.until(lambda: not installation.left(), "the end of every process", A_MINUTE)


@pytest.mark.at_length
@pytest.mark.parametrize("what", [WORKER, PUSHER, MONITOR] if os.environ.get("CHAOS") == "full" else [WORKER])
def test_a_cluster_whose_processes_exist_and_do_nothing_is_started_anew(installation: Installation, what: str) -> None:
    installation.up("jobs")
    runs(installation, "before")
    for name, process in installation.family("jobs").items():
        if name.startswith(what):
            os.kill(process, signal.SIGSTOP)
    installation.act("send", "after")
    installation.until(lambda: installation.act("ran", "after"), "the job", 2 * A_MINUTE)
    installation.until(lambda: installation.act("alarms") == ["cluster"], "an alarm", 2 * A_MINUTE)
    installation.until(lambda: installation.act("alarms") == [], "the end of the alarm", 6 * A_MINUTE)


@pytest.mark.at_length
def test_what_is_asked_to_end_ends_in_order(installation: Installation) -> None:
    installation.up()
    runs(installation, "before")
    installation.processes()
    os.kill(installation.root, signal.SIGTERM)
    installation.until(lambda: not installation.left(), "the end of every process", A_MINUTE)
    assert installation.act("signs") == []
    assert "Routerweb has stopped." in installation.log.read_text()
