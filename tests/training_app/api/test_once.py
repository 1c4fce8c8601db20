"""Idempotency-Key: a write that is sent again is done once, and answered the same."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from agents_app.models import Agent, Pool
from tests import orchestration
from tests.training_app.served import Application, application
from training_app.api import once
from training_app.api.schema import document
from training_app.api.urls import urlpatterns
from training_app.models import KeptAnswer, Run

pytestmark = pytest.mark.both_databases
LAUNCH = {"pool": "support", "config": {"total_steps": 500}}


@pytest.fixture
def app(labeled: Pool) -> Application:
    return application(labeled, scopes=("ops",))


def send(app: Application, path: str, body: dict, key: str):
    return app.post(path, body, headers={"Authorization": f"Bearer {app.secret}", "Idempotency-Key": key})


def test_a_run_is_launched_once(app: Application) -> None:
    first, again = (send(app, "/api/runs/", LAUNCH, "nightly 1") for _ in range(2))
    assert (first.status_code, again.status_code, again.headers["Idempotent-Replayed"]) == (201, 201, "true")
    assert "Idempotent-Replayed" not in first.headers
    assert first.content == again.content
    assert Run.objects.count() == 1
    assert send(app, "/api/runs/", LAUNCH, "nightly 2").json()["id"] != first.json()["id"]


def test_the_key_of_another_request_is_told(app: Application) -> None:
    assert send(app, "/api/runs/", LAUNCH, "one").status_code == 201
    for path, body in (("/api/runs/", LAUNCH | {"promote": True}), ("/api/agents/0/pause/", {"pool": "support"})):
        answer = send(app, path, body, "one")
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "key_used")
    assert Run.objects.count() == 1


def test_what_was_refused_may_be_sent_again(app: Application) -> None:
    assert send(app, "/api/agents/99/pause/", {"pool": "support"}, "pause").status_code == 404
    assert not KeptAnswer.objects.exists()
    assert send(app, "/api/agents/0/pause/", {"pool": "support"}, "pause").status_code == 200
    Agent.objects.filter(number=0).update(available=True)
    assert send(app, "/api/agents/0/pause/", {"pool": "support"}, "pause").json()["available"] is False
    assert Agent.objects.get(number=0).available is True  # answered, and not done again


def test_callers_have_keys_of_their_own(app: Application, labeled: Pool) -> None:
    other = application(labeled, scopes=("ops",))
    assert (
        send(app, "/api/runs/", LAUNCH, "same").json()["id"] != send(other, "/api/runs/", LAUNCH, "same").json()["id"]
    )


@pytest.mark.parametrize("key", ["k" * 201, "\x7f", "ключ".encode().decode("latin-1")])
def test_a_key_that_cannot_be(app: Application, key: str) -> None:
    answer = send(app, "/api/runs/", LAUNCH, key)
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "Idempotency-Key")
    assert not Run.objects.exists()


def test_answers_are_kept_for_a_day_and_a_thousand_of_a_key(app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
    first = send(app, "/api/runs/", LAUNCH, "old").json()["id"]
    KeptAnswer.objects.update(at=timezone.now() - timedelta(hours=25))
    assert send(app, "/api/agents/0/pause/", {"pool": "support"}, "x").status_code == 200
    assert list(KeptAnswer.objects.values_list("key", flat=True)) == ["x"]
    assert send(app, "/api/runs/", LAUNCH, "old").json()["id"] != first
    monkeypatch.setattr(once, "MOST", 3)
    for number in range(5):
        send(app, "/api/agents/0/pause/", {"pool": "support"}, f"pause {number}")
    assert KeptAnswer.objects.count() == 3


@pytest.mark.django_db(transaction=True)
def test_two_at_once_are_one(labeled: Pool) -> None:
    app = application(labeled, scopes=("ops",))

    def call(_number: int) -> bytes:
        try:
            return send(app, "/api/runs/", LAUNCH, "at once").content
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as threads:
        answers = set(threads.map(call, range(4)))
    assert len(answers) == 1
    assert "id" in json.loads(answers.pop())
    assert Run.objects.count() == 1


@pytest.mark.any_database
def test_who_keeps_answers_says_so() -> None:
    """Each operation that is done once has the header in its description, and the other way round."""
    shown = set()
    for methods in json.loads(document())["paths"].values():
        for described in methods.values():
            if any(one["name"] == once.HEADER for one in described.get("parameters", ())):
                shown.add(described["operationId"])
    done = set()
    for pattern in urlpatterns:
        view = getattr(pattern.callback, "cls", None)
        method = getattr(view, "post", None)
        if getattr(method, "keeps_answers", False):
            done.add(view.__name__)
    # Of orchestration's own addresses; and a file is read before the part that is done once.
    elsewhere = {"orchestrate", "importFile"}
    assert len(done) == len(shown - elsewhere) == 32, shown


#: Calls that store nothing of their own, that say the same when they are said again, whose answer is a secret that is not kept (an
#: address is added once), or, of labeling, that have a `key` or a lease.
WITHOUT = (
    "/api/route/", "/api/route/batch/", "/api/ddqn-router/route/", "/api/ddqn-router/route/batch/", "/api/ard/search/",
    "/api/v1/chat/completions/", "/api/v1/traces/", "/api/receivers/",
)  # fmt: skip
WITHOUT_IN_ORCHESTRATION = (
    "/api/orchestrate/next/", "/api/episodes/{episode_id}/cancel/", "/api/episodes/{episode_id}/outcome/",
    "/api/episodes/{episode_id}/approval/", "/api/episodes/{episode_id}/input/", "/api/v1/responses/",
)  # fmt: skip


@pytest.mark.any_database
def test_every_other_write_takes_a_key() -> None:
    paths = json.loads(document())["paths"]
    without = {
        path
        for path, methods in paths.items()
        for method, told in methods.items()
        if method != "get" and not any(one["name"] == once.HEADER for one in told.get("parameters", ()))
    }
    assert {path for path in without if not path.startswith("/api/label/")} == {
        *WITHOUT, *(WITHOUT_IN_ORCHESTRATION if orchestration.INSTALLED else ())
    }  # fmt: skip
