"""Pages: one API key, its rotation and its quota."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from agents_app import keys, pools
from agents_app.models import ApiKey, KeyMonth, Pool, PoolRole
from tests.clients import signed_in

pytestmark = pytest.mark.django_db


@pytest.fixture
def key(pool: Pool) -> ApiKey:
    return keys.create_key("Shop", [pool], ["route"])[0]


def path(key: ApiKey, what: str = "") -> str:
    return f"/p/support/settings/keys/{key.pk}/{what}"


def test_a_new_secret_is_shown_once_and_the_old_one_goes_on(ops: Client, key: ApiKey) -> None:
    before = key.prefix
    answer = ops.post(path(key, "rotate/"), {"grace": "24h", "days": ""})
    secret = answer.context["secret"]
    assert secret in answer.text
    assert "no-store" in answer["Cache-Control"]
    key.refresh_from_db()
    assert key.digest == ApiKey.digest_of(secret)
    assert (key.old_prefix, key.expires_at) == (before, None)
    again = ops.get(path(key)).text
    assert secret not in again
    assert "the old secret: 24h" in again
    assert f"{before}…" in again
    assert "End it now" in again
    assert ops.post(path(key, "end-old/"), follow=True).status_code == 200
    assert "End it now" not in ops.get(path(key)).text


def test_a_new_term_is_proposed_where_the_key_had_one(ops: Client, pool: Pool) -> None:
    key, _secret = keys.create_key("Shop", [pool], ["route"], expires_at=timezone.now() + timedelta(days=5))
    page = ops.get(path(key))
    assert "It expires soon" in page.text
    assert page.context["rotation_form"].initial["days"] == 5
    ops.post(path(key, "rotate/"), {"grace": "now", "days": "90"})
    key.refresh_from_db()
    assert key.expires_at is not None
    assert key.expires_at > timezone.now() + timedelta(days=89)


def test_what_cannot_be_rotated_says_why(ops: Client, admin: Client, pool: Pool, key: ApiKey, person) -> None:
    assert "a year" in ops.post(path(key, "rotate/"), {"grace": "a year"}).text
    assert key.prefix == ApiKey.objects.get(pk=key.pk).prefix
    label, _secret = keys.create_key("Slack", [pool], ["label"], person("admin"))
    assert "labels as admin@example.com" in ops.post(path(label, "rotate/"), {"grace": "1h"}).text
    keys.revoke(key, None)
    assert "Only a key that works" in ops.post(path(key, "rotate/"), {"grace": "1h"}).text


def test_a_quota_is_set_drawn_and_taken_back(ops: Client, key: ApiKey) -> None:
    assert ops.post(path(key), {"queries": "1000", "characters": ""}).status_code == 302
    begins, _ends = KeyMonth.span(timezone.now().timestamp())
    KeyMonth.objects.create(api_key=key, month=begins.date(), queries=850)
    page = ops.get(path(key)).text
    assert "850 of 1,000 queries, 150 left" in page
    assert 'value="850"' in page
    assert "85\u202f%" in ops.get("/p/support/settings/keys/").text
    assert "greater than or equal to 1" in ops.post(path(key), {"queries": "0", "characters": ""}).text
    ops.post(path(key), {"queries": "", "characters": ""})
    key.refresh_from_db()
    assert key.quota is None


def test_a_key_of_other_pools_too_is_read_and_not_changed(pool: Pool, client_of: Callable[[str], Client]) -> None:
    other = pools.create_pool("Other")
    key, _secret = keys.create_key("Both", [pool, other], ["route"])
    olga = User.objects.create_user("olga", "olga@example.com", "a long enough one", is_staff=True)
    PoolRole.objects.create(user=olga, pool=pool, role="ops")
    client = signed_in(olga)
    page = client.get(path(key))
    assert page.status_code == 200
    assert "Make a new secret" not in page.text
    assert "Other" not in page.text
    assert "key.created" not in page.text
    for what, sent in (("", {"queries": "5"}), ("rotate/", {"grace": "now"}), ("end-old/", {})):
        assert client.post(path(key, what), sent).status_code == 403
    key.refresh_from_db()
    assert (key.rotated_at, key.quota) == (None, None)


def test_the_admins_action_leads_to_the_keys_page(admin: Client, key: ApiKey, pool: Pool) -> None:
    sent = {"action": "rotate", "_selected_action": [key.pk]}
    assert admin.post("/admin/agents_app/apikey/", sent)["Location"] == f"{path(key)}#rotate"
    sent["_selected_action"].append(keys.create_key("Two", [pool], ["route"])[0].pk)
    assert "Choose one key" in admin.post("/admin/agents_app/apikey/", sent, follow=True).text


@pytest.mark.parametrize("number", ["9223372036854775808", "1" * 30, "-1", "²", "x"])
def test_a_pool_that_no_database_could_hold_is_refused(ops: Client, pool: Pool, number: str) -> None:
    answer = ops.post("/p/support/settings/keys/", {"name": "Shop", "scopes": ["route"], "pools": [number]})
    assert answer.status_code < 500
    assert not ApiKey.objects.exists()
