"""The kind backend chooser: learnt from judged calls, promoted, and heard by what assigns."""

import random
import uuid
from types import SimpleNamespace

import numpy as np
import pytest
from django.core.management import call_command

from agents_app.models import Pool
from orchestration_app.backends import served_calls, state
from orchestration_app.engine.backends import chooser, direct
from orchestration_app.engine.backends.chooser import BackendChooser, Called, ChooserConfig
from orchestration_app.models import BackendCall
from orchestration_app.models.kinds import BACKEND_CHOOSER
from tests.training_app.labeled import label
from tests.training_app.served import Application
from training_app.engine.data.artifact import ArtifactError
from training_app.engine.data.examples import Agent
from training_app.models import Decision, RouterModel
from training_app.versions import kinds, registry

pytestmark = pytest.mark.django_db


def calls(large: int, small: int, count: int = 400) -> list[Called]:
    """Large always does well; small where the text asks for a refund alone."""
    draw, found = random.Random(3), []
    for row in range(count):
        easy, backend = draw.random() < 0.5, draw.choice((large, small))
        text = f"billing: {'refund my order' if easy else 'audit the ledger'} number {row}"
        success = draw.random() < (0.95 if backend == large or easy else 0.05)
        found.append(Called(text, 0, backend, success, 0.01))
    return found


def learnt(large: int, small: int) -> bytes:
    config = ChooserConfig(sentences=False)
    results = [p.result for p in chooser.train(config, [Agent(0, "Billing")], [], calls=calls(large, small))]
    assert results[-1] is not None
    return results[-1].artifact


def test_it_learns_who_does_what_and_beats_the_means() -> None:
    found = BackendChooser.load(learnt(7, 8))
    easy, hard = found.estimate("billing: refund my order", 0), found.estimate("billing: audit the ledger", 0)
    assert easy[8] > 0.7 > 0.4 > hard[8]
    assert hard[7] > 0.8
    assert found.estimate("billing", 5) == {}
    ended = next(p for p in chooser.train(ChooserConfig(sentences=False), [], [], calls=calls(7, 8)) if p.result)
    assert ended.result is not None
    card = ended.result.scorecard
    assert card["baselines"]["constant"]["difference"]["fit"]["low"] > 0
    assert set(card["baselines"]) == set(chooser.BASELINES) == set(kinds.of(BACKEND_CHOOSER).baselines)
    assert card["neighbours"] in direct.NEIGHBOURS
    assert card["measured_on"] == "test"


def test_a_learners_version_reads_no_query_and_is_measured_as_any() -> None:
    config = ChooserConfig(sentences=False, learner="linucb")
    ended = next(p for p in chooser.train(config, [Agent(0, "Billing")], [], calls=calls(7, 8)) if p.result)
    assert ended.result is not None
    assert ended.result.scorecard["metrics"]["fit"]["low"] > 0.6
    found = BackendChooser.load(ended.result.artifact)
    assert found.estimate("billing: refund my order", 0) == found.estimate("billing: audit the ledger", 0)
    assert found.estimate("x", 0)[7] > 0.85 > 0.6 > found.estimate("x", 0)[8]
    assert found.estimate("x", 5) == {}


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
@pytest.mark.at_length
def test_a_worker_trains_it_the_gate_lets_it_pass_and_it_is_rolled_back(
    pool: Pool, model: RouterModel, rows: SimpleNamespace
) -> None:
    """`train --kind backend_chooser` end to end, from reported calls to a promotion and back."""
    rows.quick.delete()
    label(pool)
    for call in calls(rows.large.pk, rows.small.pk, 500):
        made = Decision.objects.create(
            pool=pool, model=model, text=call.text, agents=[0], scores={}, confidence=1, steps=1, stop_reason="stop", microseconds=1,
        )  # fmt: skip
        BackendCall.objects.create(
            decision_id=made.pk, pool=pool, agent=0, backend_id=call.backend, success=call.success, cost=0.01
        )
    made = []
    for learner in ("linucb", "direct"):
        call_command("train", pool="support", kind=BACKEND_CHOOSER, set=["sentences=false", f"learner={learner}"])
        made.append(RouterModel.objects.filter(kind=BACKEND_CHOOSER).latest("pk"))
    assert not any(one.state == "active" for one in made)
    call_command("promote", made[0].name)
    call_command("promote", made[1].name)
    assert RouterModel.objects.active(BACKEND_CHOOSER).get() == made[1]
    assert RouterModel.objects.active().get() == model, "the set router stays"
    registry.rollback(pool, BACKEND_CHOOSER, actor=None)
    assert RouterModel.objects.active(BACKEND_CHOOSER).get() == made[0]


def test_too_few_calls_say_what_to_do() -> None:
    with pytest.raises(chooser.TrainError, match="report what was served"):
        list(chooser.train(ChooserConfig(), [], [], calls=calls(7, 8, 30)))


def test_another_kinds_artifact_is_refused() -> None:
    from training_app.engine.data.artifact import Artifact

    with pytest.raises(ArtifactError, match="set router"):
        BackendChooser.load(Artifact({}, {}, {}).to_bytes())


def test_a_promoted_chooser_is_heard(pool: Pool, app: Application, rows: SimpleNamespace) -> None:
    rows.quick.delete()  # nothing was learnt of it
    made = registry.register(None, pool, learnt(rows.large.pk, rows.small.pk), {}, kind=BACKEND_CHOOSER)
    preference = {"quality": 0.7, "cost": 0.3}

    def taken(text: str) -> int:
        return app.post("/api/route/", {"query": text, "preference": preference}).json()["assignments"][0]["backend"][
            "id"
        ]

    registry.promote(made, actor=None)
    assert kinds.of_artifact(learnt(1, 2)).name == BACKEND_CHOOSER
    assert taken("billing: refund my order") == rows.small.pk
    assert taken("billing: audit the ledger") == rows.large.pk
    assert state.of(pool.pk).version == made.pk


def test_judged_calls_come_with_their_texts(pool: Pool, model: RouterModel, rows: SimpleNamespace) -> None:
    from django.utils import timezone

    kept = Decision.objects.create(
        pool=pool,
        model=model,
        text="billing",
        agents=[0],
        scores={},
        confidence=1,
        steps=1,
        stop_reason="stop",
        microseconds=1,
    )
    for decision, success in ((kept.pk, True), (uuid.uuid4(), True), (kept.pk, None)):
        BackendCall.objects.create(
            decision_id=decision, pool=pool, agent=0 if success else 1, backend=rows.large, success=success, cost=0.5
        )
    assert served_calls.judged(pool, timezone.now()) == [Called("billing", 0, rows.large.pk, True, 0.5, "acme/large")]
    BackendCall.objects.update(tool=False, complexity=0.3)
    (call,) = served_calls.judged(pool, timezone.now())
    assert (call.tool, call.complexity) == (False, 0.3)


def test_the_estimator_learns_what_applications_say_of_a_query() -> None:
    said = [
        Called("easy one", 0, 7, False, 0.1, complexity=0.2, tool=True), Called("easy one", 0, 8, True, 0.1, complexity=0.4),
        Called("odd one", 0, 7, True, 0.1),
    ]  # fmt: skip
    keys = ("0/7", "0/8")
    found = chooser.labels_of(said, keys, direct.fit(chooser._outcomes(said, keys), meaning=False, terms=()), (), {})
    assert found.complexity[0] == pytest.approx(0.3)
    assert 0 <= found.complexity[1] < 0.5, "of this one nobody said so: it went better than usual"
    assert found.tool[0] == 1
    assert np.isnan(found.tool[1])
