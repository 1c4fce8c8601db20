"""Roles in one pool: what they open, and what they do not reach."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from agents_app import keys, pools
from agents_app.access import Role, roles_anywhere, roles_of
from agents_app.accounts import people
from agents_app.accounts.people import PeopleError
from agents_app.models import ApiKey, AuditEntry, Pool
from tests.clients import signed_in

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def other(db: None) -> Pool:
    return pools.create_pool("Sales")


@pytest.fixture
def ben(pool: Pool) -> User:
    """Somebody who operates one pool."""
    user = people.invite("ben@example.com", "ops", None, pool=pool).user
    user.set_password("a long enough one")
    user.save()
    return User.objects.get(pk=user.pk)


@pytest.fixture
def browser(ben: User) -> Client:
    return signed_in(ben)


def again(user: User) -> User:
    return User.objects.get(pk=user.pk)


def test_roles_of_all_pools_and_of_one_add_up(
    pool: Pool, other: Pool, person: Callable[[str], User], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    ana = person("labeler")
    people.set_pool_role(ana, pool, "ops", None)
    ana = again(ana)
    with django_assert_num_queries(1):
        assert roles_of(ana, pool) == roles_of(ana, pool.slug) == roles_of(ana, pool.pk) == {Role.LABELER, Role.OPS}
        assert roles_of(ana, other) == roles_of(ana) == {Role.LABELER}
        assert roles_anywhere(ana) == {Role.LABELER, Role.OPS}
    people.set_role(ana, None, None)
    ana = again(ana)
    assert roles_of(ana) == roles_of(ana, other) == frozenset()
    assert roles_of(ana, pool) == {Role.LABELER, Role.OPS}


def test_a_role_in_a_pool_changes_and_goes_and_is_audited(pool: Pool, ben: User) -> None:
    people.set_pool_role(ben, pool, "reviewer", None)
    assert roles_of(again(ben), pool) == {Role.LABELER, Role.REVIEWER}
    people.set_pool_role(ben, pool, None, None)
    people.set_pool_role(ben, pool, None, None)
    assert roles_anywhere(again(ben)) == frozenset()
    told = AuditEntry.objects.filter(action="person.pool_role", pool=pool).order_by("pk")
    assert [entry.detail for entry in told] == [
        {"before": "ops", "role": "reviewer"},
        {"before": "reviewer", "role": None},
    ]
    with pytest.raises(PeopleError, match="The role admin is for all pools"):
        people.set_pool_role(ben, pool, "admin", None)


def test_the_page_of_people_gives_and_takes_it(admin: Client, pool: Pool, other: Pool) -> None:
    sent = {"email": "eva@example.com", "role": "labeler", "pool": pool.slug}
    assert admin.post("/people/", sent).status_code == 200
    eva = User.objects.get(username="eva@example.com")
    assert not eva.groups.exists()
    admin.post(f"/people/{eva.pk}/pool-role/", {"pool": other.slug, "role": "reviewer"})
    assert {(held.pool, held.role) for held in eva.pool_roles.all()} == {(pool, "labeler"), (other, "reviewer")}
    admin.post(f"/people/{eva.pk}/pool-role/", {"pool": pool.slug, "role": ""})
    assert [held.pool for held in eva.pool_roles.all()] == [other]
    assert "Sales: Reviewer" in admin.get("/people/").content.decode()
    said = admin.post(f"/people/{eva.pk}/pool-role/", {"pool": pool.slug, "role": "admin"}, follow=True)
    assert "one of the roles" in said.content.decode()
    refused = admin.post("/people/", {"email": "x@example.com", "role": "admin", "pool": pool.slug})
    assert "The role admin is for all pools" in refused.content.decode()


def test_they_see_their_pool_alone(browser: Client, pool: Pool, other: Pool) -> None:
    home = browser.get("/").content.decode()
    assert f"/p/{pool.slug}/" in home
    assert "Sales" not in home
    assert "New pool" not in home
    assert browser.get(f"/p/{other.slug}/agents/").status_code == 403
    assert browser.get("/p/there-is-none/agents/").status_code == 403  # as for a pool that is not theirs
    listed = browser.get("/pools/").content.decode()
    assert "Support" in listed
    assert "Sales" not in listed
    found = browser.get("/admin/search/", {"extended": 1, "s": "sales"}).content.decode()
    assert "Sales" not in found
    found = browser.get("/admin/search/", {"extended": 1, "s": "billing"}).content.decode()
    assert f"/p/{pool.slug}/agents/" in found


def test_they_make_and_revoke_keys_of_their_pool_alone(browser: Client, ben: User, pool: Pool, other: Pool) -> None:
    page = f"/p/{pool.slug}/settings/keys/"
    assert "Sales" not in browser.get(page).content.decode()
    browser.post(page, {"name": "Shop", "scopes": ["route"], "pools": [pool.pk, other.pk]})
    assert not ApiKey.objects.exists()
    browser.post(page, {"name": "Shop", "scopes": ["route"], "pools": [pool.pk]})
    assert [each.slug for each in ApiKey.objects.get().pools.all()] == [pool.slug]
    with pytest.raises(keys.KeyRefused, match="is not ops of Sales"):
        keys.create_key("Both", [pool, other], ["route"], again(ben))
    both, _secret = keys.create_key("Both", [pool, other], ["route"])
    shown = browser.get(page).content.decode()
    assert "and others" in shown
    assert "Sales" not in shown
    assert browser.post(f"{page}{both.pk}/revoke/").status_code == 403
    both.refresh_from_db()
    assert both.revoked_at is None


def test_a_key_labels_for_them_in_their_pool_alone(pool: Pool, other: Pool) -> None:
    eva = people.invite("eva@example.com", "labeler", None, pool=pool).user
    assert keys.create_key("Tool", [pool], ["label"], labels_as=eva)
    with pytest.raises(keys.KeyRefused, match="has no role that labels"):
        keys.create_key("Tool", [other], ["label"], labels_as=again(eva))
