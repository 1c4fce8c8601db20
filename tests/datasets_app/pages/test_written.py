"""The page of written queries: an estimate, a job, and one click to reject or keep."""

import pytest
from django.urls import reverse

from agents_app import llm
from agents_app.models import AuditEntry, Pool
from datasets_app.models import WritingJob, WrittenQuery
from datasets_app.prelabeling import writing
from tests.clients import signed_in
from tests.llm_server import Server

pytestmark = pytest.mark.django_db
SENT = {"per_agent": "2", "joined": "1", "nobody": "1", "languages": "de, en"}


@pytest.fixture
def server(settings):
    settings.LLM_BASE_URL, settings.INTERNAL_HOSTS = "https://api.example/v1", []
    with Server() as running:
        llm.save(llm.Connection(running.url, "m", own_network=True, price_in=1.0, price_out=2.0), actor=None)
        yield running


@pytest.fixture
def client(rita):
    return signed_in(rita)


def text(answer) -> str:
    return " ".join(answer.content.decode().split())


def test_an_estimate_asks_nothing(client, pool, server) -> None:
    answer = client.post(reverse("written", args=[pool.slug]), {**SENT, "estimate": "1"})
    assert "20 queries in 12 calls" in text(answer)
    assert not WritingJob.objects.exists()
    assert not server.bodies


def test_a_job_starts_is_shown_and_is_read(client, pool, server) -> None:
    here = reverse("written", args=[pool.slug])
    assert "Nothing has been written yet" in text(client.get(here))
    assert client.post(here, {**SENT, "start": "1"}).status_code == 302
    live = client.get(here, headers={"HX-Request": "true"})
    assert "0 of 12 calls" in text(live)
    assert "HX-Refresh" not in live.headers
    writing.run(WritingJob.objects.get().pk)
    over = client.get(here, headers={"HX-Request": "true"})
    assert over.headers["HX-Refresh"] == "true"
    shown = text(client.get(here))
    assert "12 of 12 calls" in shown
    assert f"{WrittenQuery.objects.count()} are kept" in shown


@pytest.mark.parametrize(
    ("changed", "why"),
    [({"languages": "german"}, "is no code"), ({"per_agent": "0", "joined": "0", "nobody": "0"}, "at least one query")],
)
def test_what_cannot_be_written_is_said_beside_the_form(client, pool, server, changed, why) -> None:
    answer = client.post(reverse("written", args=[pool.slug]), {**SENT, **changed, "start": "1"})
    assert why in text(answer)
    assert not WritingJob.objects.exists()


def test_without_an_llm_it_says_so(client, pool, settings) -> None:
    settings.LLM_BASE_URL = settings.LLM_MODEL = ""
    answer = client.post(reverse("written", args=[pool.slug]), {**SENT, "start": "1"})
    assert "No LLM is connected yet" in text(answer)


def test_only_with_an_llm_is_a_start_offered(client, pool, settings) -> None:
    settings.LLM_BASE_URL = settings.LLM_MODEL = ""
    assert 'name="start"' not in client.get(reverse("written", args=[pool.slug])).content.decode()
    settings.LLM_BASE_URL, settings.LLM_MODEL = "https://api.example/v1", "m"
    assert 'name="start"' in client.get(reverse("written", args=[pool.slug])).content.decode()


def test_one_click_rejects_and_keeps(client, pool, server) -> None:
    writing.run(writing.create(pool, writing.Wish(2, 0, 0, ("en",))).pk)
    first, *others = WrittenQuery.objects.order_by("pk")
    change = reverse("written_change", args=[pool.slug])
    fragment = client.post(change, {"query": first.pk, "to": "reject"}, headers={"HX-Request": "true"})
    assert "Rejected" in text(fragment)
    assert "1 are rejected." in text(fragment), "the sentence above the list follows"
    assert writing.counts(pool) == {"kept": len(others), "rejected": 1}
    client.post(change, {"query": first.pk, "to": "keep"})
    assert writing.counts(pool) == {"kept": len(others) + 1, "rejected": 0}
    client.post(change, {"query": "all", "to": "reject"})
    assert writing.counts(pool)["kept"] == 0
    client.post(change, {"query": "nonsense", "to": "keep"})
    client.post(change, {"to": "keep"})
    assert writing.counts(pool)["kept"] == 0
    assert AuditEntry.objects.filter(action="writing.reviewed").count() == 5


def test_a_job_is_cancelled_and_goes_on(client, pool, server) -> None:
    job = writing.create(pool, writing.Wish(2, 0, 0, ("en",)))
    at = reverse("written_job", args=[pool.slug])
    for wish, status in (("cancel", "cancelled"), ("resume", "queued")):
        client.post(at, {"wish": wish})
        job.refresh_from_db()
        assert job.status == status
    assert "Nothing to do" in text(client.post(at, {"wish": "resume"}, follow=True))


def test_another_pools_are_not_touched(client, pool, server) -> None:
    other_pool = Pool.objects.create(slug="other", name="Other")
    writing.run(writing.create(pool, writing.Wish(2, 0, 0, ("en",))).pk)
    key = WrittenQuery.objects.values_list("pk", flat=True)[0]
    client.post(reverse("written_change", args=[other_pool.slug]), {"query": key, "to": "reject"})
    assert writing.counts(pool)["rejected"] == 0


def test_what_was_left_out_is_counted_behind_its_reason(client, pool, server) -> None:
    client.post(reverse("written", args=[pool.slug]), {**SENT, "start": "1"})
    WritingJob.objects.update(problems={"an answer without JSON": 2, "without a text": 1})
    page = text(client.get(reverse("written", args=[pool.slug])))
    assert "Left out: " in page
    for reason in ("an answer without JSON (2)", "without a text (1)"):  # in any order: PostgreSQL has its own
        assert reason in page
