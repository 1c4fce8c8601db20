"""A model on the queries that were drawn at random for evaluation."""

import json

import pytest

from datasets_app.labels import labels
from datasets_app.models import Dataset, Query, Snapshot, SplitGroup
from datasets_app.models.queries import group_hash, text_hash
from tests.training_app.words import PERFECT, WEAK
from training_app.versions import fair_sample

pytestmark = pytest.mark.django_db


@pytest.fixture
def say(snapshot: Snapshot, person):
    """Adds a labeled query; `drawn` as the queue marks what comes in its random order."""

    def add(text: str, required: list[int], *, drawn: bool = True, split: str = "") -> None:
        pool = snapshot.pool
        group = SplitGroup.objects.create(pool=pool, key=group_hash(text), split=split)
        query = Query.objects.create(
            dataset=Dataset.objects.filter(pool=pool).first(), text=text, text_hash=text_hash(text), group=group
        )
        provenance = {"via": "queue", "evaluation": True} if drawn else {"via": "queue"}
        asked = list(pool.agents.values_list("number", flat=True))
        labels.record(
            labels.NewLabel(
                query.pk, source="human", author=person, required=required, asked=asked, provenance=provenance
            )
        )

    return add


@pytest.fixture
def person(django_user_model):
    return django_user_model.objects.create_user("ana", password="long enough for anybody")


def measured(words: dict[str, int], snapshot: Snapshot):
    return fair_sample.measure(json.dumps(words).encode(), snapshot)


def test_only_what_was_drawn_and_not_trained_on_counts(word_model, snapshot: Snapshot, say) -> None:
    word = {agent: word for word, agent in PERFECT.items()}
    say(f"{word[0]} one", [0])
    say(f"{word[2]} two", [2])
    say(f"{word[2]} chosen because it is hard", [2], drawn=False)
    say(f"{word[2]} trained on", [2], split="train")
    perfect, weak = measured(PERFECT, snapshot), measured(WEAK, snapshot)
    assert (perfect["queries"], perfect["jaccard"]["mean"], perfect["exact"]["mean"]) == (2, 1.0, 1.0)
    assert (weak["queries"], weak["jaccard"]["mean"]) == (2, 0.5)
    assert perfect["jaccard"]["low"] < 0.5  # two queries are not many


def test_without_a_sample_there_is_no_figure(word_model, snapshot: Snapshot) -> None:
    assert measured(PERFECT, snapshot) is None
