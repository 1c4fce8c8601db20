"""Accepting suggestions by command and by call: who may, what it changes, and that it is undone as one."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.core.management.base import CommandError

from agents_app.models import ApiKey, Pool
from datasets_app.labeling import bulk
from datasets_app.models import BulkChange, Gold, Query
from tests.training_app.llm_only.conftest import said
from tests.training_app.served import application
from training_app.answering import serving

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_process")]
Add = Callable[..., list[Query]]


def test_a_command_makes_them_the_labels_of_whom_it_names(
    pool: Pool, suggested: Add, person: Callable[..., User], capsys: pytest.CaptureFixture[str]
) -> None:
    suggested(12)
    rita = person("reviewer")
    words = ("accept_suggestions", "--pool", "support", "--by", rita.username)
    assert said(capsys, *words, "--dry-run") == "12 queries have suggestions to accept\n"
    assert not Gold.objects.exists()
    assert "3 suggestions accepted by reviewer-person" in said(capsys, *words, "--search", '"number 1"')
    assert "9 suggestions accepted" in said(capsys, *words)
    assert said(capsys, *words) == "0 queries have suggestions to accept\n"
    assert Gold.objects.count() == 12
    assert bulk.undo(BulkChange.objects.get(total=9), rita) == 9
    assert Gold.objects.count() == 3


def test_a_command_refuses_whom_it_does_not_know(
    pool: Pool, suggested: Add, person: Callable[..., User], capsys: pytest.CaptureFixture[str]
) -> None:
    suggested(2)
    person("labeler")
    for by, why in (("nobody", "nobody signs in"), ("labeler-person", "neither a reviewer nor ops")):
        with pytest.raises(CommandError, match=why):
            said(capsys, "accept_suggestions", "--pool", "support", "--by", by)
    person("ops")
    with pytest.raises(CommandError, match="--search"):
        said(capsys, "accept_suggestions", "--pool", "support", "--by", "ops-person", "--search", "agent:nobody")
    assert not Gold.objects.exists()


def call(person: User, pool: Pool, body: dict[str, object]) -> tuple[int, dict[str, object]]:
    """What the address answers to a key that labels as somebody."""
    serving.forget()
    answer = application(pool, scopes=(ApiKey.Scope.LABEL,), labels_as=person).post("/api/suggestions/accept/", body)
    return answer.status_code, answer.json()


def test_a_call_counts_and_accepts(pool: Pool, suggested: Add, person: Callable[..., User]) -> None:
    suggested(5)
    rita = person("reviewer")
    counted = {"pool": "support", "queries": 5, "change": None, "done": True}
    assert call(rita, pool, {"count_only": True}) == (200, counted)
    assert not Gold.objects.exists()
    status, answer = call(rita, pool, {"search": "source:llm"})
    change = BulkChange.objects.get()
    assert (status, answer) == (200, counted | {"change": change.pk})
    assert change.author == rita
    assert Gold.objects.count() == 5


def test_many_are_left_to_a_worker(
    pool: Pool, suggested: Add, person: Callable[..., User], monkeypatch: pytest.MonkeyPatch
) -> None:
    suggested(5)
    monkeypatch.setattr(bulk, "AT_ONCE", 4)
    _status, answer = call(person("reviewer"), pool, {})
    assert (answer["queries"], answer["done"]) == (5, False)
    assert not Gold.objects.exists()
    bulk.go_on(BulkChange.objects.get())
    assert Gold.objects.count() == 5


def test_a_call_of_a_labeler_is_refused(pool: Pool, suggested: Add, person: Callable[..., User]) -> None:
    suggested(2)
    status, answer = call(person("labeler"), pool, {})
    assert status == 403
    assert answer["error"]["code"] == "person_refused"  # type: ignore[index]
    assert not Gold.objects.exists()


def test_a_search_that_is_none_is_told(pool: Pool, suggested: Add, person: Callable[..., User]) -> None:
    status, answer = call(person("reviewer"), pool, {"search": "agent:nobody"})
    assert status == 400
    assert answer["error"]["field"] == "search"  # type: ignore[index]
