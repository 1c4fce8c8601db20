"""Receivers by HTTP: listed, added with a secret that is shown once, removed; what is refused."""

import json
from typing import Any

import pytest

from agents_app.models import AuditEntry, Pool
from tests.training_app.served import Application, application
from training_app.api.schema import document
from training_app.models import AlarmReceiver
from training_app.watching import deliveries


@pytest.fixture
def app(pool: Pool) -> Application:
    return application(pool, scopes=("ops",))


def test_a_webhook_is_added_with_its_secret_listed_without_it_and_removed(
    app: Application, receiver: Any, pool: Pool
) -> None:
    answer = app.post("/api/receivers/", {"pool": "support", "kind": "unsure", "address": receiver.url})
    assert answer.status_code == 201
    made = AlarmReceiver.objects.get()
    added = answer.json()
    schemas = json.loads(document())["components"]["schemas"]
    assert set(added) == set(schemas["NewReceiver"]["required"])
    assert added["secret"] == deliveries.secret_of(made)
    assert (made.kind, made.pool, made.address) == ("unsure", pool, receiver.url)
    (listed,) = app.get("/api/receivers/?pool=support").json()["receivers"]
    assert listed == {name: added[name] for name in ("id", "kind", "address", "created_at")}
    assert app.post(f"/api/receivers/{made.pk}/remove/", {}).json() == listed
    assert app.get("/api/receivers/").json()["receivers"] == []
    assert app.post(f"/api/receivers/{made.pk}/remove/", {}).status_code == 404
    actions = AuditEntry.objects.filter(actor_name="key test").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["alarm_receiver.added", "alarm_receiver.removed"]


def test_an_address_by_mail_has_no_secret(app: Application) -> None:
    answer = app.post("/api/receivers/", {"kind": "email", "address": "ann@example.com"})
    assert (answer.status_code, answer.json()["secret"]) == (201, "")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"kind": "pigeon", "address": "https://example.com/"}, "kind"),
        ({"kind": "unsure", "address": "http://example.com/"}, "address"),
        ({"kind": "unsure", "address": "https://10.0.0.1/"}, "address"),
        ({"kind": "unsure"}, "address"),
    ],
)
def test_what_cannot_be_told_is_refused_by_its_field(app: Application, body: dict[str, str], field: str) -> None:
    answer = app.post("/api/receivers/", body)
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, field)
    assert not AlarmReceiver.objects.exists()


def test_another_pools_receiver_is_not_there(app: Application, ops: Any) -> None:
    other = deliveries.add_receiver(Pool.objects.create(slug="other", name="Other"), "email", "a@example.com", ops)
    assert app.post(f"/api/receivers/{other.pk}/remove/", {}).status_code == 404
    assert app.get("/api/receivers/?pool=other").status_code == 403
