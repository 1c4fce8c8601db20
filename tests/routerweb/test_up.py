"""What `manage.py up` does about a part that ends by itself."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents_app import clusters
from routerweb import keeper
from routerweb.keeper import Child
from tests.waiting import until

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
    monkeypatch.setattr(keeper, "YOUNG_SECONDS", 0.0)
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


def test_it_knows_by_what_status_a_cluster_asks_for_another_start() -> None:
    assert keeper.AGAIN == clusters.AGAIN


def test_it_imports_nothing_of_the_product(tmp_path: Path) -> None:
    """`python -I -S` does not even see the product's packages."""
    plan = json.dumps({"children": [["part", [sys.executable, "-c", LIVING], {}]], "demo": None, "welcome": None})
    command = [sys.executable, "-I", "-S", str(keeper.__file__), plan]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as keeping:
        children = Path(f"/proc/{keeping.pid}/task/{keeping.pid}/children")
        started = until(lambda: children.read_text().split() if children.exists() else [], "its child")
        keeping.send_signal(signal.SIGTERM)
        assert keeping.communicate(timeout=30) == ("Routerweb has stopped.\n", "")
    assert keeping.returncode == 0
    assert not Path(f"/proc/{started[0]}").exists()


def test_what_the_demo_says_follows_the_card(tmp_path: Path) -> None:
    log = tmp_path / "demo.log"
    log.write_text("no disk")
    said = {}
    for status in (0, 1):
        code = f"""
import os, sys, time, json, subprocess
demo = subprocess.Popen([sys.executable, "-c", "raise SystemExit({status})"])
welcome = subprocess.Popen([sys.executable, "-c", "print('card', flush=True); raise SystemExit({keeper.SAYS_TRAINING})"])
plan = {{"children": [["part", [sys.executable, "-c", {LIVING!r}], {{}}]], "demo": [demo.pid, {str(log)!r}], "welcome": welcome.pid}}
os.execv(sys.executable, [sys.executable, "-I", "-S", {str(keeper.__file__)!r}, json.dumps(plan)])
"""
        words = [sys.executable, "-c", code]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as keeping:
            assert keeping.stdout is not None
            lines = [keeping.stdout.readline(), keeping.stdout.readline()]
            keeping.send_signal(signal.SIGTERM)
            said[status] = "".join(lines) + keeping.stdout.read()
    assert said[0].startswith("card\n  The first router answers now.")
    assert said[1].startswith("card\nThe demo could not be set up:\nno disk\n")
