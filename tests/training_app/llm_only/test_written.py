"""A run learns from the pool's written queries, and its page says so."""

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.urls import reverse

from agents_app.models import Pool
from datasets_app.labels import labels, snapshots
from datasets_app.models import Query, WrittenQuery
from datasets_app.prelabeling import writing
from tests.clients import signed_in
from tests.training_app.llm_only.conftest import NEEDS, needed, texts
from training_app.models import RouterModel

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.at_length]
QUICK = (
    "decision=threshold",
    "encoder=fast",
    "judging_folds=0",
    "baselines=false",
    "sentences=false",
    "unlabeled=false",
)


def test_a_run_learns_from_them_and_says_so(folder, capsys) -> None:
    call_command("load_pool", str(folder), slug="desk", name="Desk")
    pool = Pool.objects.get(slug="desk")
    roster = [{"id": n, "name": name} for n, name in enumerate(NEEDS)]
    chosen = [query for query in Query.objects.order_by("pk") if query.text in texts()[::3]]
    labels.record_many(
        labels.NewLabel(query.pk, source="import", required=needed(query.text, roster), asked=[0, 1, 2])
        for query in chosen
    )
    said = ("my invoice has a zebra on it", "a zebra invoice", chosen[0].text.upper())
    WrittenQuery.objects.bulk_create(
        [
            WrittenQuery(pool=pool, text=text, key=writing.key_of(text), agents=[0], model="m", language="en")
            for text in said
        ]
    )
    call_command("train", "--pool", "desk", *[word for setting in QUICK for word in ("--set", setting)])
    model = RouterModel.objects.get(pool=pool)
    assert model.run is not None
    snapshot = model.run.snapshot
    assert (snapshot.written, snapshot.rows) == (3, len(chosen))
    assert snapshots.verify(snapshot)
    # One says the same as a labeled query: it is left out.
    assert model.card.content["written"] == 2
    assert sum(model.card.content["data"].values()) == len(chosen)
    page = signed_in(User.objects.create_superuser("root")).get(reverse("model", args=["desk", model.version]))
    assert "Trained with 2 written queries beside the labels" in page.content.decode()
