"""People by SCIM: made, matched, changed in both dialects, closed; and whom it may not touch."""

from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from agents_app import keys, pools
from agents_app.accounts import people
from agents_app.models import ApiKey, AuditEntry, ScimPerson
from agents_app.scim import tokens
from agents_app.scim.schemas import PATCH, USER
from tests.agents_app.scim.conftest import Provider
from tests.clients import signed_in

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
ANA: dict[str, Any] = {
    "externalId": "00u1", "name": {"givenName": "Ana", "familyName": "Lima", "formatted": "Ana Lima"}, "active": True,
    "emails": [{"value": "Ana@Example.com", "type": "work", "primary": True}],
}  # fmt: skip
OKTA = {"op": "replace", "value": {"active": False}}
ENTRA = {"op": "Replace", "path": "active", "value": "False"}


def user(name: str = "ana@example.com") -> User:
    return User.objects.get(username=name)


def test_a_person_comes_and_is_found(provider: Provider) -> None:
    made = provider.person("ana@example.com", **ANA, password="never kept", title="Engineer")
    assert made["meta"]["location"] == f"http://testserver/scim/v2/Users/{made['id']}"
    assert (user().first_name, user().last_name, user().email) == ("Ana", "Lima", "ana@example.com")
    assert (user().is_staff, user().has_usable_password()) == (True, False)
    for question in ('userName eq "ANA@example.com"', 'externalId eq "00u1"', 'emails[type eq "work"].value eq "ana@example.com"',
                     f'id eq "{made["id"]}" and active eq true', 'name.familyName sw "li" or userName eq "nobody"'):  # fmt: skip
        assert [one["id"] for one in provider.get("Users", filter=question)["Resources"]] == [made["id"]], question
    for question in ('externalId eq "00U1"', 'userName eq "nobody"', "not (userName pr)", 'id eq "seven"'):
        assert provider.get("Users", filter=question)["totalResults"] == 0, question
    entry = AuditEntry.objects.get(action="person.provisioned")
    assert (entry.actor_name, entry.target) == ("SCIM Okta", "ana@example.com")


def test_a_name_is_one_persons(provider: Provider) -> None:
    provider.person("ana@example.com", **ANA)
    User.objects.create_user("boss", "boss@example.com")
    for name in ("ANA@example.com", "boss@example.com", "boss"):
        answer = provider.send("post", "Users", {"schemas": [USER], "userName": name})
        assert (answer.status_code, answer.json()["scimType"]) == (409, "uniqueness")
    taken = {"schemas": [USER], "userName": "new", "emails": [{"value": "boss@example.com"}]}
    assert provider.send("post", "Users", taken).status_code == 409


@pytest.mark.parametrize("operation", [OKTA, ENTRA, {"op": "replace", "path": f"{USER}:active", "value": False}])
def test_both_dialects_close_an_account_and_all_that_goes_with_it(provider: Provider, operation: Any) -> None:
    made = provider.person("ana@example.com", **ANA)
    people.set_role(user(), "ops", None)
    key, _secret = keys.create_key("Shop", [pools.create_pool("Support")], ["route"], user())
    browser = signed_in(user())
    answer = provider.patch(f"Users/{made['id']}", operation)
    assert (answer.status_code, answer.json()["active"]) == (200, False)
    assert not user().is_active
    assert browser.get("/").status_code == 302
    assert not ApiKey.objects.live().exists()
    assert AuditEntry.objects.filter(action="person.deactivated", actor_name="SCIM Okta").exists()
    back = provider.patch(f"Users/{made['id']}", {"op": "Replace", "path": "active", "value": "True"})
    assert back.json()["active"] is True
    assert list(ApiKey.objects.live()) == [key]


def test_okta_puts_and_entra_patches_what_changed(provider: Provider) -> None:
    made = provider.person("ana@example.com", **ANA)
    path = f"Users/{made['id']}"
    put = provider.send(
        "put", path, {**made, "name": {"givenName": "Ana", "familyName": "Reis"}, "displayName": "Ana R."}
    )
    assert put.json()["name"]["familyName"] == "Reis"
    answer = provider.patch(
        path,
        {"op": "Add", "path": "name.givenName", "value": "Anna"},
        {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "anna@example.com"},
        {"op": "Add", "value": {"externalId": "e-7", "name.familyName": "Rey", f"{USER}:displayName": "Anna"}},
        {"op": "Replace", "path": "title", "value": "kept by nobody"},
        {"op": "Add", "path": "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department", "value": "R&D"},
    )
    assert answer.status_code == 200, answer.content
    told = answer.json()
    assert told["name"] == {"givenName": "Anna", "familyName": "Rey"}
    assert (told["externalId"], told["displayName"]) == ("e-7", "Anna")
    assert told["emails"] == [{"value": "anna@example.com", "type": "work", "primary": True}]
    assert user().email == "anna@example.com"
    assert AuditEntry.objects.filter(action="person.synchronized").count() == 2
    # The same once more changes nothing, and is no entry.
    provider.patch(path, {"op": "Add", "path": "name.givenName", "value": "Anna"})
    assert AuditEntry.objects.filter(action="person.synchronized").count() == 2


def test_entra_adds_an_address_that_was_not_there(provider: Provider) -> None:
    made = provider.person("ana")
    told = provider.patch(
        f"Users/{made['id']}", {"op": "Add", "path": 'emails[type eq "work"].value', "value": "ana@example.com"}
    )
    assert told.json()["emails"] == [{"type": "work", "value": "ana@example.com"}]


def test_delete_closes_the_account_and_a_person_may_come_again(provider: Provider) -> None:
    made = provider.person("ana@example.com", **ANA)
    provider.group("routerweb-ops", made)
    assert people.role_of(user()) == "ops"
    assert provider.send("delete", f"Users/{made['id']}").status_code == 204
    assert (user().is_active, people.role_of(user())) == (False, None)
    assert provider.send("get", f"Users/{made['id']}").status_code == 404
    assert provider.get("Users")["totalResults"] == 0
    assert provider.get("Groups")["Resources"][0].get("members") is None
    again = provider.person("ana@example.com")
    assert again["id"] != made["id"]
    assert user().is_active


def test_who_was_made_by_hand_is_matched_by_address_alone(provider: Provider) -> None:
    by_hand = people.invite("ben@example.com", "reviewer", None).user
    assert provider.get("Users")["totalResults"] == 0
    assert provider.get("Users", filter='userName sw "ben"')["totalResults"] == 0
    (found,) = provider.get("Users", filter='userName eq "ben@example.com"')["Resources"]
    assert provider.get("Users")["totalResults"] == 0, "looked up, not yet looked after"
    assert ScimPerson.objects.get().linked_at is None
    assert provider.patch(f"Users/{found['id']}", {"op": "add", "path": "externalId", "value": "x"}).status_code == 200
    assert provider.get("Users")["totalResults"] == 1
    assert AuditEntry.objects.filter(action="person.linked", target="ben@example.com").exists()
    by_hand.refresh_from_db()
    assert (by_hand.email, people.role_of(by_hand)) == ("ben@example.com", "reviewer")


def test_a_superuser_and_the_last_admin_stay(provider: Provider) -> None:
    User.objects.create_superuser("root", "root@example.com", "a long enough one")
    admin = User.objects.create_user("ana@example.com", "ana@example.com", "a long enough one")
    admin.groups.add(Group.objects.get(name="admin"))
    (root,) = provider.get("Users", filter='emails eq "root@example.com"')["Resources"]
    for method, body in (("delete", None), ("patch", {"schemas": [PATCH], "Operations": [OKTA]})):
        assert provider.send(method, f"Users/{root['id']}", body).status_code == 403
    User.objects.filter(username="root").update(is_superuser=False)
    (ana,) = provider.get("Users", filter='userName eq "ana@example.com"')["Resources"]
    for method, body in (("delete", None), ("patch", {"schemas": [PATCH], "Operations": [ENTRA]})):
        answer = provider.send(method, f"Users/{ana['id']}", body)
        assert (answer.status_code, "last active admin" in answer.json()["detail"]) == (409, True)
    assert user().is_active


def test_lists_come_in_pages_with_the_attributes_that_are_asked_for(provider: Provider) -> None:
    for number in range(5):
        provider.person(f"person{number}@example.com", displayName=f"Person {number}")
    page = provider.get("Users", startIndex=2, count=2, attributes="userName,name.givenName")
    assert (page["totalResults"], page["startIndex"], page["itemsPerPage"]) == (5, 2, 2)
    assert [one["userName"] for one in page["Resources"]] == ["person1@example.com", "person2@example.com"]
    assert set(page["Resources"][0]) == {"schemas", "id", "userName"}
    assert "displayName" not in provider.get("Users", excludedAttributes="displayName")["Resources"][0]
    assert provider.get("Users", count=0)["Resources"] == []
    assert provider.get("Users", startIndex=99)["Resources"] == []


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("{", "invalidSyntax"),
        ([], "invalidSyntax"),
        ({"userName": "ana"}, "invalidSyntax"),
        ({"schemas": [USER]}, "invalidValue"),
        ({"schemas": [USER], "userName": 7 * ["x"]}, "invalidValue"),
        ({"schemas": [USER], "userName": "x" * 151}, "invalidValue"),
        ({"schemas": [USER], "userName": "ana", "emails": [{"value": "no address"}]}, "invalidValue"),
        ({"schemas": [USER], "userName": "ana", "active": "perhaps"}, "invalidValue"),
        ({"schemas": [USER], "userName": "ana\u0000"}, "invalidSyntax"),
        (f'{{"schemas": ["{USER}"], "userName": "\\ud800"}}', "invalidSyntax"),
    ],
)
def test_a_body_that_does_not_hold_is_refused_in_scims_form(provider: Provider, body: Any, kind: str) -> None:
    answer = provider.send("post", "Users", body)
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/scim+json")
    told = answer.json()
    assert told["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
    assert (told["status"], told["scimType"]) == ("400", kind)
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ({"op": "jump"}, "invalidSyntax"),
        ({"op": "remove"}, "noTarget"),
        ({"op": "add", "value": "x"}, "invalidValue"),
        ({"op": "add", "path": "colour", "value": "red"}, "invalidPath"),
        ({"op": "add", "path": "emails[type eq", "value": "red"}, "invalidPath"),
        ({"op": "add", "path": "emails[type is x].value", "value": "red"}, "invalidFilter"),
        ({"op": "replace", "path": "userName", "value": None}, "invalidValue"),
        ({"op": "replace", "path": "active", "value": "maybe"}, "invalidValue"),
    ],
)
def test_an_operation_that_does_not_hold_changes_nothing(provider: Provider, operation: Any, kind: str) -> None:
    made = provider.person("ana@example.com", **ANA)
    answer = provider.patch(
        f"Users/{made['id']}", {"op": "replace", "path": "displayName", "value": "Changed"}, operation
    )
    assert (answer.status_code, answer.json()["scimType"]) == (400, kind), answer.content
    assert "displayName" not in provider.get(f"Users/{made['id']}")


@pytest.mark.parametrize(
    "question",
    [
        "userName",
        "userName eq",
        "userName is 7",
        "(userName pr",
        "colour eq 1",
        "userName eq 'ana'",
        "meta.created gt 7",
        "(",
    ],
)
def test_a_filter_that_does_not_hold_is_refused(provider: Provider, question: str) -> None:
    answer = provider.send("get", "Users", query_params={"filter": question})
    assert (answer.status_code, answer.json()["scimType"]) == (400, "invalidFilter")


def test_a_token_opens_scim_alone_until_it_is_revoked(provider: Provider, settings: Any) -> None:
    assert Client().get("/api/agents/", headers={"Authorization": f"Bearer {provider.secret}"}).status_code == 401
    _key, secret = keys.create_key("Shop", [pools.create_pool("Support")], ["route", "ops"])
    assert Provider(secret).send("get", "Users").status_code == 401
    token = tokens.of(f"Bearer {provider.secret}")
    assert token is not None
    second = Provider(tokens.rotate(token, None, grace="1h"))
    assert second.send("get", "Users").status_code == provider.send("get", "Users").status_code == 200
    tokens.rotate(token, None, grace="now")
    assert provider.send("get", "Users").status_code == second.send("get", "Users").status_code == 401
    third = Provider(tokens.rotate(token, None, grace="now"))
    assert third.send("get", "Users").status_code == 200
    settings.SCIM = False
    assert third.send("get", "Users").status_code == 404
    settings.SCIM = True
    assert tokens.revoke(token, None) is True
    refused = third.send("get", "Users")
    assert (refused.status_code, refused["WWW-Authenticate"]) == (401, 'Bearer realm="Routerweb SCIM"')
    kept = str([*AuditEntry.objects.values_list()])
    assert third.secret not in kept
    assert third.secret not in str([*type(token).objects.values_list()])
