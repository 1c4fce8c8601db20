"""A pool's learner: off until it is wanted, within its rails, and stopped where it does worse."""

import uuid
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from agents_app.models import AuditEntry, Pool
from orchestration_app import providers
from orchestration_app.backends import calls, choosing, learning, measured, state
from orchestration_app.engine.backends.choosing import PRESETS
from orchestration_app.models import BackendCall, BackendSettings
from tests.training_app.served import Application
from training_app.answering import decisions, loaded, serving
from training_app.models import Decision

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def reported(pool: Pool, backend: Any, good: int, bad: int, by: str = "direct", **more: Any) -> None:
    BackendCall.objects.bulk_create(
        BackendCall(
            decision_id=uuid.uuid4(), pool=pool, agent=backend.agent.number, backend=backend, success=n < good,
            assigned=backend.pk, propensity=0.5, decided_by=by, as_direct=by == "direct", cost=0.001, latency=100.0, **more,
        )
        for n in range(good + bad)
    )  # fmt: skip


def learns(pool: Pool, name: str = "thompson", **more: Any) -> None:
    providers.save_settings(
        pool, {"learner": name, "learning_share": 0.5, "learning_within": 1.0, "quality": 1, "cost": 0, "latency": 0} | more,
        actor=None,
    )  # fmt: skip


def drawn(pool: Pool, count: int = 300, preference: Any = None) -> list[choosing.Assignment]:
    serving.served()
    found = state.of(pool.pk)
    assert found is not None
    state.settle_now(found)
    known = found.by_agent[0]
    given = []
    for _ in range(count):
        one = choosing._assigned(
            found, 0, known, choosing.Request(preference or found.preference, found.pressed, 0.0), None
        )
        given.append(one)
    return given


def test_nobody_learns_until_somebody_says_so(pool: Pool, rows: SimpleNamespace) -> None:
    assert BackendSettings().learner == ""
    assert {one.by for one in drawn(pool, 50)} == {"direct"}
    learns(pool, learning_share=0)
    assert state.of(pool.pk).learning is None


@pytest.mark.parametrize("name", ["ucb1", "thompson", "linucb", "table"])
def test_a_choice_is_as_likely_as_it_says(
    pool: Pool, rows: SimpleNamespace, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loaded, "chance", __import__("random").Random(5))
    learns(pool, name, exploration=0.1)
    reported(pool, rows.small, 60, 0)
    reported(pool, rows.large, 55, 5)
    given = drawn(pool, 3000)
    assert {one.by for one in given} == {"direct", "learner", "lot"}
    for backend in (rows.large, rows.small, rows.quick):
        mine = [one for one in given if one.backend.pk == backend.pk]
        assert mine
        assert len(mine) / len(given) == pytest.approx(mine[0].propensity, abs=0.035)
    assert sum(one.by == "learner" for one in given) / len(given) == pytest.approx(0.45, abs=0.04)


def test_the_learner_takes_nobody_too_far_below(pool: Pool, rows: SimpleNamespace) -> None:
    learns(pool, "ucb1", learning_within=0.05)
    given = drawn(pool, 200)
    assert {one.backend.pk for one in given} == {rows.large.pk}, "0.8 is further below 0.95 than 0.05"
    learns(pool, "thompson", learning_within=0.2)
    assert {one.backend.pk for one in drawn(pool, 200)} == {rows.large.pk, rows.small.pk}


def test_it_decides_nothing_where_quality_does_not_count_or_money_ends(pool: Pool, rows: SimpleNamespace) -> None:
    learns(pool, budget=1.0)
    assert {one.by for one in drawn(pool, 100, PRESETS["cheapest"])} == {"direct"}
    reported(pool, rows.small, 1, 0)
    BackendCall.objects.update(cost=0.9)
    assert {one.by for one in drawn(pool, 100)} == {"direct"}


def test_a_learner_that_does_worse_is_stopped_and_says_so(pool: Pool, rows: SimpleNamespace) -> None:
    learns(pool)
    reported(pool, rows.large, 95, 5)
    reported(pool, rows.small, 40, 60, by="learner")
    assert {one.by for one in drawn(pool, 100)} == {"direct"}
    kept = BackendSettings.objects.get()
    assert kept.learning_stopped is not None
    assert "100 calls were worth 0.550 less" in kept.learning_said
    assert AuditEntry.objects.filter(action="backends.learner_stopped").count() == 1
    providers.resume_learning(pool, actor=None)
    assert "learner" in {one.by for one in drawn(pool, 100)}, "judged by the calls from now on"


def test_chance_does_not_stop_it(pool: Pool, rows: SimpleNamespace) -> None:
    learns(pool)
    reported(pool, rows.large, 90, 10)
    reported(pool, rows.small, 86, 14, by="learner")
    drawn(pool, 1)
    assert BackendSettings.objects.get().learning_stopped is None
    found = learning.compared(measured.log(pool.pk), PRESETS["best"], {0: (1.0, 1.0)}, None)
    assert found.difference == pytest.approx(-0.04)
    assert found.low < found.difference < 0 < found.high
    assert not found.worse


def test_nothing_to_compare_is_no_fault() -> None:
    found = learning.compared([], PRESETS["best"], {}, None)
    assert not found.worse
    assert np.isnan(found.difference)


def test_who_chose_is_kept_with_the_call(pool: Pool, app: Application, rows: SimpleNamespace) -> None:
    learns(pool, "ucb1")
    found = app.post("/api/route/", {"query": "billing"}).json()
    decisions.buffer.write()
    kept = Decision.objects.get().detail["assignments"][0]
    assert kept["by"] in {"direct", "learner"}
    served = {"agent": 0, "backend": kept["backend"]["id"]}
    app.post("/api/outcomes/", {"decision_id": found["decision_id"], "success": True, "served": [served]})
    call = BackendCall.objects.get()
    assert (call.decided_by, call.as_direct, call.propensity) == (kept["by"], kept["direct"], kept["propensity"])


def test_an_executors_call_keeps_how_it_was_chosen(pool: Pool, rows: SimpleNamespace) -> None:
    line = calls.line(pool, 0)
    assert line is not None
    calls.report(pool, uuid.uuid4(), line.served(0, success=True))
    call = BackendCall.objects.get()
    assert (call.assigned, call.propensity, call.decided_by, call.as_direct) == (line.backend, 1.0, "direct", True)


def test_settings_that_stay_keep_what_was_learnt_and_others_begin_anew(pool: Pool, rows: SimpleNamespace) -> None:
    learns(pool)
    since = BackendSettings.objects.get().learning_since
    providers.save_settings(pool, {"budget": 3.0}, actor=None)
    assert BackendSettings.objects.get().learning_since == since
    learns(pool, "ucb1")
    assert BackendSettings.objects.get().learning_since > since
    with pytest.raises(providers.BackendError):
        learns(pool, learning_share=0.9)
