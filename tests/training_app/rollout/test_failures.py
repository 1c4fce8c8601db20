"""Failures on their way to the labeling queue, and success over time."""

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from datasets_app.labeling import queue
from datasets_app.models import Query, QueueItem
from datasets_app.models.labeling import QueueSettings
from tests.training_app.served import promoted
from training_app.answering import decisions
from training_app.models import Decision, Outcome
from training_app.rollout import outcome_figures, outcomes

pytestmark = pytest.mark.django_db


def report(app, decision: str, success: bool, **body: object) -> None:
    assert app.post("/api/outcomes/", {"decision_id": decision, "success": success, **body}).status_code in (200, 201)


@pytest.mark.both_databases
def test_failures_are_asked_about_once_with_their_comment(app, model, live, person, client) -> None:
    live(failures=True)
    failed = app.route("my billing is wrong").json()["decision_id"]
    report(app, failed, False, comment="billing  was\nenough")
    report(app, app.route("shipping").json()["decision_id"], True)
    assert outcomes.offer_failures() == 0, "its decision is not written yet"
    decisions.buffer.write()
    assert outcomes.offer_failures() == 1
    query = Query.objects.get()
    assert (query.text, query.origin) == ("my billing is wrong", "reported failure")
    item = QueueItem.objects.get(agent=None)
    assert item.note == "An application reported a failure: billing was enough"
    assert item.taken < item.needed
    assert outcomes.offer_failures() == 0
    client.force_login(person("labeler"))
    page = client.get("/p/support/label/").content.decode()
    assert item.note in page
    assert "an application reported a failure ·" in page


def test_a_blind_item_gives_nothing_away(app, model, live, person, client) -> None:
    live(failures=True)
    queue.stored_settings(model.pool)
    QueueSettings.objects.update(blind_share=1.0)
    report(app, app.route("my billing is wrong").json()["decision_id"], False, comment="billing was enough")
    decisions.buffer.write()
    assert outcomes.offer_failures() == 1
    client.force_login(person("labeler"))
    page = client.get("/p/support/label/").content.decode()
    assert "my billing is wrong" in page
    assert "billing was enough" not in page
    assert "reported" not in page


def test_a_labeled_query_is_asked_about_again(app, model, live) -> None:
    live(failures=True)
    outcomes.send_to_labeling(model.pool, "my billing is wrong", "import")
    QueueItem.objects.update(needed=0, wanted=False)
    report(app, app.route("my billing is wrong").json()["decision_id"], False)
    decisions.buffer.write()
    assert outcomes.offer_failures() == 1
    item = QueueItem.objects.get()
    assert (item.note, item.wanted, item.needed > item.taken) == ("An application reported a failure.", True, True)


def test_a_day_has_its_bound_and_only_pools_that_want_it(app, model, live) -> None:
    for number in range(4):
        report(app, app.route(f"billing {number}").json()["decision_id"], False)
    decisions.buffer.write()
    assert outcomes.offer_failures() == 0
    live(failures=True, failures_per_day=3)
    assert outcomes.offer_failures() == 3
    assert outcomes.offer_failures() == 0
    Outcome.objects.filter(asked=True).update(at=timezone.now() - timedelta(hours=25))
    assert outcomes.offer_failures() == 1


# --- Success over time --------------------------------------------------------------------------------------------


def test_success_by_model_agent_and_day(app, model) -> None:
    first = [app.route(text).json()["decision_id"] for text in ("billing", "billing and shipping", "hello")]
    promoted(model.pool, (0, "Billing"))
    later = app.route("billing").json()["decision_id"]
    decisions.buffer.write()
    Decision.objects.filter(pk__in=first).update(at=timezone.now() - timedelta(days=2))
    for decision, success, rating in zip([*first, later], (True, False, True, False), (5, 1, None, None), strict=True):
        report(app, decision, success, rating=rating)
    report(app, str(uuid.uuid4()), True)
    found = outcome_figures.read(model.pool)
    assert (found.count, found.waiting) == (5, 1)
    assert [(row.name, row.count, row.success["mean"], row.rating) for row in found.by_model] == [
        ("support-2", 1, 0.0, None),
        ("support-1", 3, pytest.approx(2 / 3), 3.0),
    ]
    assert [(row.name, row.count, row.success["mean"]) for row in found.by_agent] == [
        ("Billing", 3, pytest.approx(1 / 3)),
        ("Shipping", 1, 0.0),
    ]
    lines = {line["label"]: line["data"] for line in found.chart["datasets"]}
    assert lines == {"support-2": [None, None, 0.0], "support-1": [0.6667, None, None]}
    assert len(found.chart["labels"]) == 3
    lines = {line["label"]: line["data"] for line in found.agent_chart["datasets"]}
    assert lines == {"Billing": [0.5, None, 0.0], "Shipping": [0.0, None, None]}


def test_one_day_draws_no_curve_and_old_outcomes_are_left_out(app, model) -> None:
    report(app, app.route("billing").json()["decision_id"], True)
    decisions.buffer.write()
    assert outcome_figures.read(model.pool).chart is None
    Outcome.objects.update(at=timezone.now() - timedelta(days=31))
    assert outcome_figures.read(model.pool).count == 0
