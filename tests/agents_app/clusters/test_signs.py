"""What a cluster says of itself, what it had taken, and who asks: by the database's clock, for each machine and queue."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import OperationalError
from django.utils import timezone
from django_q.models import OrmQ

from agents_app.clusters import broker, signs
from agents_app.clusters.broker import Broker
from agents_app.models import ClusterSign

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
LONG_AGO = timedelta(minutes=5)


@pytest.fixture(autouse=True)
def in_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (signs, broker):
        monkeypatch.setattr(module, "SLOT", "mine")


def message(key: str = "default") -> OrmQ:
    return OrmQ.objects.create(key=key, payload="x", lock=timezone.now() - timedelta(seconds=1))


def keys() -> list[str]:
    return list(OrmQ.objects.order_by("pk").values_list("key", flat=True))


def test_a_cluster_that_did_nothing_yet_does_not_work() -> None:
    signs.sign("default", busy=0)
    assert not signs.working(["default"]).exists()
    signs.executed()
    assert signs.working(["default"]).exists()
    assert not signs.working(["train"]).exists()


def test_a_long_job_is_work() -> None:
    signs.sign("train", busy=1)
    assert signs.working(["train"]).exists()


@pytest.mark.parametrize("silent", ["guarded_at", "executed_at"])
def test_processes_that_exist_are_no_work(silent: str) -> None:
    signs.sign("default", busy=0)
    signs.executed()
    ClusterSign.objects.update(**{silent: timezone.now() - LONG_AGO})
    assert not signs.working(["default"]).exists()


def test_a_message_is_taken_by_name_and_put_back_by_it() -> None:
    first, second = message(), message()
    mine = Broker("default")
    assert mine.dequeue() == [(first.pk, "x")]
    assert keys() == ["default@mine", "default"]
    assert (mine.queue_size(), mine.lock_size()) == (1, 1)
    assert broker.held("default", "mine") == [first.pk]
    assert broker.put_back("default", "another") == 0
    assert broker.put_back("default", "mine") == 1
    assert keys() == ["default", "default"]
    mine.acknowledge(second.pk)
    assert mine.queue_size() == 1


def test_a_message_for_one_cluster_comes_first_and_to_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    message()
    own = message("default>mine")
    message("default>another")
    assert Broker("default").dequeue() == [(own.pk, "x")]
    assert keys() == ["default", "default@mine", "default>another"]


def test_what_a_gone_cluster_had_taken_is_for_others() -> None:
    signs.sign("default", busy=0)
    message("default@mine"), message("train@gone"), message("train>gone")
    assert signs.put_back_of_the_gone() == 1
    assert keys() == ["default@mine", "train"]


def test_a_guard_that_went_without_a_word_was_killed() -> None:
    assert not signs.left_behind()
    signs.sign("default", busy=1)
    assert signs.left_behind()
    signs.restarted("its worker ended")
    assert not signs.left_behind()


def test_a_probe_asks_whether_this_machine_works(monkeypatch: pytest.MonkeyPatch) -> None:
    signs.sign("default", busy=0)
    with pytest.raises(CommandError, match="No task was done here in the last minute, and none is being done: jobs"):
        call_command("worker_alive", "jobs")
    signs.executed()
    call_command("worker_alive", "jobs")
    with pytest.raises(CommandError, match="training"):
        call_command("worker_alive")
    monkeypatch.setattr(signs, "machine", lambda: "another")
    with pytest.raises(CommandError, match="jobs"):
        call_command("worker_alive", "jobs")
    with pytest.raises(CommandError, match="Unknown part web"):
        call_command("worker_alive", "web")


def test_a_probe_passes_while_the_database_is_away(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    def away(*_words: Any, **_options: Any) -> None:
        raise OperationalError("no route")

    monkeypatch.setattr(signs, "working", away)
    call_command("worker_alive", "jobs")
    assert "cannot be reached" in capsys.readouterr().out


def test_a_message_of_a_machine_whose_clock_is_ahead_is_taken_at_once(db: None) -> None:
    sent = OrmQ.objects.create(key="default", payload="x", lock=timezone.now() + timedelta(minutes=1))
    assert Broker("default").dequeue() == [(sent.pk, "x")]
