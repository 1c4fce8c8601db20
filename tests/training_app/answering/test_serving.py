"""What a process answers from: loaded once, swapped when the stamp moves, kept when the database is away."""

import threading
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents_app import pools
from agents_app.keys import create_key, revoke
from agents_app.models import Agent, ApiKey, Stamp
from routerweb.background import Background
from tests.training_app.served import application, promoted
from training_app.answering import serving
from training_app.engine.routing.router import ArtifactError
from training_app.models import Artifact
from training_app.versions import registry

pytestmark = pytest.mark.django_db


def away(*_args: object) -> int:
    raise OperationalError("connection refused")


def test_a_promoted_model_takes_over_at_the_next_look(app, model, in_memory):
    in_memory()
    promoted(model.pool, (0, "Billing"), (1, "Shipping"))
    assert app.route().json()["model"] == "support-1"
    serving.watch_once()
    assert app.route().json()["model"] == "support-2"
    registry.rollback(model.pool, actor=None)
    serving.watch_once()
    assert app.route().json()["model"] == "support-1"


def test_an_unmoved_stamp_loads_nothing(model, in_memory, django_assert_num_queries):
    in_memory()
    before = serving.served()
    with django_assert_num_queries(1):
        serving.watch_once()
    assert serving.served() is before


def test_a_moved_stamp_keeps_the_router_that_is_still_active(model, in_memory):
    in_memory()
    before = serving.current("support").model.router
    pools.add_agent(model.pool, "Legal")
    serving.watch_once()
    after = serving.current("support")
    assert after.model.router is before
    assert after.not_covered == (3,)


def test_a_moved_stamp_reads_no_scorecard(model, in_memory):
    in_memory()
    promoted(model.pool, (0, "Billing"))
    with CaptureQueriesContext(connection) as asked:
        serving.watch_once()
    assert serving.current("support").model.name == "support-2"
    assert [
        query["sql"] for query in asked if "training_app_scorecard" in query["sql"] and "content" in query["sql"]
    ] == []


def test_a_retired_agent_is_masked_at_the_next_look(app, model, in_memory):
    in_memory()
    pools.retire(Agent.objects.get(name="Billing"), actor=None)
    assert app.route("billing").json()["agents"] == [0]
    serving.watch_once()
    assert app.route("billing").json()["agents"] == []


def test_a_revoked_key_is_refused_once_the_stamp_was_read(app, model, in_memory):
    in_memory()
    revoke(app.key, None)
    assert app.route().status_code == 200
    serving.watch_once()
    assert app.route().status_code == 401


def test_a_new_key_opens_once_the_stamp_was_read(model, in_memory):
    in_memory()
    new = application(model.pool)
    assert new.route().status_code == 401
    serving.watch_once()
    assert new.route().status_code == 200


def test_a_key_expires_without_a_moved_stamp(model, in_memory, monkeypatch):
    soon = timezone.now() + timedelta(minutes=1)
    app = application(model.pool, expires_at=soon)
    in_memory()
    assert app.route().status_code == 200
    monkeypatch.setattr(serving.time, "time", lambda: soon.timestamp())
    assert app.route().status_code == 401


def test_an_expired_key_is_not_loaded(model):
    app = application(model.pool)
    ApiKey.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert app.route().status_code == 401


@pytest.mark.parametrize("content", [b"broken", b"{}"])
def test_a_corrupt_artifact_leaves_the_old_model_answering(app, model, in_memory, content, caplog):
    in_memory()
    Artifact.objects.filter(model=promoted(model.pool, (0, "Billing"))).update(content=content)
    serving.watch_once()
    assert app.route().json()["model"] == "support-1"
    assert serving.current("support").problem.endswith("support-1 keeps answering.")
    assert "support-2 was refused" in caplog.text


def test_an_artifact_that_the_engine_refuses_says_why(app, model, in_memory, monkeypatch):
    in_memory()
    promoted(model.pool, (0, "Billing"))

    def newer(_artifact: bytes) -> None:
        raise ArtifactError("format 9 is newer than this program reads (1)")

    monkeypatch.setattr("tests.training_app.served.ScriptedRouter.load", newer)
    serving.watch_once()
    assert "format 9 is newer" in serving.current("support").problem
    assert app.route().json()["model"] == "support-1"


def test_a_process_that_starts_with_a_refused_model_answers_from_the_one_before(app, model):
    Artifact.objects.filter(model=promoted(model.pool, (0, "Billing"))).update(content=b"broken")
    serving.forget()
    assert app.route().json()["model"] == "support-1"
    assert "support-2 was refused" in serving.health()["problems"]["support"]
    assert "support-1 keeps answering" in serving.health()["problems"]["support"]


def test_the_first_model_being_refused_answers_with_the_reason(app, model):
    Artifact.objects.update(content=b"broken")
    response = app.route()
    assert response.status_code == 503
    assert "support-1 was refused" in response.json()["error"]["message"]


def test_without_a_database_the_model_in_memory_answers_and_recovers(
    app, model, in_memory, client, monkeypatch, caplog
):
    in_memory()
    with monkeypatch.context() as patch:
        patch.setattr(Stamp, "current", away)
        serving.watch_once()
        serving.watch_once()
        assert app.route().json()["model"] == "support-1"
        health = client.get("/api/health/")
        assert (health.status_code, health.json()["status"]) == (200, "degraded")
    assert caplog.text.count("The database went away") == 1
    promoted(model.pool, (0, "Billing"))
    serving.watch_once()
    assert app.route().json()["model"] == "support-2"
    assert client.get("/api/health/").json()["status"] == "ok"


def test_without_a_database_from_the_start(app, model, client, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(Stamp, "current", away)
        serving.warm()
        response = app.route()
        assert response.status_code == 503
        assert response.json()["error"]["code"] == "database_away"
        assert response["Retry-After"]
        assert client.get("/api/health/").status_code == 503
    assert app.route().status_code == 200


def test_a_fault_while_loading_leaves_the_watcher_alive(app, model, in_memory, monkeypatch, caplog):
    in_memory()
    pools.add_agent(model.pool, "Legal")
    with monkeypatch.context() as patch:
        patch.setattr(serving, "_load", lambda *_: 1 / 0)
        serving.watch_once()
    assert "ZeroDivisionError" in caplog.text
    serving.watch_once()
    assert app.route().json()["not_covered"] == [3]


@pytest.mark.at_length
def test_a_request_never_sees_half_a_swap(model, in_memory, monkeypatch):
    """Threads read while models with different agents come and go: each sees a pool whose parts belong together."""
    in_memory()
    second = promoted(model.pool, (0, "Billing"))
    wrong, stop = [], threading.Event()

    def read() -> None:
        while not stop.is_set():
            loaded = serving.served().pools["support"]
            known = {agent.id for agent in loaded.model.router.agents}
            if known != {0, 1, 2} - set(loaded.not_covered):
                wrong.append((loaded.model.name, known))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    seen = set()
    for turn in range(12):
        serving.watch_once()
        seen.add(serving.current("support").model.name)
        registry.promote(model if turn % 2 == 0 else second, actor=None)
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert seen == {"support-1", "support-2"}


def test_the_first_request_starts_one_watcher(app, model, settings, monkeypatch):
    settings.BACKGROUND_THREADS, settings.STAMP_SECONDS = True, 0
    looked = threading.Semaphore(0)

    def look() -> float:
        looked.release()
        return 600

    monkeypatch.setattr(serving, "watch_once", look)
    start = Background.start  # the other threads would wait for this test's transaction
    monkeypatch.setattr(Background, "start", lambda one, rest=0.0: one is serving._watcher and start(one, rest))
    try:
        assert app.route().status_code == 200
        assert looked.acquire(timeout=30)
        assert app.route().status_code == 200
        assert [thread.name for thread in threading.enumerate()].count("stamp-watcher") == 1
        assert not looked.acquire(blocking=False)
    finally:
        serving._watcher.stop()


def test_a_new_key_is_seen_while_the_encoder_is_loaded(app, model, settings, monkeypatch):
    """Loading takes seconds; the watcher does not wait for it."""
    assert app.route().status_code == 200
    settings.BACKGROUND_THREADS = True
    loading, loaded, loads_in = threading.Event(), threading.Event(), []

    def load(_pools) -> None:
        loads_in.append(threading.current_thread())
        loading.set()
        loaded.wait(5)

    monkeypatch.setattr(serving.described, "make_ready", load)
    start = Background.start  # the other threads would wait for this test's transaction
    monkeypatch.setattr(Background, "start", lambda one, rest=0.0: one is serving._preparer and start(one, rest))
    try:
        serving.watch_once()
        assert loading.wait(10)
        key, secret = create_key("new", [model.pool], ["route"])
        serving.watch_once()
        assert serving.caller_of(secret, serving.served()).pk == key.pk
        assert threading.current_thread() not in loads_in
    finally:
        loaded.set()
        serving._preparer.stop()


@pytest.mark.parametrize("reads_meaning", [True, False])
def test_the_encoder_learns_the_commonest_words_of_a_model_that_asks_it(model, in_memory, monkeypatch, reads_meaning):
    in_memory()
    router, learned = serving.served().pools["support"].model.router, []
    reader = SimpleNamespace(commonest_words=["refund", "parcel"].__getitem__)
    monkeypatch.setattr(router, "reads_meaning", reads_meaning, raising=False)
    monkeypatch.setattr(router, "reader", reader, raising=False)
    monkeypatch.setattr(serving, "READY_WORDS", slice(1))
    monkeypatch.setattr(serving.sentences, "learn", learned.extend)
    serving._prepare()
    assert learned == (["refund"] if reads_meaning else [])


def test_after_a_fork_locks_are_new_and_models_stay(model, in_memory):
    in_memory()
    before = serving.served()
    with serving._loading:
        serving._in_child()
        assert serving.refresh() is before
