"""Groups by SCIM: their members have the role that the group gives, for as long as they are in it."""

import pytest
from django.contrib.auth.models import User

from agents_app import pools
from agents_app.access import roles_of
from agents_app.accounts import people
from agents_app.models import AuditEntry, Pool, PoolRole, ScimGroup
from agents_app.scim import groups
from agents_app.scim.schemas import GROUP
from tests.agents_app.scim.conftest import Provider

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def pool(db: None) -> Pool:
    return pools.create_pool("Support", "support")


def role(name: str) -> str | None:
    return people.role_of(User.objects.get(username=name))


def test_a_name_says_which_role_and_where(pool: Pool) -> None:
    names = (
        "routerweb-ops",
        "Routerweb-Admin",
        "routerweb-support-labeler",
        "routerweb-support-admin",
        "routerweb-nowhere-ops",
        "ops",
    )
    assert [groups.role_of_name(name) for name in names] == [
        ("ops", None), ("admin", None), ("labeler", pool), ("", None), ("", None), ("", None),
    ]  # fmt: skip


def test_members_have_the_role_while_they_are_members(provider: Provider, pool: Pool) -> None:
    ana, ben = provider.person("ana"), provider.person("ben")
    team = provider.group("routerweb-labeler", ana)
    assert (role("ana"), role("ben")) == ("labeler", None)
    path = f"Groups/{team['id']}"
    # Entra adds, and takes out by a path; Okta takes out by a path and replaces them all.
    assert provider.patch(path, {"op": "Add", "path": "members", "value": [{"value": ben["id"]}]}).status_code == 200
    assert role("ben") == "labeler"
    provider.patch(path, {"op": "Remove", "path": f'members[value eq "{ana["id"]}"]'})
    assert role("ana") is None
    provider.patch(path, {"op": "Remove", "path": "members", "value": [{"value": ben["id"]}]})
    assert role("ben") is None
    provider.patch(path, {"op": "replace", "value": {"id": team["id"], "displayName": "routerweb-labeler"}},
                   {"op": "replace", "path": "members", "value": [{"value": ana["id"]}]})  # fmt: skip
    assert role("ana") == "labeler"
    assert [one["display"] for one in provider.get(f"Users/{ana['id']}")["groups"]] == ["routerweb-labeler"]
    assert (
        "members"
        not in provider.get("Groups", excludedAttributes="members", filter='displayName eq "Routerweb-Labeler"')[
            "Resources"
        ][0]
    )
    provider.send("put", path, {"schemas": [GROUP], "displayName": "routerweb-labeler"})
    assert role("ana") is None
    entry = AuditEntry.objects.filter(action="scim_group.members").order_by("pk").first()
    assert entry is not None
    assert (entry.actor_name, entry.detail["added"]) == ("SCIM Okta", ["ana"])


def test_of_several_roles_in_one_place_the_strongest_counts(provider: Provider, pool: Pool) -> None:
    ana = provider.person("ana")
    ops, labelers = provider.group("routerweb-ops", ana), provider.group("routerweb-labeler", ana)
    provider.group("routerweb-support-reviewer", ana)
    assert role("ana") == "ops"
    assert PoolRole.objects.get().role == "reviewer"
    assert provider.send("delete", f"Groups/{ops['id']}").status_code == 204
    assert role("ana") == "labeler"
    provider.send("delete", f"Groups/{labelers['id']}")
    assert role("ana") is None
    assert {str(one) for one in roles_of(User.objects.get(username="ana"), pool)} == {"labeler", "reviewer"}


def test_what_a_hand_gave_stays(provider: Provider) -> None:
    ana = provider.person("ana")
    people.set_role(User.objects.get(username="ana"), "reviewer", None)
    other = provider.group("Everybody", ana)
    provider.send("delete", f"Groups/{other['id']}")
    assert role("ana") == "reviewer"
    team = provider.group("routerweb-labeler", ana)
    assert role("ana") == "labeler"
    people.set_role(User.objects.get(username="ana"), "ops", None)
    provider.send("delete", f"Groups/{team['id']}")
    assert role("ana") == "ops", "a hand has changed it since"


def test_an_admin_says_what_another_group_gives(provider: Provider, pool: Pool) -> None:
    ana = provider.person("ana")
    provider.group("Routing people", ana)
    assert role("ana") is None
    group = ScimGroup.objects.get()
    groups.set_role(group, "ops", pool, None)
    assert PoolRole.objects.get().role == "ops"
    groups.set_role(group, "reviewer", None, None)
    assert (role("ana"), PoolRole.objects.exists()) == ("reviewer", False)
    with pytest.raises(groups.GroupRefused, match="for all pools"):
        groups.set_role(group, "admin", pool, None)
    with pytest.raises(groups.GroupRefused, match="not a role"):
        groups.set_role(group, "king", None, None)
    # A rename in the directory gives nobody a role.
    provider.patch(f"Groups/{group.uid}", {"op": "replace", "path": "displayName", "value": "routerweb-admin"})
    assert role("ana") == "reviewer"


def test_the_last_admin_is_not_taken_out(provider: Provider) -> None:
    ana = provider.person("ana@example.com")
    team = provider.group("routerweb-admin", ana)
    User.objects.filter(username="ana@example.com").update(last_login="2026-01-01T00:00:00Z")
    for answer in (
        provider.send("delete", f"Groups/{team['id']}"),
        provider.patch(f"Groups/{team['id']}", {"op": "remove", "path": "members"}),
        provider.send("delete", f"Users/{ana['id']}"),
    ):
        assert (answer.status_code, "last active admin" in answer.json()["detail"]) == (409, True)
    assert role("ana@example.com") == "admin"
    assert len(provider.get(f"Groups/{team['id']}")["members"]) == 1


def test_a_superuser_is_not_changed_by_a_group(provider: Provider) -> None:
    User.objects.create_superuser("root", "root@example.com", "a long enough one")
    (root,) = provider.get("Users", filter='userName eq "root"')["Resources"]
    provider.group("routerweb-labeler", root)
    assert role("root") == "admin"
    assert User.objects.get(username="root").is_superuser


def test_a_member_nobody_knows_is_refused_whole(provider: Provider) -> None:
    ana = provider.person("ana")
    members = [{"value": ana["id"]}, {"value": "019a9f3e-5d0a-7c31-9f0e-4a1b6c2d8e7f"}]
    answer = provider.send("post", "Groups", {"schemas": [GROUP], "displayName": "routerweb-ops", "members": members})
    assert (answer.status_code, "019a9f3e" in answer.json()["detail"]) == (400, True)
    assert not ScimGroup.objects.exists()
    assert role("ana") is None


def test_a_name_is_one_groups(provider: Provider) -> None:
    provider.group("Routers", externalId="g-1")
    answer = provider.send("post", "Groups", {"schemas": [GROUP], "displayName": "ROUTERS"})
    assert (answer.status_code, answer.json()["scimType"]) == (409, "uniqueness")
    assert provider.get("Groups", filter='externalId eq "g-1"')["totalResults"] == 1
