"""Outcomes of decisions over the API, success by model, and sending queries to labeling."""

import uuid
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from agents_app import pools
from agents_app.models import Pool
from datasets_app.labeling import queue
from datasets_app.models import Label, Query, QueueItem, QueueSettings
from tests.training_app.served import Application, application, promoted
from training_app.answering import decisions
from training_app.models import Decision, Outcome, RouterModel, Scorecard
from training_app.rollout import outcomes

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
SOME = "019a9f3e-5d0a-7c31-9f0e-4a1b6c2d8e7f"


def report(app: Application, decision: object, **body: object):
    return app.post("/api/outcomes/", {"decision_id": decision, **body})


@pytest.mark.both_databases
def test_an_outcome_may_come_before_its_decision_and_again(app: Application, model: RouterModel, pool: Pool) -> None:
    decision = app.route().json()["decision_id"]
    assert not Decision.objects.exists()
    answer = report(app, decision, success=False, agents_used=[2, 0, 2], rating=2, comment="no")
    assert (answer.status_code, answer.json()) == (201, {"decision_id": decision, "pool": "support", "new": True})
    decisions.buffer.write()
    assert outcomes.by_model(pool) == [("support-1", 1, 0.0)]
    kept = Outcome.objects.get()
    assert (kept.agents_used, kept.rating, kept.comment, kept.api_key) == ([0, 2], 2.0, "no", app.key)
    answer = report(app, decision, success=True)
    assert (answer.status_code, answer.json()["new"]) == (200, False)
    assert outcomes.by_model(pool) == [("support-1", 1, 1.0)]
    kept.refresh_from_db()
    assert (kept.success, kept.agents_used, kept.comment) == (True, None, "")


def test_success_is_counted_for_each_version(app: Application, model: RouterModel, pool: Pool) -> None:
    first = [app.route().json()["decision_id"] for _ in range(3)]
    promoted(pool, (0, "Billing"))
    second = app.route().json()["decision_id"]
    decisions.buffer.write()
    for decision, success in zip([*first, second, SOME], [True, True, False, False, True], strict=True):
        assert report(app, decision, success=success).status_code == 201
    assert outcomes.by_model(pool) == [("support-2", 1, 0.0), ("support-1", 3, pytest.approx(2 / 3))]


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "missing", "decision_id"),
        ({"decision_id": "x"}, "invalid", "decision_id"),
        ({"decision_id": 3}, "invalid", "decision_id"),
        ({"decision_id": SOME}, "missing", "success"),
        ({"decision_id": SOME, "success": 1}, "invalid", "success"),
        ({"decision_id": SOME, "success": True, "agents_used": "0"}, "invalid", "agents_used"),
        ({"decision_id": SOME, "success": True, "agents_used": [True]}, "invalid", "agents_used"),
        ({"decision_id": SOME, "success": True, "agents_used": [0, 77]}, "invalid", "agents_used"),
        ({"decision_id": SOME, "success": True, "rating": "good"}, "invalid", "rating"),
        ({"decision_id": SOME, "success": True, "rating": True}, "invalid", "rating"),
        ({"decision_id": SOME, "success": True, "rating": 5.5}, "invalid", "rating"),
        ({"decision_id": SOME, "success": True, "rating": -1}, "invalid", "rating"),
        ({"decision_id": SOME, "success": True, "comment": "a\0"}, "invalid", "comment"),
    ],
)
def test_a_bad_report_is_refused(app: Application, model: RouterModel, body: dict, code: str, field: str) -> None:
    answer = app.post("/api/outcomes/", body)
    assert (answer.status_code, answer.json()["error"]["code"], answer.json()["error"]["field"]) == (400, code, field)
    assert not Outcome.objects.exists()


def test_another_pools_decision_is_not_found(app: Application, model: RouterModel) -> None:
    written, waiting = app.route().json()["decision_id"], SOME
    decisions.buffer.write()
    report(app, waiting, success=True)
    stranger = application(pools.create_pool("Other", "other"))
    for decision in (written, waiting):
        assert report(stranger, decision, success=False).status_code == 404
    assert Outcome.objects.get().success is True


def test_it_takes_the_scope_route(pool: Pool) -> None:
    assert report(application(pool, scopes=("ops",)), SOME, success=True).status_code == 403


def test_a_key_of_several_pools_names_one_or_the_decision_tells(
    app: Application, model: RouterModel, pool: Pool
) -> None:
    both = application(pool, pools.create_pool("Other", "other"))
    decision = app.route().json()["decision_id"]
    assert report(both, decision, success=True).json()["error"]["field"] == "pool"
    decisions.buffer.write()
    assert report(both, decision, success=True).json()["pool"] == "support"
    assert report(both, str(uuid.uuid4()), success=True, pool="other").json()["pool"] == "other"


# ---------------------------------------------------------------------------------------------------- pages


@pytest.fixture
def browser(person, client):
    client.force_login(person("ops"))
    return client


def test_a_decision_is_sent_to_labeling_once(app: Application, model: RouterModel, browser) -> None:
    decision = app.route("my billing is wrong").json()["decision_id"]
    decisions.buffer.write()
    report(app, decision, success=False, comment="<b>sent twice</b>")
    page = browser.get(reverse("decision", args=["support", decision])).content.decode()
    assert '<q dir="auto">&lt;b&gt;sent twice&lt;/b&gt;</q>' in page
    assert (
        "The newest outcomes that applications reported"
        in browser.get(reverse("decisions", args=["support"])).content.decode()
    )
    path = reverse("decision_label", args=["support", decision])
    assert browser.get(path).status_code == 405
    assert "was sent to labeling" in browser.post(path, follow=True).content.decode()
    assert "waits to be labeled already" in browser.post(path, follow=True).content.decode()
    query = Query.objects.get()
    assert (query.text, query.origin, query.dataset.name) == ("my billing is wrong", "decision", "Decisions")
    assert QueueItem.objects.get(query=query, agent=None).needed > 0


def test_an_error_of_a_scorecard_is_sent_to_labeling(pool: Pool, model: RouterModel, browser) -> None:
    errors = [{"text": text, "required": [0], "selected": [], "nearest": []} for text in ("pay", "")]
    Scorecard.objects.update(content={"errors": errors})
    path = reverse("model_label_error", args=["support", 1])
    assert "was sent to labeling" in browser.post(path, {"error": "0"}, follow=True).content.decode()
    assert Query.objects.get().text == "pay"
    for place in ("1", "2", "x", ""):
        assert browser.post(path, {"error": place}).status_code == 404


def test_several_errors_are_sent_or_said_to_be_right_at_once(
    pool: Pool, model: RouterModel, browser, person, client
) -> None:
    texts = ("pay", "ship", "help")
    errors = [{"text": text, "required": [0], "selected": [n], "nearest": []} for n, text in enumerate(texts)]
    Scorecard.objects.update(content={"errors": errors})
    path = reverse("model_label_error", args=["support", 1])
    sent = browser.post(path, {"error": ["0", "1"], "do": "send"}, follow=True).content.decode()
    assert "2 queries were sent to labeling." in sent
    admin = person("admin")
    client.force_login(admin)
    said = client.post(path, {"error": ["1", "2"], "do": "accept"}, headers={"HX-Request": "true"}).content.decode()
    assert "2 labels are yours now" in said
    assert "<html" not in said
    made = Label.objects.order_by("pk").values_list("query__text", "required", "author", "provenance__seen_at")
    assert list(made) == [("ship", [1], admin.pk, "run"), ("help", [2], admin.pk, "run")]
    assert client.post(path, {"error": ["0", "7"], "do": "accept"}).status_code == 404


@pytest.mark.parametrize("role", ["labeler", "reviewer"])
def test_other_roles_send_nothing(app: Application, model: RouterModel, person, client, role: str) -> None:
    decision = app.route().json()["decision_id"]
    decisions.buffer.write()
    client.force_login(person(role))
    assert client.post(reverse("decision_label", args=["support", decision])).status_code == 403
    assert client.post(reverse("model_label_error", args=["support", 1]), {"error": "0"}).status_code == 403


# ---------------------------------------------------------------------------------------------------- unsure decisions


@pytest.mark.parametrize("blind", [False, True])
def test_whoever_labels_an_unsure_query_reads_why_it_is_asked_unless_it_is_blind(
    app: Application, model: RouterModel, person, client, blind: bool
) -> None:
    queue.stored_settings(model.pool)
    QueueSettings.objects.update(blind_share=float(blind))
    app.route("perhaps one")
    decisions.buffer.write()
    Decision.objects.update(confidence=0.1)
    assert outcomes.offer_unsure() == 1
    client.force_login(person("labeler"))
    page = client.get("/p/support/label/").content.decode()
    assert "perhaps one" in page
    assert ("the router was unsure of it ·" in page) is not blind


@pytest.mark.both_databases
def test_the_least_sure_are_offered_within_a_bound(app: Application, model: RouterModel, settings) -> None:
    settings.UNSURE_PER_DAY = 3
    for text in ("perhaps one", "perhaps one", "low", "lower", "lowest", "sure", "old"):
        app.route(text)
    decisions.buffer.write()
    for text, confidence in (("low", 0.49), ("lower", 0.3), ("lowest", 0.1), ("sure", 0.5), ("old", 0.0)):
        Decision.objects.filter(text=text).update(confidence=confidence)
    Decision.objects.filter(text="old").update(at=timezone.now() - timedelta(hours=25))
    assert outcomes.offer_unsure() == 3
    assert set(Query.objects.values_list("text", "origin")) == {
        (text, "unsure decision") for text in ("perhaps one", "lowest", "lower")
    }
    assert QueueItem.objects.filter(agent=None, needed__gt=0).count() == 3
    assert outcomes.offer_unsure() == 0
    Query.objects.update(created_at=timezone.now() - timedelta(hours=25))
    assert outcomes.offer_unsure() == 1  # the day's bound is free again, and what is known is not offered twice
    assert Query.objects.filter(text="low").exists()


@pytest.mark.both_databases
def test_a_set_that_the_request_limited_is_not_offered(app: Application, model: RouterModel) -> None:
    for text in ("limited", "within a budget", "sticky", "explored", "plain"):
        app.route(text)
    decisions.buffer.write()
    for text, detail in (
        ("limited", {"options": {"only": [1]}}), ("within a budget", {"options": {"budget": 0.5, "sticky": 0.9}}),
        ("sticky", {"options": {"sticky": 0.9}}), ("explored", {"explored": 1}), ("plain", None),
    ):  # fmt: skip
        Decision.objects.filter(text=text).update(confidence=0.0, detail=detail)
    assert outcomes.offer_unsure() == 3
    assert set(Query.objects.values_list("text", flat=True)) == {"sticky", "explored", "plain"}


def test_none_are_offered_where_nobody_wants_them(app: Application, model: RouterModel, settings) -> None:
    settings.UNSURE_PER_DAY = 0
    app.route("perhaps")
    decisions.buffer.write()
    assert outcomes.offer_unsure() == 0
    assert not Query.objects.exists()
