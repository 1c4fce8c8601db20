"""All models of a pool are measured on the same queries, none of which one of them learnt from, and again when gold changes."""

import json
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.urls import reverse

from agents_app import pools
from agents_app.models import Pool
from datasets_app.labels import labels, snapshots
from datasets_app.models import Dataset, Query, QueueSettings, SplitGroup, group_hash, text_hash
from tests.clients import signed_in
from tests.training_app.labeled import label
from tests.training_app.words import PERFECT, WEAK, WordRouter, card
from training_app.models import Comparison, RouterModel, Standing
from training_app.pages.home import facts, questions
from training_app.training import runs
from training_app.versions import comparisons, gate, standings, verdict

EVERY = [0, 1, 2]


@pytest.fixture(autouse=True)
def words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training_app.engine.routing.router.Router", WordRouter)


def made(pool: Pool, words_of: dict[str, int], **config: object) -> RouterModel:
    """A model that a run made of what is labeled now; its scorecard says 90 of 100, whatever it does."""
    snapshot = snapshots.take(pool)
    run = runs.launch(pool, config=config, snapshot=snapshot, queue=False)
    attempt = runs.claim(run.pk)
    assert attempt
    return runs.finish(run.pk, attempt, json.dumps(words_of).encode(), card())


def labeled_later(pool: Pool, count: int, *, via: str = "import") -> None:
    """So many queries of a crash, which WEAK knows nothing of."""
    dataset = Dataset.objects.get(pool=pool)
    for number in range(count):
        text = f"a crash of another kind, {via} {number}"
        group = SplitGroup.objects.create(pool=pool, key=group_hash(text))
        query = Query.objects.create(dataset=dataset, text=text, text_hash=text_hash(text), group=group)
        labels.record(labels.NewLabel(query.pk, source="import", required=[2], asked=EVERY, provenance={"via": via}))


def test_the_verdict_is_that_on_the_queries_of_all_models(pool: Pool) -> None:
    label(pool, 72)
    weak, perfect = made(pool, WEAK), made(pool, PERFECT)
    gate.promote(weak, actor=None, override="first")
    assert verdict.of(perfect).share().startswith("About 90 of 100")  # type: ignore[union-attr]

    assert standings.measure(pool)
    judged = verdict.of(perfect)
    assert judged is not None
    assert judged.beside is not None
    assert judged.queries == judged.beside.queries == 162
    assert judged.sentence().startswith("About 100 of 100")
    assert "67 (" in judged.sentence()
    assert "This model is better." in judged.sentence()
    answer = questions._better(pool, facts.of([pool])[pool.pk]).answer
    assert answer.startswith(f"{perfect.name}: About 100 of 100"), answer
    assert f"The model in use, {weak.name}: 67 (" in answer


def test_it_is_measured_again_when_gold_changes_and_only_then(pool: Pool) -> None:
    label(pool, 8)
    made(pool, WEAK, unlabeled=False)
    assert standings.measure_all() == 1
    assert standings.measure_all() == 0
    queries = Standing.objects.get().queries
    labeled_later(pool, 3)
    assert standings.measure_all() == 1
    assert Standing.objects.get().queries == queries + 3


def test_queries_that_need_a_retired_agent_are_left_out_and_counted(pool: Pool) -> None:
    label(pool, 72)
    weak = made(pool, WEAK)
    gate.promote(weak, actor=None, override="first")
    standings.measure(pool)
    before = Standing.objects.get()
    pools.retire(pool.agents.get(number=2), actor=None)
    assert standings.measure(pool)
    needing = sum(2 in required for required in before.required)
    after, judged = Standing.objects.get(), verdict.of(weak)
    assert judged is not None
    assert (after.queries, judged.retired) == (before.queries - needing, needing)
    assert after.required.count([]) == before.required.count([]), "nobody has said that they need nobody now"
    assert f"{needing} more need a retired agent and are left out." in judged.sentence()

    pools.restore(pool.agents.get(number=2), actor=None)
    standings.measure(pool)
    assert Standing.objects.get().queries == before.queries
    assert "retired" not in verdict.of(weak).sentence()  # type: ignore[union-attr]


def test_what_a_model_learnt_from_or_read_or_was_unsure_of_does_not_count(pool: Pool) -> None:
    label(pool, 8)
    first = made(pool, WEAK, unlabeled=False)
    labeled_later(pool, 4)
    labeled_later(pool, 5, via="queue")
    standings.measure(pool)
    tested = first.run.snapshot.split_sizes["test"]  # type: ignore[union-attr]
    assert Standing.objects.get().queries == tested + 4  # the queue prefers what the model is unsure of

    QueueSettings.objects.update_or_create(pool=pool, defaults={"order": "random"})
    Standing.objects.all().delete()
    standings.measure(pool)
    assert Standing.objects.get().queries == tested + 9

    second = made(pool, PERFECT, unlabeled=False)  # it learns from those
    standings.measure(pool)
    now = second.run.snapshot.split_sizes["test"]  # type: ignore[union-attr]
    assert {row.queries for row in Standing.objects.all()} == {now}

    made(pool, PERFECT)  # it may have read texts that nobody had labeled
    Standing.objects.all().delete()
    standings.measure(pool)
    assert {row.queries for row in Standing.objects.all()} == {now}


def test_a_model_whose_artifact_cannot_be_read_is_left_out(pool: Pool) -> None:
    label(pool, 8)
    damaged, whole = made(pool, WEAK), made(pool, PERFECT)
    damaged.artifact.content = b"{"
    damaged.artifact.save()
    assert standings.measure(pool)
    assert [row.model_id for row in Standing.objects.all()] == [whole.pk]
    assert not standings.measure(pool)


def page_of(ops: User, pool: Pool, sort: str = "") -> str:
    browser = signed_in(ops)
    text = browser.get(reverse("models", args=[pool.slug]) + sort).content.decode()
    return " ".join(text.split())


def test_of_too_few_queries_lists_show_no_order(pool: Pool, ops: User) -> None:
    label(pool, 8)
    made(pool, WEAK)
    made(pool, PERFECT)
    standings.measure(pool)
    text = page_of(ops, pool, "?sort=-exact")
    assert "too few to say which is better. Label 32 more." in text
    assert "Measured on" not in text
    assert "Exactly right of 100</th>" in text  # not a link
    call_command("list_models", pool=pool.slug, stdout=(out := StringIO()))
    assert "Label 32 more." in out.getvalue()


def test_lists_sort_and_compare_on_the_same_queries(pool: Pool, ops: User) -> None:
    label(pool, 72)
    perfect, weak = made(pool, PERFECT), made(pool, WEAK)
    gate.promote(weak, actor=None, override="first")
    standings.measure(pool)
    text = page_of(ops, pool, "?sort=-exact")
    assert "2 models were measured on the same 162 queries, which none of them was trained on." in text
    assert text.count("Measured on the same 162 queries") == 1
    assert "This model is better." in text
    assert text.index(f">{perfect.name}</a></th>") < text.index(f">{weak.name}</a></th>")
    call_command("list_models", pool=pool.slug, stdout=(out := StringIO()))
    assert "100 (98 to 100)" in out.getvalue() or "100 (97 to 100)" in out.getvalue()
    assert "This model is better." in out.getvalue()


def test_any_two_models_are_compared_on_the_same_queries(pool: Pool) -> None:
    label(pool, 72)
    models = [made(pool, PERFECT), made(pool, WEAK), made(pool, {})]
    standings.measure(pool)
    compared = comparisons.between(models[0], models[2])
    assert compared is not None
    assert (compared.pk, compared.queries) == (None, 162)
    assert compared.figures["exact"]["ours"]["mean"] == 1.0
    assert round(compared.figures["exact"]["theirs"]["mean"], 2) == 0.33
    assert compared.figures["by_size"]
    assert not Comparison.objects.exists()
