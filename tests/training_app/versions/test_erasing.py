"""An erased query's text is gone from scorecards and artifacts too."""

import pytest
from django.utils import timezone

from agents_app.models import Pool
from datasets_app.labels import erased_queries
from datasets_app.models import Query
from training_app.engine.data import artifact
from training_app.models import (
    Alarm,
    AlarmDelivery,
    AlarmReceiver,
    Artifact,
    Decision,
    DriftPoint,
    RouterModel,
    Scorecard,
)
from training_app.versions import registry
from training_app.watching import alarms


@pytest.mark.parametrize("place", ["error", "neighbour"])
def test_the_text_leaves_scorecard_and_artifact(labeled: Pool, place: str) -> None:
    query = Query.objects.order_by("pk")[0]
    text = query.text
    mine, other = (text, "something else") if place == "error" else ("something else", text)
    card = {"errors": [{"text": mine, "required": [], "selected": [], "nearest": [{"text": other, "required": []}]}]}
    content = artifact.Artifact({}, {}, {}, card).to_bytes()
    model = RouterModel.objects.create(pool=labeled, version=1, artifact_digest="0" * 64, artifact_bytes=len(content))
    Artifact.objects.create(model=model, content=content)
    Scorecard.of(model, card).save()

    erased_queries.erase(query)

    model.refresh_from_db()
    assert text not in str(model.card.content)
    assert "something else" in str(model.card.content)
    stored = artifact.read(registry.artifact_bytes(model))
    assert stored.metrics == model.card.content


@pytest.fixture
def erased(labeled: Pool) -> tuple[Query, RouterModel]:
    """A query, to be erased, and a model of its pool."""
    query = Query.objects.filter(dataset__pool=labeled).order_by("pk")[0]
    Query.objects.filter(pk=query.pk).update(text="my satellite dish of Ann 17")
    query.refresh_from_db()
    model = RouterModel.objects.create(pool=labeled, version=1, artifact_digest="0" * 64, artifact_bytes=0)
    return query, model


def test_the_text_leaves_decisions(erased: tuple[Query, RouterModel]) -> None:
    query, model = erased
    given = {
        "agents": [0],
        "scores": {"0": 0.9},
        "confidence": 0.9,
        "steps": 2,
        "stop_reason": "stop",
        "microseconds": 9,
    }
    for text in (query.text, "another satellite"):
        Decision.objects.create(pool=model.pool, model=model, text=text, **given)
    erased_queries.erase(query)
    assert sorted(Decision.objects.values_list("text", flat=True)) == ["", "another satellite"]
    assert Decision.objects.get(text="").agents == [0]


def test_its_words_leave_drift_its_alarm_and_its_messages(erased: tuple[Query, RouterModel]) -> None:
    query, model = erased
    point = DriftPoint.objects.create(
        model=model, since=timezone.now(), texts=100, words=[["satellite", 9], ["wobbles", 7], ["ann", 2]]
    )
    AlarmReceiver.objects.create(pool=model.pool, kind="email", address="ops@example.com")
    evidence = [["Decisions", "100"], ["Confidence", "0.900 → 0.300; differs by 0.500, limit 0.100"]]
    words = ["New words", "satellite (9), wobbles (7), ann (2)"]
    alarm, _new = alarms.hold(Alarm.Kind.DRIFT, "Recent queries differ", [*evidence, words], model.pool)
    erased_queries.erase(query)
    point.refresh_from_db()
    alarm.refresh_from_db()
    assert point.words == [["wobbles", 7]]
    assert alarm.evidence == [*evidence, ["New words", "wobbles (7)"]]
    told = AlarmDelivery.objects.get().body
    assert "wobbles" in told
    assert "satellite" not in told
    assert "Recent queries differ" in told
