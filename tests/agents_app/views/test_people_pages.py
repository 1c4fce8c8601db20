"""Pages: people and the audit trail."""

import re
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from agents_app import audit, pools
from agents_app.accounts import people
from agents_app.audit import Actor
from agents_app.models import AuditEntry, Pool, PoolRole

pytestmark = pytest.mark.django_db


def test_inviting_shows_the_link_once(admin: Client) -> None:
    answer = admin.post("/people/", {"email": "ana@example.com", "role": "reviewer"})
    page = answer.content.decode()
    found = re.search(r'<code id="link">(http://testserver/password/set/[^<]+)</code>', page)
    assert found
    assert "No mail server is set up" in page
    assert "no-store" in answer["Cache-Control"]
    assert found.group(1) not in admin.get("/people/").content.decode()
    assert User.objects.get(username="ana@example.com").groups.get().name == "reviewer"


@pytest.mark.parametrize(
    ("form", "field"), [({"email": "x", "role": "ops"}, "email"), ({"email": "a@b.cd", "role": "x"}, "role")]
)
def test_a_bad_invitation_is_told_beside_its_field(admin: Client, form: dict[str, str], field: str) -> None:
    assert field in admin.post("/people/", form).context["form"].errors
    assert User.objects.count() == 1


def test_nobody_is_invited_twice(admin: Client) -> None:
    answer = admin.post("/people/", {"email": "admin@example.com", "role": "ops"})
    assert "has an account already" in answer.context["form"].errors["email"][0]


@pytest.mark.parametrize("role", ["reviewer", "ops", "admin"])
def test_ops_invite_labelers_and_nobody_else(ops: Client, role: str) -> None:
    answer = ops.post("/people/", {"email": "ana@example.com", "role": role})
    assert "role" in answer.context["form"].errors
    assert not User.objects.filter(username="ana@example.com").exists()
    page = ops.post("/people/", {"email": "ana@example.com", "role": "labeler"}).content.decode()
    assert '<code id="link">' in page
    assert User.objects.get(username="ana@example.com").groups.get().name == "labeler"
    assert "Deactivate" not in page
    assert "ops@example.com" not in page[page.index("<main") :], "who else has an account is for admins"


def test_ops_of_one_pool_invite_to_it_alone(person: Callable[[str], User], pool: Pool) -> None:
    other, client, olga = pools.create_pool("Other", "other"), Client(), User.objects.create_user("olga", is_staff=True)
    PoolRole.objects.create(user=olga, pool=pool, role=PoolRole.Role.OPS)
    client.force_login(olga)
    for place in ({}, {"pool": other.slug}):
        answer = client.post("/people/", {"email": "ana@example.com", "role": "labeler", **place})
        assert "pool" in answer.context["form"].errors
    client.post("/people/", {"email": "ana@example.com", "role": "labeler", "pool": pool.slug})
    invited = User.objects.get(username="ana@example.com")
    assert not invited.groups.exists()
    assert [(held.pool, held.role) for held in invited.pool_roles.all()] == [(pool, "labeler")]

    def offered() -> list[tuple[str, str]]:
        return [(str(value), name) for value, name in client.get("/people/").context["form"].fields["pool"].choices]

    assert offered() == [(pool.slug, pool.name)]
    PoolRole.objects.create(user=olga, pool=other, role=PoolRole.Role.OPS)
    assert offered()[0] == ("", ""), "one of several is chosen, and never all"


def test_roles_change_and_the_last_admin_stays(admin: Client, person: Callable[[str], User]) -> None:
    labeler, me = person("labeler"), person("admin")
    admin.post(f"/people/{labeler.pk}/role/", {"role": "reviewer"})
    assert labeler.groups.get().name == "reviewer"
    said = admin.post(f"/people/{labeler.pk}/role/", {"role": "boss"}, follow=True).content.decode()
    assert "Choose one of the roles" in said
    said = admin.post(f"/people/{me.pk}/role/", {"role": "ops"}, follow=True).content.decode()
    assert "last active admin" in said
    assert me.groups.get().name == "admin"
    assert "last active admin" in admin.post(f"/people/{me.pk}/deactivate/", follow=True).content.decode()


def test_deactivating_can_be_undone(admin: Client, person: Callable[[str], User]) -> None:
    labeler = person("labeler")
    page = admin.post(f"/people/{labeler.pk}/deactivate/", follow=True).content.decode()
    assert f'action="/people/{labeler.pk}/activate/"' in page
    labeler.refresh_from_db()
    assert not labeler.is_active
    assert "is deactivated" in admin.post(f"/people/{labeler.pk}/link/", follow=True).content.decode()
    admin.post(f"/people/{labeler.pk}/activate/")
    labeler.refresh_from_db()
    assert labeler.is_active
    assert "/password/set/" in admin.post(f"/people/{labeler.pk}/link/").content.decode()


def test_changes_need_post_and_a_person_who_is_there(admin: Client, person: Callable[[str], User]) -> None:
    for name in ("role", "deactivate", "activate", "link"):
        assert admin.get(f"/people/{person('labeler').pk}/{name}/").status_code == 405
        assert admin.post(f"/people/999999/{name}/").status_code == 404


def test_the_list_of_people_costs_the_same_however_many(
    admin: Client, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(13):
        admin.get("/people/")
    for n in range(12):
        people.invite(f"p{n}@example.com", "labeler", None)
    with django_assert_num_queries(13):
        admin.get("/people/")
    assert len(admin.get("/people/?q=p1").context["people"]) == 3


def test_the_trail_filters_by_person_action_pool_and_day(
    ops: Client, pool: Pool, person: Callable[[str], User]
) -> None:
    AuditEntry.objects.all().delete()
    other = pools.create_pool("Other")
    AuditEntry.objects.all().delete()
    first = audit.record("agent.added", actor=person("ops"), target="one", pool=pool)
    second = audit.record("agent.retired", actor=Actor("load_pool"), target="two", pool=other)
    AuditEntry.objects.filter(pk=first.pk).update(at=datetime(2026, 3, 1, 23, 59, tzinfo=UTC))
    AuditEntry.objects.filter(pk=second.pk).update(at=datetime(2026, 3, 2, 0, 0, tzinfo=UTC))

    def found(query: str) -> list[str]:
        return [entry.target for entry in ops.get(f"/audit/?{query}").context["rows"]]

    assert found("") == ["two", "one"]
    assert found("actor=OPS@") == ["one"]
    assert found("action=agent.retired") == ["two"]
    assert found("action=agent") == ["two", "one"]
    assert found("in=other") == ["two"]
    assert found("from=2026-03-02") == ["two"]
    assert found("to=2026-03-01") == ["one"]
    assert found("from=2026-03-03") == []
    answer = ops.get("/audit/?from=2026-13-99&to=gestern")
    assert len(answer.context["problems"]) == 2


def test_the_trail_pages_and_costs_the_same(
    ops: Client, pool: Pool, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    ops.get("/audit/")
    with django_assert_num_queries(9):
        ops.get("/audit/")
    for n in range(60):
        audit.record("agent.added", actor=None, target=str(n), pool=pool)
    with django_assert_num_queries(9):
        first = ops.get("/audit/?actor=system")
    assert [entry.target for entry in first.context["rows"]][:2] == ["59", "58"]
    page = first.content.decode()
    assert 'href="?actor=system&amp;page=2"' in page
    assert len(ops.get("/audit/?actor=system&page=2").context["rows"]) == 60 + 4 - 50


def test_the_trail_shows_detail_as_text(ops: Client, pool: Pool) -> None:
    audit.record("test.evil", actor=Actor("<b>x</b>"), target="<i>t</i>", detail={"<u>": "<s>"})
    page = ops.get("/audit/").content.decode()
    for piece in ("<b>x</b>", "<i>t</i>", "<u>", "<s>"):
        assert piece not in page
