"""The pages of alarms, drift and receivers: who may open them, what they show, what they refuse."""

import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents_app.models import AuditEntry, Pool, PoolRole
from tests.clients import signed_in
from tests.training_app.told import artifact
from training_app.answering import serving
from training_app.models import (
    Alarm,
    AlarmReceiver,
    Decision,
    DriftPoint,
    DriftReference,
    ProcessSign,
    RouterModel,
    Run,
)
from training_app.pages.urls import urlpatterns
from training_app.versions import registry
from training_app.watching import alarms, deliveries, health, unsure_decisions, watch

#: The addresses of alarms, drift and proposals.
NAMES = [pattern.name for pattern in urlpatterns if ".watching." in pattern.callback.__module__]


@pytest.mark.parametrize("name", NAMES)
def test_only_ops_open_them(pool: Any, person: Any, webhook: Any, name: str) -> None:
    alarm = alarms.hold(Alarm.Kind.RUNS, "Failed.", [], pool)[0]
    more = {
        "alarm_mute": [alarm.pk],
        "receiver_test": [webhook.pk],
        "receiver_remove": [webhook.pk],
        "receiver_restore": [webhook.pk],
    }
    path = reverse(name, args=["support", *more.get(name, [])])
    for role, codes in (("labeler", {403}), ("reviewer", {403}), ("admin", {200, 302, 405})):
        client = signed_in(person(role))
        assert {client.get(path).status_code, client.post(path).status_code} <= {*codes, 405}, role
    assert "/login/" in Client().get(path).get("Location", "/login/")


def test_nothing_is_wrong(pool: Any, browser: Client) -> None:
    page = browser.get(reverse("alarms", args=["support"]))
    assert "Nothing is wrong" in page.text
    assert "alarms are not checked" in page.text
    ProcessSign.objects.create(name="here:1", part="web", machine="here", at=timezone.now(), waiting=3)
    page = browser.get(reverse("alarms", args=["support"]))
    assert "alarms are not checked" not in page.text
    assert "here:1" in page.text


def test_an_admin_sees_what_each_process_holds(pool: Any, person: Callable[[str], User]) -> None:
    watch.Watch("train").sign()
    sign = ProcessSign.objects.get()
    sign.loaded, sign.state = (
        ["support-7", "<other>-1"],
        [["Questions for shadows", 12, 1_000], ["Pools", 3, "one <each>"]],
    )
    sign.save()
    path = reverse("health_page", args=["support"])
    client = signed_in(person("admin"))
    page = client.get(path).text
    assert "support-7, &lt;other&gt;-1" in page
    for held in ("Questions for shadows", '<td class="rw-number">12</td><td>1,000</td>', "one &lt;each&gt;"):
        assert held in page, held
    client.force_login(person("ops"))
    assert "support-7" not in client.get(path).text, "it names models of every pool"


def test_the_health_of_the_process(pool: Any, browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    path = reverse("health_page", args=["support"])
    page = browser.get(path)
    assert "models that are up to date" in page.text
    assert f":{os.getpid()}" in page.text
    assert "Off (TRACES)" in page.text
    seen = health.of_this_process(("support",))
    assert seen.memory > 10e6
    assert seen.threads >= 1
    assert seen.running is None or 0 < seen.running < 86_400
    known = {"database": "away", "stamp_age_seconds": 7.25, "models": {"support": None, "other": "other-1"}}
    problems = {"support": "support-2 was <refused>", "other": "MARKER"}
    monkeypatch.setattr(serving, "health", lambda: {**known, "problems": problems})
    page = browser.get(path)
    assert "something is wrong" in page.text
    assert "support-2 was &lt;refused&gt;" in page.text
    assert "Away" in page.text
    assert "other-1" not in page.text
    assert "MARKER" not in page.text


def test_an_alarm_shows_its_evidence_and_is_muted_and_told_again(pool: Any, browser: Client) -> None:
    alarm = alarms.hold(Alarm.Kind.RUNS, "The last run <failed>.", [["Run 1", "out & over"]], pool)[0]
    page = browser.get(reverse("alarms", args=["support"]))
    assert "The last run &lt;failed&gt;." in page.text
    assert "out &amp; over" in page.text
    path = reverse("alarm_mute", args=["support", alarm.pk])
    assert "muted until" in browser.post(path, {"hours": "8"}, follow=True).text
    assert "Muted" in browser.get(reverse("alarms", args=["support"])).text
    assert "is no longer muted" in browser.post(path, {"hours": "0"}, follow=True).text
    assert "Choose one of the times" in browser.post(path, {"hours": "99999"}, follow=True).text


def test_another_pools_alarm_cannot_be_muted_here(pool: Any, browser: Client) -> None:
    from agents_app import pools

    other = alarms.hold(Alarm.Kind.RUNS, "Failed.", [], pools.create_pool("Other", "other", actor=None))[0]
    assert browser.post(reverse("alarm_mute", args=["support", other.pk]), {"hours": "8"}).status_code == 404


def test_an_alarm_of_the_site_offers_no_muting_to_ops_of_one_pool(pool: Any, person: Any, browser: Client) -> None:
    here = person("nobody")
    PoolRole.objects.create(user=here, pool=pool, role="ops")
    alarms.hold(Alarm.Kind.QUEUE, "Jobs wait.", [])
    client, path = Client(), reverse("alarms", args=["support"])
    client.force_login(here)
    assert "Ops of all pools can mute it." in client.get(path).text
    assert "Tell nobody for" in browser.get(path).text


def test_a_webhook_is_added_with_its_secret_shown_once(pool: Any, browser: Client, receiver: Any) -> None:
    path = reverse("settings_alarms", args=["support"])
    assert "Nobody is told yet" in browser.get(path).text
    page = browser.post(path, {"kind": "webhook", "address": receiver.url})
    made = AlarmReceiver.objects.get()
    assert deliveries.secret_of(made) in page.text
    assert "no-store" in page["Cache-Control"]
    again = browser.get(path).text
    assert deliveries.secret_of(made) not in again
    assert "localhost" in again


def test_a_refused_address_stays_in_its_field_with_the_reason(pool: Any, browser: Client) -> None:
    page = browser.post(
        reverse("settings_alarms", args=["support"]), {"kind": "webhook", "address": "http://example.com/"}
    )
    assert 'value="http://example.com/"' in page.text
    assert "must begin with https://" in page.text
    assert (
        browser.post(reverse("settings_alarms", args=["support"]), {"kind": "pigeon", "address": "x"}).status_code
        == 200
    )
    assert not AlarmReceiver.objects.exists()


def test_a_test_is_sent_and_its_answer_shown(browser: Client, webhook: Any, receiver: Any) -> None:
    path = reverse("receiver_test", args=["support", webhook.pk])
    assert "200 thank you" in browser.post(path, follow=True).text
    assert json.loads(receiver.got[0][1])["event"] == "test"
    receiver.status = 500
    assert "did not get through" in browser.post(path, follow=True).text


def test_a_receiver_is_removed_and_brought_back_with_its_secret(browser: Client, webhook: Any) -> None:
    secret = deliveries.secret_of(webhook)
    page = browser.post(reverse("receiver_remove", args=["support", webhook.pk]), follow=True)
    undo = reverse("receiver_restore", args=["support", webhook.pk])
    assert undo in page.text
    assert "was removed" in browser.post(reverse("receiver_test", args=["support", webhook.pk]), follow=True).text
    browser.post(undo)
    assert deliveries.secret_of(AlarmReceiver.objects.get(removed_at=None)) == secret
    assert AuditEntry.objects.filter(action="alarm_receiver.restored").exists()


def test_drift_says_what_is_missing(pool: Any, browser: Client, run: Run, make_model: Any) -> None:
    path = reverse("drift", args=["support"])
    assert "no active model" in browser.get(path).text
    registry.promote(make_model(), actor=None)
    assert "Nothing to compare with yet" in browser.get(path).text
    looked = browser.post(reverse("drift_look", args=["support"]), follow=True).text
    assert "support-1 was imported, without the queries that it was judged on." in looked
    registry.promote(registry.register(run, pool, artifact(), {}), actor=None)
    young = browser.get(path).text
    held = run.snapshot.split_sizes["val"] + run.snapshot.split_sizes["test"]
    assert f"{held} queries were held back from training support-2, and a comparison takes 50" in young
    assert "Its first 100 different queries become what later ones are compared with; it has answered 0." in young
    sizes = {**run.snapshot.split_sizes, "test": 50}
    type(run.snapshot).objects.filter(pk=run.snapshot_id).update(split_sizes=sizes)
    assert "Not enough queries yet" in browser.get(path).text
    assert "too few" in browser.post(reverse("drift_accept", args=["support"]), follow=True).text


def test_drift_that_was_not_looked_at_says_so(pool: Any, browser: Client, make_model: Any) -> None:
    model = make_model()
    registry.promote(model, actor=None)
    Decision.objects.bulk_create(
        Decision(
            pool=pool, model=model, text=f"query {number}", agents=[], scores={}, confidence=1, steps=1, stop_reason="none",
            microseconds=1,
        )
        for number in range(500)
    )  # fmt: skip
    page = browser.get(reverse("drift", args=["support"])).text
    assert "Not looked at yet" in page
    assert "support-1 routed 500 different queries" in page


def drifting(model: RouterModel) -> DriftPoint:
    counts = {"novelty": [5] * 20, "abstained": [90, 10]}
    DriftReference.objects.create(
        model=model, source="snapshot", texts=100, counts=counts, means={"novelty": 0.1, "abstained": 0.1}
    )
    measures = {
        name: {
            "live": 0.4,
            "reference": 0.1,
            "distance": 0.3,
            "limit": 0.12,
            "drifts": name == "novelty",
            "counts": values,
        }
        for name, values in counts.items()
    }
    return DriftPoint.objects.create(
        model=model, since=timezone.now(), texts=100, measures=measures, words=[["fax", 7]], drifts=True
    )


def test_drift_is_drawn_with_words_and_curves(pool: Any, browser: Client, make_model: Any) -> None:
    model = make_model()
    registry.promote(model, actor=None)
    drifting(model)
    page = browser.get(reverse("drift", args=["support"])).text
    assert "unknown words" in page
    assert "fax" in page
    assert page.count("data-rw-chart=") == 3
    assert "spread-abstained" not in page
    assert "Use recent traffic as the new reference" in page
    waits = "An alarm opens if newer queries differ in the same way."
    assert waits in page
    alarms.hold(Alarm.Kind.DRIFT, "Recent queries differ.", [], pool)
    assert waits not in browser.get(reverse("drift", args=["support"])).text


def test_a_webhook_for_unsure_decisions_shows_its_secret_once_and_what_it_was_sent(
    browser: Client, receiver: Any, pool: Pool
) -> None:
    path = reverse("settings_alarms", args=["support"])
    page = browser.post(path, {"kind": "unsure", "address": receiver.url}).content.decode()
    secret = deliveries.secret_of(AlarmReceiver.objects.get())
    assert secret in page
    fields = {"agents": [1], "scores": {"1": 0.3}, "steps": 1, "stop_reason": "stop", "microseconds": 90}
    unsure = Decision.objects.create(pool=pool, text="where is it", confidence=0.2, **fields)
    assert unsure_decisions.tell_all() == 1
    page = browser.get(path).content.decode()
    assert reverse("decision", args=["support", unsure.pk]) in page
    assert secret not in page
    assert "where is it" not in page
