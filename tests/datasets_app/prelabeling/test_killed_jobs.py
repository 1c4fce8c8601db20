"""Jobs that are killed and go on: what was asked is not paid for again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from django.db import connections

from agents_app.background_work import reaper
from datasets_app.models import Dataset, Label, LlmAnswer, PrelabelItem, PrelabelJob
from datasets_app.prelabeling import jobs as prelabel
from datasets_app.prelabeling import run as prelabel_run
from tests.datasets_app.prelabeling.conftest import done, found
from tests.llm_server import Server
from tests.silence import silence
from training_app.engine import llm

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def killed(pool, add_query, make, server, tmp_path):
    """Runs a job in a process of its own, kills that with SIGKILL in the middle, and goes on here; returns the job, done."""

    def run(*, queries: int, done_first: int, **options) -> PrelabelJob:
        for n in range(queries):
            add_query(f"number {n}: Billing")
        server.delay = 0.1
        job = make(**options)
        name = str(connections["default"].settings_dict["NAME"])
        code = (
            "import django; django.setup()\n"
            "from django.db import connections\n"
            f"connections['default'].settings_dict['NAME'] = {name!r}\n"
            "from datasets_app.prelabeling import run as prelabel_run\n"
            f"prelabel_run.run({job.pk}, api_key='secret')\n"
        )
        # Killed, it cannot clear up what it has in its temporary folder.
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "tests.settings", "TMPDIR": str(tmp_path)}
        worker = subprocess.Popen([sys.executable, "-c", code], env=environment, cwd=ROOT)
        try:
            deadline = time.monotonic() + 60
            while sum(server.charged.values()) < done_first:
                assert worker.poll() is None, "the worker ended too early"
                assert time.monotonic() < deadline
                time.sleep(0.002)
        finally:
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        assert sum(server.charged.values()) < queries, "killed in the middle"
        silence(PrelabelJob.objects.all())
        assert reaper.end_dead() == 1
        return done(job)

    return run


def charged_twice(server: Server) -> int:
    return sum(times - 1 for times in server.charged.values())


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("batch_size", [pytest.param(1, marks=pytest.mark.at_length), 3])
def test_a_server_that_honours_the_key_of_a_call_charges_nothing_twice(killed, server, batch_size):
    server.honours_keys = True
    job = killed(queries=90, done_first=40, concurrency=4, batch_size=batch_size)
    assert (job.status, len(found()), len(server.charged)) == ("done", 90, 90)
    assert charged_twice(server) == 0
    assert len(server.names) > len(set(server.names)), "the calls on their way were made again"


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
@pytest.mark.at_length
def test_a_server_that_ignores_it_charges_at_most_the_calls_on_their_way_twice(killed, server):
    job = killed(queries=90, done_first=40, concurrency=4)
    assert (job.status, len(found()), len(server.charged)) == ("done", 90, 90)
    assert charged_twice(server) <= 4
    assert prelabel.counts(job)["answered"] == 90, "answers that were stored without their labels are this job's"


def interrupted(job: PrelabelJob, monkeypatch, after: int) -> None:
    """Run a job until so many answers are stored; then its worker is gone, without a word and before any label is written."""

    class Gone(BaseException):
        pass

    store = prelabel_run._Turn._store

    def stored(turn) -> None:
        time.sleep(0.1)  # so that a thread that did not wait would be answered again and again
        store(turn)
        if LlmAnswer.objects.count() >= after:
            turn._dismiss()
            raise Gone

    with monkeypatch.context() as patched:
        patched.setattr(prelabel_run._Turn, "_store", stored)
        patched.setattr(prelabel_run._Turn, "_label_stored", lambda turn: None)
        with pytest.raises(Gone):
            prelabel_run.run(job.pk, api_key="secret")
    PrelabelJob.objects.update(status="failed")
    assert prelabel.resume(job, now=False)


@pytest.mark.at_length
def test_an_answer_is_stored_before_its_label_and_before_the_next_call(pool, add_query, make, server, monkeypatch):
    for n in range(20):
        add_query(f"number {n}: Billing")
    server.delay = 0.01
    job = make(concurrency=2)
    interrupted(job, monkeypatch, 5)
    stored = LlmAnswer.objects.count()
    assert not found()
    assert sum(server.charged.values()) <= stored + 2
    job = done(job)
    assert len(found()) == 20
    assert charged_twice(server) <= 2
    assert Label.objects.filter(provenance__cached=True).count() == 0


def test_calls_that_were_begun_are_made_again_as_they_were(pool, add_query, make, server, monkeypatch):
    server.honours_keys = True
    for n in range(12):
        add_query(f"number {n}: Billing")
    add_query("number 4: Billing", in_dataset=Dataset.objects.create(pool=pool, name="Other"))
    job = make(concurrency=1, batch_size=3)
    interrupted(job, monkeypatch, 3)
    begun: dict[object, set[str]] = {}
    for call, text in PrelabelItem.objects.exclude(call=None).values_list("call", "query__text"):
        begun.setdefault(call, set()).add(text)
    assert sorted(map(len, begun.values())) == [3, 3, 3, 3], "none is over before its labels are written"
    first = len(server.bodies)
    done(job)
    asked = [{one["text"] for one in json.loads(body["messages"][1]["content"])} for body in server.bodies[first:]]
    assert len(asked) >= 2
    assert all(together in begun.values() for together in asked)
    assert charged_twice(server) == 0
    assert set(PrelabelItem.objects.values_list("status", "call")) <= {("answered", None), ("cached", None)}


def test_what_could_not_be_read_is_asked_again_under_another_key(texts, make, server):
    server.honours_keys = True
    server.fault = lambda text, nth: "not json" if nth <= 2 and "number 0" in text else ""
    job = done(make(concurrency=1))
    assert prelabel.counts(job)["failed"] == 1
    assert prelabel.resume(job, now=False)
    assert prelabel.counts(done(job))["answered"] == 4


def test_a_server_that_answered_too_late_is_asked_again_under_the_same_key(texts, make, server, monkeypatch):
    server.honours_keys = True
    monkeypatch.setattr("training_app.engine.llm.Client._wait", lambda self, attempt, asked: None)
    real = llm.Client

    def hasty(*args, **options):
        return real(*args, **options | {"limits": llm.CallLimits(timeout=0.05, tries=1)})

    server.delay = 0.3
    job = make(concurrency=1)
    with monkeypatch.context() as patched:
        patched.setattr(llm, "Client", hasty)
        done(job)
    assert PrelabelItem.objects.filter(status="failed", call__isnull=False).exists()
    time.sleep(0.5)
    server.delay = 0.0
    assert prelabel.resume(job, now=False)
    assert done(job).status == "done"
    assert (len(found()), charged_twice(server)) == (4, 0)
