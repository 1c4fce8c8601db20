"""What `manage.py up` does about a part that ends by itself."""

import os
import signal
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.waiting import until
from training_app.management.commands import up
from training_app.management.commands.up import Child

pytestmark = [pytest.mark.process, pytest.mark.any_database]
LIVING = "import time; time.sleep(60)"


@pytest.fixture
def child() -> Iterator[Callable[..., Child]]:
    made: list[Child] = []

    def start(code: str, name: str = "web server") -> Child:
        one = Child(name, [sys.executable, "-c", code], {})
        one.start()
        made.append(one)
        return one

    yield start
    for one in made:
        if one.process is not None and one.running:
            one.process.kill()
            one.process.wait()


def said(one: Child) -> str:
    return until(one.look, "its end")


def test_one_that_fails_at_its_first_start_is_not_started_again(child: Callable[..., Child]) -> None:
    one = child("raise SystemExit(1)")
    assert said(one) == "The web server ended by itself, with status 1"
    assert one.hopeless


@pytest.mark.parametrize("status", ["os.kill(os.getpid(), 9)", "sys.exit(3)"])
def test_one_that_was_killed_or_asks_for_it_is_started_again(child: Callable[..., Child], status: str) -> None:
    one = child(f"import os, sys; {status}")
    assert said(one)
    assert not one.hopeless
    until(lambda: one.look() == "" and one.process is not None, "its next start")


def test_one_that_keeps_ending_is_started_less_and_less_often(
    child: Callable[..., Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = child("import os; os.kill(os.getpid(), 9)")
    pauses = []
    for _turn in range(7):
        said(one)
        pauses.append(one._pause)
        one._at = 0.0
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    monkeypatch.setattr(up, "YOUNG_SECONDS", 0.0)
    said(one)
    assert one._pause == 0.0, "it lived for long"


def test_a_cluster_and_its_successor_share_a_slot(child: Callable[..., Child]) -> None:
    tells = "import os, signal, sys; sys.exit(10 + len(os.environ['ROUTERWEB_CLUSTER']))"
    one = child(tells, "job cluster")
    assert said(one).endswith("with status 22")
    assert one._more["ROUTERWEB_CLUSTER"] != Child("job cluster", [], {})._more["ROUTERWEB_CLUSTER"]
    assert "ROUTERWEB_CLUSTER" not in child(LIVING)._more


def test_a_signal_ends_it_like_any_other(child: Callable[..., Child]) -> None:
    one = child(LIVING)
    assert one.process is not None
    os.kill(one.process.pid, signal.SIGTERM)
    assert said(one).endswith("with status -15")
