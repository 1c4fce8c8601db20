"""Pages: guidelines, API keys, the pool's details."""

import re
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from agents_app import keys, pools
from agents_app.guidelines import rendered
from agents_app.models import ApiKey, Pool
from tests import page_cost

HTMX = {"HX-Request": "true"}
pytestmark = pytest.mark.django_db


def test_guidelines_are_saved_and_shown(ops: Client, pool: Pool) -> None:
    assert ops.post("/p/support/settings/", {"guidelines": "## Rules\n- one"}).status_code == 302
    pool.refresh_from_db()
    assert pool.guidelines == "## Rules\n- one"
    assert "<h2>Rules</h2>" in ops.get("/p/support/settings/").content.decode()


def test_a_preview_saves_nothing(ops: Client, pool: Pool) -> None:
    fragment = ops.post("/p/support/settings/", {"guidelines": "**bold**"}, headers=HTMX).content.decode()
    assert "<strong>bold</strong>" in fragment
    assert "<html" not in fragment
    page = ops.post("/p/support/settings/", {"guidelines": "**bold**", "preview": "1"}).content.decode()
    assert "<strong>bold</strong>" in page
    pool.refresh_from_db()
    assert pool.guidelines == ""


@pytest.mark.parametrize(
    "evil",
    [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "[x](javascript:alert(1))",
        '<a href="https://example.com" onclick="alert(1)">x</a>',
        "<iframe src='https://example.com'></iframe>",
        "<svg onload=alert(1)>",
        "<p style='position:fixed'>x</p>",
    ],
)
def test_guidelines_cannot_carry_scripts(evil: str) -> None:
    shown = rendered(evil).lower()
    for word in ("script", "onerror", "onclick", "onload", "iframe", "style=", "<svg", "<img"):
        assert word not in shown


def test_guidelines_keep_what_they_need() -> None:
    shown = rendered(
        "# Title\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\ncode\n```\n\n[site](https://example.com)\n\nline\nbreak"
    )
    for piece in ("<h1>Title</h1>", "<td>1</td>", "<code>code", 'href="https://example.com"', 'rel="noopener', "<br>"):
        assert piece in shown


def test_a_new_keys_secret_is_shown_once_with_its_curl(ops: Client, pool: Pool) -> None:
    form = {"name": "Shop", "scopes": ["route"], "pools": [pool.pk], "days": "30"}
    answer = ops.post("/p/support/settings/keys/", form)
    page = answer.content.decode()
    found = re.search(r'<code id="secret">(rw_[\w-]{43})</code>', page)
    assert found
    secret = found.group(1)
    key = ApiKey.objects.get()
    assert key.digest == ApiKey.digest_of(secret)
    assert key.created_by is not None
    assert key.created_by.username == "ops@example.com"
    assert key.expires_at is not None
    assert timedelta(days=29) < key.expires_at - timezone.now() <= timedelta(days=30)
    assert f"Authorization: Bearer {secret}" in page
    assert "http://testserver/api/route/" in page
    assert "no-store" in answer["Cache-Control"]
    again = ops.get("/p/support/settings/keys/").content.decode()
    assert secret not in again
    assert key.digest not in again
    assert key.prefix in again
    assert secret not in str(dict(ops.session))
    assert "OTEL_EXPORTER" not in page


def test_a_new_key_for_traces_shows_how_an_exporter_sends_them(ops: Client, pool: Pool) -> None:
    form = {"name": "Collector", "scopes": ["traces"], "pools": [pool.pk]}
    page = ops.post("/p/support/settings/keys/", form).content.decode()
    secret = re.findall(r'<code id="secret">(rw_[\w-]{43})</code>', page)[0]
    assert 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="http://testserver/v1/traces?pool=support"' in page
    assert f'OTEL_EXPORTER_OTLP_TRACES_HEADERS="Authorization=Bearer%20{secret}"' in page
    assert "curl" not in page


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": " "}, "name"),
        ({"scopes": ["root"]}, "scopes"),
        ({"pools": []}, "pools"),
        ({"days": "0"}, "days"),
    ],
)
def test_a_bad_key_is_told_beside_its_field(ops: Client, pool: Pool, change: dict[str, object], field: str) -> None:
    form = {"name": "Shop", "scopes": ["route"], "pools": [pool.pk], "days": "", **change}
    answer = ops.post("/p/support/settings/keys/", form)
    assert field in answer.context["form"].errors
    assert not ApiKey.objects.exists()


def test_a_key_labels_for_who_makes_it_whatever_is_posted(admin: Client, ops: Client, pool: Pool, person) -> None:
    ana, maker = person("labeler"), person("admin")
    form = {"name": "Slack", "scopes": ["label"], "pools": [pool.pk], "days": "", "labels_as": ana.pk}
    assert (
        f"as {maker.username.replace('@', '@<wbr>')}" in admin.post("/p/support/settings/keys/", form).content.decode()
    )
    assert ApiKey.objects.get().person == maker
    ops.post("/p/support/settings/keys/", {**form, "name": "Desk"})
    assert ApiKey.objects.get(name="Desk").person != ana


def test_revoking_asks_first_and_only_in_the_keys_own_pool(ops: Client, pool: Pool) -> None:
    key, _secret = keys.create_key("Shop", [pool], ["route"])
    pools.create_pool("Other")
    path = f"/p/support/settings/keys/{key.pk}/revoke/"
    assert ops.get(f"/p/other/settings/keys/{key.pk}/revoke/").status_code == 404
    assert "Revoke the key" in ops.get(path).content.decode()
    key.refresh_from_db()
    assert key.revoked_at is None
    assert ops.post(path).status_code == 302
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert "was revoked before" in ops.post(path, follow=True).content.decode()


def test_the_list_of_keys_costs_the_same_however_many(
    ops: Client, pool: Pool, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    keys.create_key("First", [pool], ["route"])
    ops.get("/p/support/settings/keys/")
    with django_assert_num_queries(page_cost.queries(11)):
        ops.get("/p/support/settings/keys/")
    for n in range(10):
        keys.create_key(f"Key {n}", [pool], ["route"])
    with django_assert_num_queries(page_cost.queries(11)):
        ops.get("/p/support/settings/keys/")


def test_the_words_for_a_key(ops: Client, pool: Pool) -> None:
    keys.create_key("Live", [pool], ["route"])
    keys.revoke(keys.create_key("Off", [pool], ["route"])[0], None)
    old, _secret = keys.create_key("Old", [pool], ["route"])
    ApiKey.objects.filter(pk=old.pk).update(expires_at=timezone.now() - timedelta(days=1))
    rows = ops.get("/p/support/settings/keys/").context["rows"]
    assert {row["key"].name: row["state"] for row in rows} == {"Live": "active", "Off": "revoked", "Old": "expired"}


def test_the_pools_details_change_but_not_its_slug(ops: Client, pool: Pool) -> None:
    assert (
        ops.post("/p/support/settings/pool/", {"name": "Care", "description": "x", "slug": "care"}).status_code == 302
    )
    pool.refresh_from_db()
    assert (pool.name, pool.slug, pool.description) == ("Care", "support", "x")
    assert "name" in ops.post("/p/support/settings/pool/", {"name": " "}).context["form"].errors
