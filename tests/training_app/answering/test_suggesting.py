"""What the active model says of waiting queries reaches the labelers, once a version, and never a query that has its gold."""

import pytest

from agents_app.models import Pool
from datasets_app.labels import labels
from datasets_app.models import Query, QueueItem, Suggestion
from datasets_app.queries import adding
from tests.training_app.served import promoted
from training_app.answering import suggesting

pytestmark = pytest.mark.django_db


def add(pool: Pool, *texts: str) -> list[Query]:
    dataset = adding.dataset_of(pool)
    found, _new = adding.find_or_add(dataset, [adding.NewQuery(text=text) for text in texts], "test")
    return [Query.objects.get(pk=place.pk) for place in found]


def test_waiting_queries_get_the_models_scores_and_their_place_in_the_queue(pool: Pool, model) -> None:
    (known,) = add(pool, "billing is closed today")
    labels.record(labels.NewLabel(known.pk, source="import", required=[0], asked=[0, 1, 2]))
    (billing, strange) = add(pool, "billing is closed now", "zzyzx qwfp")

    assert suggesting.suggest_all() == 2

    one = Suggestion.objects.get(query=billing)
    assert (one.version, one.required) == (model.name, [0])
    assert one.scores["0"] == pytest.approx(0.9877, abs=1e-4)
    novelty = dict(QueueItem.objects.filter(query__in=[billing, strange]).values_list("query", "novelty"))
    assert novelty[billing.pk] < 0.5 < novelty[strange.pk]
    assert not Suggestion.objects.filter(query=known).exists()


def test_a_query_is_spoken_of_once_a_version(pool: Pool, model) -> None:
    add(pool, "shipping please")
    assert suggesting.suggest_all() == 1
    assert suggesting.suggest_all() == 0
    later = promoted(pool, (1, "Shipping"))
    assert suggesting.suggest_all() == 1
    assert Suggestion.objects.get().version == later.name


def test_without_an_active_model_nothing_is_said(pool: Pool) -> None:
    add(pool, "shipping please")
    pool.models.update(state="retired")
    assert suggesting.suggest_all() == 0


def test_a_minute_without_news_costs_no_routing(pool: Pool, model, monkeypatch: pytest.MonkeyPatch) -> None:
    add(pool, "shipping please")
    suggesting.suggest_all()
    monkeypatch.setattr(suggesting.serving, "router_of", lambda _model: pytest.fail("routed again"))
    assert suggesting.suggest_all() == 0
