"""The instruments that several machines are measured with: they would see what they are there to see."""

import os
import socket
import subprocess
import sys

import pytest

from benchmarks.machines.site import Answered, owner_of_port, tree
from benchmarks.machines.traffic import staleness

pytestmark = pytest.mark.any_database
#: A was active from the beginning until between 10.0 and 10.2, B until between 20.0 and 20.1, then A again.
SPANS = [("A", 0.0, 0.0), ("B", 10.0, 10.2), ("A", 20.0, 20.1)]


def answered(model: str, began: float, ended: float) -> Answered:
    return Answered(began, ended, 200, model, "", "web-1")


@pytest.mark.parametrize(
    ("model", "began", "ended", "seconds"),
    [
        ("A", 5.0, 5.1, 0.0),
        ("A", 10.1, 10.3, 0.0),  # it may still have been active
        ("A", 13.2, 13.3, 3.0),
        ("A", 25.0, 25.1, 0.0),
        ("B", 21.6, 21.7, 1.5),
        ("B", 9.0, 9.5, float("inf")),  # before it ever was active
        ("C", 5.0, 5.1, float("inf")),
    ],
)
def test_an_answer_is_as_stale_as_its_model_was_replaced_long_ago(
    model: str, began: float, ended: float, seconds: float
) -> None:
    assert staleness(answered(model, began, ended), SPANS) == pytest.approx(seconds)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, which only Linux has")
def test_the_process_that_holds_a_connection_is_found_among_its_parents_children() -> None:
    code = (
        "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1]))); "
        "print(s.getsockname()[1], flush=True); input()"
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        command = [sys.executable, "-c", code, port]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            local = int(child.stdout.readline())
            assert child.pid in tree(os.getpid())
            assert owner_of_port(local, tree(os.getpid())) == child.pid
            assert owner_of_port(local, []) is None
            child.communicate("\n")
