"""Pre-labeling against a server that misbehaves: every query is answered or marked, and nothing is paid for twice."""

import json
import threading
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.utils import timezone
from django_q.models import OrmQ

from agents_app.background_work import reaper
from agents_app.outbound import guard
from datasets_app.labels import labels, suggestions
from datasets_app.models import Dataset, Label, LlmAnswer, PrelabelItem, PrelabelJob, PromptTemplate, Query
from datasets_app.prelabeling import jobs as prelabel
from datasets_app.prelabeling import prompts
from datasets_app.prelabeling import run as prelabel_run
from tests.datasets_app.prelabeling.conftest import done, found
from tests.llm_server import FAULTS, Server
from tests.silence import silence


def test_every_query_is_answered_with_scores_tokens_and_version(pool, texts, make, server):
    job = done(make(concurrency=2, price_in=10.0, price_out=20.0))
    assert job.status == "done"
    assert [found()[query.pk] for query in texts] == [[0], [1], [], [3]]
    label = Label.objects.get(query=texts[0], source="llm")
    assert (label.scores, label.asked) == ({"0": 0.9}, [0, 1, 2, 3])
    assert label.provenance == {"model": "m", "prompt": "prompt 1", "job": job.pk}
    assert (job.calls, job.tokens_in, job.tokens_out) == (4, 400, 40)
    assert job.cost == pytest.approx((400 * 10 + 40 * 20) / 1e6)
    assert set(server.keys) == {"Bearer secret"}
    assert Query.objects.get(pk=texts[0].pk).state == "labeled", "an LLM's label alone is no gold"
    offer = suggestions.offers([texts[0].pk])[texts[0].pk][0]
    assert (offer.source, offer.version) == ("llm", "m · prompt 1")


def test_a_budget_that_is_spent_pauses_the_job_and_a_higher_one_goes_on(pool, add_query, make, server):
    """Each call costs 0.0012; with one thread no more than the call that spends the budget is made."""
    for n in range(12):
        add_query(f"number {n}: Billing")
    job = done(make(concurrency=1, price_in=10.0, price_out=20.0, budget=0.005))
    assert (job.status, job.error) == ("paused", "The budget is spent. Raise it to ask about the other queries.")
    assert (prelabel.counts(job)["answered"], sum(server.charged.values())) == (5, 5)
    assert (job.cost, job.left) == (pytest.approx(0.006), 0)
    assert len(found()) == 5, "what was paid for is kept"
    assert prelabel.resume(job, now=False)
    job = done(job)
    assert (job.status, sum(server.charged.values())) == ("paused", 5), "going on with a spent budget asks nothing"
    with pytest.raises(prelabel.PrelabelError, match="So much is spent already"):
        prelabel.rebudget(job, 0.006)
    prelabel.rebudget(job, 0.0144)
    assert prelabel.resume(job, now=False)
    job = done(job)
    assert (job.status, job.error) == ("done", ""), "the last answer may spend all of it"
    assert set(server.charged.values()) == {1}
    assert len(found()) == 12


def test_several_queries_in_a_call(texts, make, server):
    job = done(make(batch_size=3, concurrency=1))
    assert job.calls == 2
    assert len(found()) == 4


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault in ("429", "500", "cut")])
def test_what_may_pass_is_tried_again(texts, make, server, fault, monkeypatch):
    monkeypatch.setattr("training_app.engine.llm.random.Random.random", lambda self: 0.0)
    server.fault = lambda text, nth: fault if nth == 1 and "number 1" in text else ""
    job = done(make())
    assert len(found()) == 4
    assert prelabel.counts(job)["answered"] == 4
    assert server.asked[texts[1].text] == 2


def test_prose_around_the_json_and_a_server_without_schemas_are_understood(texts, make, server):
    server.no_schema = True
    server.fault = lambda text, nth: "prose"
    done(make(concurrency=1))
    assert len(found()) == 4
    assert sum("response_format" in body for body in server.bodies) == 1, "asked for once, then never again"


def test_what_could_not_be_read_is_asked_once_more_alone(texts, make, server):
    server.fault = lambda text, nth: "not json" if nth == 1 and "number 0" in text else ""
    job = done(make())
    assert prelabel.counts(job)["answered"] == 4
    assert server.asked[texts[0].text] == 2


@pytest.mark.parametrize("fault", ["not json", "wrong id", "empty"])
@pytest.mark.parametrize(("kind", "expected"), [("skip", None), ("keyword", [0]), ("all-agents", [0, 1, 2, 3])])
def test_an_answer_that_cannot_be_read_falls_back_and_is_marked(texts, make, server, fault, kind, expected):
    server.fault = lambda text, nth: fault if "number 0" in text else ""
    job = done(make(fallback=kind))
    assert found().get(texts[0].pk) == expected
    assert len(found()) == (3 if expected is None else 4)
    item = PrelabelItem.objects.get(query=texts[0])
    assert item.status == ("failed" if expected is None else "fallback")
    assert item.error
    assert server.asked[texts[0].text] == 2, "once more, and no third time"
    assert LlmAnswer.objects.count() == 3, "a fallback is never kept as the LLM's answer"
    if expected is not None:
        label = Label.objects.get(query=texts[0], source="llm")
        assert label.provenance["fallback"] == kind
        assert suggestions.offers([texts[0].pk])[texts[0].pk][0].fallback == kind
    assert prelabel.counts(job)["done"] == 4


def test_a_fallback_never_replaces_an_answer(pool, texts, make, server):
    labels.record(labels.NewLabel(texts[0].pk, source="llm", required=[3], asked=range(4)))
    server.fault = lambda text, nth: "empty"
    job = prelabel.create(
        pool, Query.objects.filter(pk=texts[0].pk), base_url=server.url, model="m", fallback="all-agents"
    )
    done(job)
    assert found() == {texts[0].pk: [3]}


def test_part_of_a_batch_is_asked_again_alone(texts, make, server, monkeypatch):
    import tests.llm_server as module

    real = module.answer

    def leaves_one_out(body, wrong_id=False, judge=None):
        value = json.loads(real(body, wrong_id, judge))
        if len(value["answers"]) > 1:
            value["answers"].pop()
        return json.dumps(value)

    monkeypatch.setattr(module, "answer", leaves_one_out)
    job = done(make(batch_size=4, concurrency=1))
    assert len(found()) == 4
    assert job.calls == 2


def test_a_bad_key_stops_the_job_at_once_with_the_reason(texts, make, server):
    server.refuse_key = True
    job = done(make(concurrency=1))
    assert job.status == "failed"
    assert "refused the key (401): Incorrect API key provided" in job.error
    assert sum(server.asked.values()) <= 2
    assert prelabel.counts(job)["waiting"] == 4, "nothing is marked as tried"


def test_a_server_that_is_away_ends_the_job_and_going_on_asks_the_rest(pool, texts, make, monkeypatch):
    monkeypatch.setattr("training_app.engine.llm.Client._wait", lambda self, attempt, asked, reason: None)
    with Server() as gone:
        url = gone.url
    job = prelabel.create(pool, prelabel.unlabeled(pool), base_url=url, model="m", concurrency=1)
    assert done(job).status == "failed"
    assert "cannot be reached" in PrelabelJob.objects.get().error
    assert PrelabelItem.objects.filter(status="failed").count() == 2
    assert prelabel.resume(job, now=False)
    assert prelabel.counts(job)["waiting"] == 4


def test_nothing_is_asked_twice_of_the_same_model_prompt_and_roster(pool, texts, make, server):
    done(make())
    Label.objects.filter(source="llm").update(superseded_at=timezone.now())
    again = done(make())
    assert (again.calls, prelabel.counts(again)["cached"], len(found())) == (0, 4, 4)
    assert sum(server.asked.values()) == 4
    pool.guidelines = "Billing is never needed."
    pool.save()
    Label.objects.filter(source="llm").update(superseded_at=timezone.now())
    assert done(make()).calls == 4, "other guidelines are another prompt"
    pool.agents.filter(number=0).update(description="now does something else")
    Label.objects.filter(source="llm").update(superseded_at=timezone.now())
    assert done(make()).calls == 4, "another roster is another question"


def test_the_same_text_in_two_datasets_is_paid_for_once(pool, texts, add_query, make, server):
    other = Dataset.objects.create(pool=pool, name="Other")
    add_query(texts[0].text, in_dataset=other)
    done(make())
    assert len(found()) == 5
    assert server.asked[texts[0].text] == 1


@pytest.mark.django_db(transaction=True)
def test_pause_waits_for_what_is_under_way_and_going_on_pays_for_nothing_twice(pool, add_query, make, server):
    for n in range(30):
        add_query(f"number {n}: Billing")
    server.delay = 0.1
    job = make(concurrency=3)

    def work():
        try:
            prelabel_run.run(job.pk, api_key="k", progress=lambda job: prelabel.pause(job))
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    job.refresh_from_db()
    assert job.status == "paused"
    counted = prelabel.counts(job)
    assert 0 < counted["waiting"] < 30
    assert counted["answered"] == sum(server.answered.values()), "what was paid for is kept"
    assert prelabel.resume(job, now=False)
    server.delay = 0.0
    assert done(job).status == "done"
    assert set(server.answered.values()) == {1}
    assert len(found()) == 30


def test_cancel_and_the_limits_of_its_life(texts, make):
    job = make()
    assert prelabel.cancel(job)
    assert prelabel_run.run(job.pk) is None, "a cancelled job does not run"
    assert prelabel.resume(job, now=False)
    assert done(job).status == "done"
    assert not prelabel.resume(job, now=False), "nothing is left"
    assert not prelabel.pause(job)


def test_a_worker_that_was_taken_for_dead_writes_nothing(texts, make, server):
    job = make(concurrency=1)

    def taken_away(job: PrelabelJob) -> None:
        PrelabelJob.objects.filter(pk=job.pk).update(attempt="00000000-0000-0000-0000-000000000001")

    server.delay = 0.25
    ended = done(job, progress=taken_away)
    assert ended.status == "running", "it is another worker's now"
    assert prelabel.counts(job)["answered"] < 4


def test_a_dead_job_is_noticed(texts, make):
    job = make()
    prelabel.claim(job.pk)
    assert reaper.end_dead() == 0
    silence(PrelabelJob.objects.all())
    assert reaper.end_dead() == 1
    job.refresh_from_db()
    assert (job.status, job.losses) == ("queued", 1), "another worker goes on"
    assert done(job).status == "done"


def test_a_job_whose_workers_die_again_and_again_waits_for_a_person(texts, make, settings):
    job = make()
    for _attempt in range(settings.RUN_RETRIES + 1):
        prelabel.claim(job.pk)
        silence(PrelabelJob.objects.all())
        assert reaper.end_dead() == 1
    job.refresh_from_db()
    assert job.status == "failed"
    assert prelabel.resume(job, now=False)


@pytest.mark.parametrize(("wish", "status"), [("pause", "paused"), ("cancel", "cancelled")])
def test_a_dead_job_that_was_to_stop_stops(texts, make, wish, status):
    job = make()
    prelabel.claim(job.pk)
    assert getattr(prelabel, wish)(job)
    silence(PrelabelJob.objects.all())
    assert reaper.end_dead() == 1
    job.refresh_from_db()
    assert (job.status, job.wish) == (status, "")


def test_a_job_whose_message_was_lost_is_handed_over_again(texts, make, django_capture_on_commit_callbacks):
    def handed() -> int:
        with django_capture_on_commit_callbacks(execute=True):
            return reaper.deliver_again()

    job = make()
    with django_capture_on_commit_callbacks(execute=True):
        prelabel.enqueue(job)
    OrmQ.objects.all().delete()
    assert handed() == 0, "it may be on its way"
    long_ago = timezone.now() - timezone.timedelta(seconds=61)
    PrelabelJob.objects.update(delivered_at=long_ago)
    assert handed() == 1
    assert handed() == 0
    assert OrmQ.objects.count() == 1
    PrelabelJob.objects.update(delivered_at=long_ago)
    assert handed() == 0, "its message waits in the queue"
    OrmQ.objects.all().delete()
    assert done(job).status == "done"
    PrelabelJob.objects.update(delivered_at=long_ago)
    assert handed() == 0


def test_the_key_goes_to_the_configured_server_alone(pool, texts, settings):
    settings.LLM_API_KEY, settings.LLM_BASE_URL = "secret", "https://llm.example.com/v1"
    job = prelabel.create(pool, prelabel.unlabeled(pool), base_url="https://llm.example.com/v1", model="m")
    assert prelabel.key_for(job) == "secret"
    job.base_url = "https://LLM.example.com:443/v1/"
    assert prelabel.key_for(job) == "secret"
    for elsewhere in (
        "https://evil.example.com/v1", "http://llm.example.com/v1", "https://llm.example.com:8443/v1",
        "https://llm.example.com/", "https://llm.example.com/v1/../public", "https://llm.example.com/v1?to=me",
        "https://llm.example.com@evil.example.com/v1",
    ):  # fmt: skip
        job.base_url = elsewhere
        assert prelabel.key_for(job) == ""


@pytest.mark.parametrize(
    "address", ["http://10.0.0.1/v1", "https://10.0.0.1/v1", "https://[64:ff9b::a00:1]/v1", "http://169.254.169.254/latest", "ftp://x/"]
)  # fmt: skip
def test_no_job_is_made_about_a_server_inside(pool, texts, settings, address):
    settings.INTERNAL_HOSTS = ()
    with pytest.raises(prelabel.PrelabelError):
        prelabel.create(pool, prelabel.unlabeled(pool), base_url=address, model="m")


def test_a_job_of_before_calls_no_server_inside_and_tells_nothing_of_it(pool, texts, server, settings):
    job = prelabel.create(pool, prelabel.unlabeled(pool), base_url=server.url, model="m")
    settings.INTERNAL_HOSTS = ()
    ended = done(job)
    assert not server.asked
    assert "INTERNAL_HOSTS" in ended.error


def test_the_servers_words_stand_in_a_job_where_it_is_listed_alone(pool, texts, server, settings, monkeypatch):
    server.refuse_key = True
    job = prelabel.create(pool, prelabel.unlabeled(pool), base_url=server.url, model="m")
    listed = done(job).error
    monkeypatch.setattr(guard, "listed", lambda *where: False)
    monkeypatch.setattr(guard, "public", lambda address: True)
    monkeypatch.setattr(guard, "check_url", lambda url, **how: guard.urlsplit(url))
    prelabel.resume(job)
    assert done(job).error == "the server refused the key (401)"
    assert listed.startswith("the server refused the key (401): ")


def test_a_prompt_that_cannot_be_drawn_is_told_before_anything_is_asked(pool, texts, server):
    PromptTemplate.objects.create(pool=pool, version=7, text="{% now 'Y' %} {{ pool }}")
    for make in (prelabel.estimate, prelabel.create):
        options = {"base_url": server.url, "model": "m"} if make is prelabel.create else {}
        with pytest.raises(prelabel.PrelabelError, match="The prompt cannot be used: Line 1"):
            make(pool, prelabel.unlabeled(pool), **options)
    assert not PrelabelJob.objects.exists()


def test_the_estimate_is_near_what_the_prompt_weighs(pool, texts):
    guess = prelabel.estimate(pool, prelabel.unlabeled(pool), batch_size=2, price_in=1.0, price_out=2.0)
    assert (guess.queries, guess.calls, guess.tokens_out) == (4, 2, 120)
    assert 200 < guess.tokens_in < 1_000
    assert guess.cost == pytest.approx((guess.tokens_in + 240) / 1e6)


# -------------------------------------------------------------------------------------------------------- the prompt


def test_a_prompt_is_versioned_and_sees_texts_only(pool):
    assert prompts.current(pool).version == 1
    second = prompts.save(pool, "Route for {{ pool }}. {{ guidelines }}", None)
    assert (second.version, prompts.save(pool, second.text, None).version) == (2, 2)
    assert prompts.render(second.text, pool, (), 0, None) == "Route for Support."
    for bad in ("{% if %}", "words {% load static %}", "words {% include 'admin/base.html' %}", "  "):
        with pytest.raises(prompts.PromptError):
            prompts.save(pool, bad, None)


# -------------------------------------------------------------------------------------------------------- the command


def test_the_command_labels_and_tells(pool, texts, server):
    out = StringIO()
    call_command("label", pool="support", base_url=server.url, model="m", limit=3, stdout=out)
    assert "3 answered" in out.getvalue()
    assert len(found()) == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pool": "nope"}, "no pool has the slug"),
        ({"model": ""}, "Name the server's base URL and the model"),
        ({"base_url": "ftp://x"}, "must begin with http"),
        ({"concurrency": 0}, "--concurrency"),
        ({"resume": 99}, "has no job 99"),
    ],
)
def test_the_command_fails_in_one_clear_line(pool, texts, server, options, words):
    given = {"pool": "support", "base_url": server.url, "model": "m"} | options
    with pytest.raises(CommandError, match=words):
        call_command("label", **given)
