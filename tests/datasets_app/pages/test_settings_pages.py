"""The queue's settings and pre-labeling in the browser."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone
from django_q.models import OrmQ

from datasets_app.labeling import queue
from datasets_app.labels import labels
from datasets_app.models import PrelabelJob, QueueItem, QueueSettings
from datasets_app.models.labeling import LOTS
from datasets_app.prelabeling import jobs as prelabel
from datasets_app.prelabeling import prompts
from routerweb.pages import paging
from tests.clients import signed_in
from tests.datasets_app.addresses import url


@pytest.fixture
def client(person):
    return signed_in(person("rita", "reviewer"))


QUEUE = {
    "order": "oldest", "seed": "3", "overlap": "3", "overlap_share": "100", "blind_share": "25", "evaluation_share": "5",
    "idle_minutes": "9",
}  # fmt: skip
JOB = {
    "q": "", "limit": "", "base_url": "http://127.0.0.1:9/v1", "model": "m", "batch_size": "1", "concurrency": "2",
    "temperature": "0", "minimum": "0", "maximum": "0", "fallback": "skip", "price_in": "1", "price_out": "2",
}  # fmt: skip


@pytest.mark.parametrize("name", ["settings_queue", "prelabel", "prompt"])
@pytest.mark.parametrize(("role", "status"), [("labeler", 403), ("reviewer", 200), ("ops", 200)])
def test_who_may_set(pool, queries, person, name, role, status):
    client = signed_in(person("pat", role))
    assert client.get(url(name, pool)).status_code == status
    assert client.post(url(name, pool), {}).status_code == status


def test_the_queue_follows_its_settings_at_once(client, pool, queries):
    queue.fill(pool)
    assert client.post(url("settings_queue", pool), QUEUE).status_code == 302
    saved = QueueSettings.objects.get(pool=pool)
    assert (saved.overlap_share, saved.blind_share, saved.evaluation_share) == (1.0, 0.25, 0.05)
    assert saved.idle.total_seconds() == 540
    assert set(QueueItem.objects.values_list("needed", flat=True)) == {3}
    ranks = list(QueueItem.objects.order_by("query").values_list("rank", flat=True))
    assert ranks == sorted(ranks)
    assert ranks[0] >= 1


def test_what_a_setting_does_shows_before_it_is_saved(client, pool, queries):
    queue.fill(pool)
    before = queue.stored_settings(pool)
    line = LOTS // 4
    for lot, item in zip(
        (0, line - 1, line, LOTS - 1, LOTS - 1, LOTS - 1), QueueItem.objects.order_by("pk"), strict=True
    ):
        QueueItem.objects.filter(pk=item.pk).update(overlap_lot=lot, blind_lot=lot)
    asked = QUEUE | {"overlap": "2", "overlap_share": "25", "blind_share": "100"}
    shown = client.get(url("settings_queue", pool), asked, headers={"HX-Request": "true"}).content.decode()
    assert "2 of 6 queries get 2 people." in shown
    assert "6 of 6 are labeled blind" in shown
    assert "<html" not in shown
    assert QueueSettings.objects.get(pool=pool).overlap_share == before.overlap_share
    wrong = client.get(url("settings_queue", pool), asked | {"overlap": "0"}, headers={"HX-Request": "true"})
    assert "cannot be used" in wrong.content.decode()


def test_of_a_long_queue_a_part_is_looked_at_and_the_page_says_so(client, pool, queries, monkeypatch):
    queue.fill(pool)
    for looked_at, said in ((len(queries) + 1, False), (len(queries) - 2, True)):
        monkeypatch.setattr(queue, "SAMPLED", looked_at)
        html = client.get(url("settings_queue", pool)).content.decode()
        assert f"0 of {min(looked_at, len(queries))} queries get" in html
        assert ("Counted among" in html) is said


def test_many_queries_without_a_label_are_not_counted_to_the_last(client, pool, queries, settings, monkeypatch):
    settings.LLM_MODEL = "m"
    monkeypatch.setattr(paging, "COUNTED", len(queries) - 2)
    html = client.get(url("prelabel", pool)).content.decode()
    assert re.search(r"(About|More than) \d+ queries have no label yet", html)


@pytest.mark.parametrize(
    ("field", "value"), [("overlap", "0"), ("blind_share", "101"), ("order", "x"), ("evaluation_share", "")]
)
def test_a_bad_setting_is_refused_beside_its_field(client, pool, field, value):
    before = queue.stored_settings(pool).overlap
    html = client.post(url("settings_queue", pool), QUEUE | {field: value}).content.decode()
    assert 'aria-invalid="true"' in html
    assert QueueSettings.objects.get(pool=pool).overlap == before


def test_an_estimate_starts_nothing(client, pool, queries):
    html = client.post(url("prelabel", pool), JOB | {"estimate": "1", "limit": "2"}).content.decode()
    assert "2 queries in 2 calls" in html
    assert not PrelabelJob.objects.exists()


def test_ten_queries_are_tried_and_looked_at(client, pool, add_query, django_capture_on_commit_callbacks):
    several = [add_query(f"where is parcel {n}") for n in range(12)]
    with django_capture_on_commit_callbacks(execute=True):
        client.post(url("prelabel", pool), JOB | {"start": "try", "limit": "500"})
    job = PrelabelJob.objects.get()
    assert prelabel.counts(job)["total"] == 10
    assert "What it answered" not in client.get(url("prelabel_job", pool, job.pk)).content.decode()
    labels.record(
        labels.NewLabel(several[0].pk, source="llm", required=[1], asked=[0, 1, 2, 3], provenance={"job": job.pk})
    )
    shown = client.get(url("prelabel_job", pool, job.pk)).content.decode()
    assert "What it answered" in shown
    assert "where is parcel 0" in shown


def test_a_job_says_what_it_costs_in_the_pools_currency(client, pool, queries):
    pool.currency = "EUR"
    pool.save()
    prices = {"estimate": "1", "limit": "1", "price_in": "0.1", "price_out": "0.4"}
    html = client.post(url("prelabel", pool), JOB | prices).content.decode()
    assert re.search(r"About EUR\s0\.0+\d\d at these prices", html), html[html.find("About") :][:80]


def test_a_budget_needs_prices_and_can_be_raised_once_it_is_spent(client, pool, queries):
    for wrong, why in (
        ({"budget": "1", "price_in": "0", "price_out": "0"}, "Enter the prices"),
        ({"budget": "0"}, "More than 0"),
    ):
        assert why in client.post(url("prelabel", pool), JOB | wrong | {"start": "1"}).content.decode()
    assert not PrelabelJob.objects.exists()
    client.post(url("prelabel", pool), JOB | {"budget": "0.5", "start": "1"})
    job = PrelabelJob.objects.get()
    at = url("prelabel_job", pool, job.pk)
    assert "of USD\xa00.50" in client.get(at).content.decode()
    assert "New budget" not in client.get(at).content.decode()
    PrelabelJob.objects.update(status="paused", tokens_in=500_000)
    assert "New budget" in client.get(at).content.decode()
    change = url("prelabel_change", pool, job.pk)
    for wrong, why in (("0.5", "So much is spent already"), ("much", "Enter a number")):
        assert why in client.post(change, {"wish": "resume", "budget": wrong}, follow=True).content.decode()
        assert PrelabelJob.objects.get().status == "paused"
    client.post(change, {"wish": "resume", "budget": "0.8"})
    job.refresh_from_db()
    assert (job.status, job.budget, job.left) == ("queued", 0.8, pytest.approx(0.3))


def test_a_job_starts_and_can_be_paused_cancelled_and_gone_on_with(
    client, pool, queries, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        client.post(url("prelabel", pool), JOB | {"start": "1", "q": '"number 1"'})
    job = PrelabelJob.objects.get()
    assert OrmQ.objects.count() == 1
    assert prelabel.counts(job)["total"] == 1
    assert "Pause" in client.get(url("prelabel_job", pool, job.pk)).content.decode()
    live = client.get(url("prelabel_job", pool, job.pk), headers={"HX-Request": "true"})
    assert "<html" not in live.content.decode()
    for wish, status in (("pause", "paused"), ("resume", "queued"), ("cancel", "cancelled"), ("nonsense", "cancelled")):
        client.post(url("prelabel_change", pool, job.pk), {"wish": wish})
        job.refresh_from_db()
        assert job.status == status
    assert client.get(url("prelabel_job", pool, job.pk), headers={"HX-Request": "true"})["HX-Refresh"] == "true"


def test_the_pace_is_that_of_the_present_turn(client, pool, queries):
    job = prelabel.create(pool, prelabel.unlabeled(pool), base_url="http://127.0.0.1:9/v1", model="m")
    first, second, *_rest = job.items.order_by("pk")
    job.items.filter(pk=first.pk).update(status="answered")
    now = timezone.now()
    claimed = prelabel.claim(job.pk)
    assert claimed is not None
    job.items.filter(pk=second.pk).update(status="answered")
    PrelabelJob.objects.update(status="paused")
    assert 'value="cancel"' in client.get(url("prelabel_job", pool, job.pk)).content.decode()
    PrelabelJob.objects.update(status="done", started_at=now, finished_at=now + timedelta(seconds=10))
    html = client.get(url("prelabel_job", pool, job.pk)).content.decode()
    assert "<dd>0.1</dd>" in html, "one query in ten seconds: the other was answered in an earlier turn"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"q": "agent:nobody"}, "no agent of this pool"),
        ({"base_url": "file:///etc/passwd"}, "must begin with http"),
        ({"q": "split:test"}, "There are no queries to ask about."),
        ({"concurrency": "99"}, "64"),
        ({"temperature": "3"}, "From 0 to 2."),
    ],
)
def test_a_job_that_cannot_be_is_refused_with_the_reason(client, pool, queries, change, words):
    html = client.post(url("prelabel", pool), JOB | {"start": "1"} | change).content.decode()
    assert words in html
    assert not PrelabelJob.objects.exists()


def test_the_prompt_is_previewed_on_a_real_query_and_saved_as_a_version(client, pool, queries):
    html = client.post(url("prompt", pool), {"text": "Hello {{ pool }}", "preview": "1"}).content.decode()
    assert "Hello Support" in html
    assert queries[-1].text in html
    assert prompts.current(pool).version == 1
    assert "aria-invalid" in client.post(url("prompt", pool), {"text": "{% if %}", "save": "1"}).content.decode()
    client.post(url("prompt", pool), {"text": "Hello {{ pool }}", "save": "1"})
    assert prompts.current(pool).version == 2
