"""Pre-labeling by the LLM that an admin connected: a server of the own network, its key, and how often it agrees with people."""

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from agents_app import llm
from datasets_app.labels import labels
from datasets_app.models import PrelabelJob, Query
from datasets_app.prelabeling import agreement
from datasets_app.prelabeling import jobs as prelabel
from datasets_app.prelabeling import run as prelabel_run
from tests.clients import signed_in

pytestmark = pytest.mark.django_db
ALL = [0, 1, 2, 3]


@pytest.fixture
def connected(server, settings):
    """The server of the tests, which nothing but the saved connection names."""
    settings.LLM_BASE_URL, settings.INTERNAL_HOSTS = "https://api.example/v1", []
    llm.save(llm.Connection(server.url, "m", "sk-own", own_network=True), actor=None)
    return server


def test_only_the_saved_server_of_the_own_network_is_asked(connected, pool, texts) -> None:
    queries = prelabel.unlabeled(pool)
    with pytest.raises(prelabel.PrelabelError):
        prelabel.create(pool, queries, base_url="http://127.0.0.1:1/v1", model="m")
    job = prelabel.create(pool, queries, base_url=connected.url, model="m")
    done = prelabel_run.run(job.pk)
    assert done is not None
    assert done.status == "done"
    assert prelabel.counts(done)["answered"] == 4
    assert set(connected.keys) == {"Bearer sk-own"}


def test_its_key_goes_nowhere_else(connected, pool) -> None:
    elsewhere = PrelabelJob(pool=pool, base_url="https://evil.example/v1", model="m")
    assert prelabel.key_for(elsewhere) == ""
    assert prelabel.key_for(PrelabelJob(pool=pool, base_url=connected.url, model="m")) == "sk-own"


@pytest.mark.django_db(transaction=True)
@pytest.mark.at_length
def test_ten_are_tried_and_forty_that_people_labeled(connected, pool, add_query) -> None:
    names = ("Billing", "Account", "Technical")
    for n in range(60):  # of each three people say what the LLM says, but of one
        query = add_query(f"labeled {n}: {names[n % 3]}")
        labels.record(labels.NewLabel(query.pk, source="import", required=[n % 3 if n % 6 else 3], asked=ALL))
    for n in range(30):
        add_query(f"new {n}: Billing")
    client = signed_in(User.objects.create_superuser("root"))
    said = {"base_url": connected.url, "model": "m", "start": "try", "fallback": "skip", "batch_size": "5"}
    said |= {"concurrency": "4", "temperature": "0", "minimum": "0", "maximum": "0", "price_in": "0", "price_out": "0"}
    answer = client.post(reverse("prelabel", args=[pool.slug]), said)
    assert answer.status_code == 302, answer.content.decode()
    job = PrelabelJob.objects.get()
    assert prelabel.counts(job)["total"] == 50
    assert agreement.with_people(job) is None
    prelabel_run.run(job.pk)
    found = agreement.with_people(job)
    assert found is not None
    wrong = sum(
        int(q.text.split()[1][:-1]) % 6 == 0 for q in Query.objects.filter(prelabel_items__job=job, gold__isnull=False)
    )
    assert found == agreement.Agreement(40 - wrong, 40, True)
    assert f"It agrees with your labels on {40 - wrong} of 40." in client.get(answer["Location"]).content.decode()
