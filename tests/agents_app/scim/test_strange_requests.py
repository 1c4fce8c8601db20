"""What no identity provider should send: answered in SCIM's form, with nothing of it stored."""

import json
import os
import random
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from agents_app.accounts import personal
from agents_app.models import AuditEntry, ScimPerson
from agents_app.scim.schemas import PATCH, SEARCH, USER
from tests.agents_app.scim.conftest import Provider
from tests.thorough import many

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
MEDIA_TYPE = "application/scim+json"
DEEP = "[" * 5_000


def refused(answer: Any, status: int = 400) -> dict[str, Any]:
    assert (answer.status_code, answer["Content-Type"]) == (status, MEDIA_TYPE), answer.content
    body: dict[str, Any] = answer.json()
    assert body["status"] == str(status)
    return body


@pytest.mark.parametrize(
    "question",
    [
        r'userName eq "\ud800"',
        r'externalId co "a\udfffb"',
        'meta.created gt "0001-01-01T00:00:00+14:00"',
        'meta.lastModified lt "9999-12-31T23:59:59-14:00"',
        'meta.created gt "0000-00-00T00:00:00Z"',
        f"emails{DEEP}",
        "(" * 5_000,
        "not (" * 40,
        f"userName eq {DEEP}",
        f"userName eq {'9' * 5_000}",
    ],
)
@pytest.mark.parametrize("kind", ["Users", "Groups"])
def test_a_filter_that_cannot_hold_is_refused(provider: Provider, question: str, kind: str) -> None:
    said = refused(provider.send("get", kind, query_params={"filter": question}))
    assert said["scimType"] == "invalidFilter"
    body = json.dumps({"schemas": [SEARCH], "filter": question})
    assert refused(provider.send("post", f"{kind}/.search", body))["scimType"] == "invalidFilter"


@pytest.mark.parametrize(
    "body",
    [
        DEEP,
        '{"schemas":' + DEEP,
        '{"a":' * 5_000,
        json.dumps({"schemas": [USER], "userName": "ana", "name": {"givenName": "\ud800"}}),
        json.dumps({"schemas": [USER], "userName": "ana", "\udfff": 1}),
        json.dumps({"schemas": [USER], "userName": int("9" * 400)}),
        '{"schemas": ["' + USER + '"], "userName": ' + "9" * 5_000 + "}",
        b'{"userName": "\xff"}',
    ],
)
def test_a_body_that_no_database_holds_is_refused(provider: Provider, body: Any) -> None:
    ana = provider.person("ana@example.com")
    for method, path in (
        ("post", "Users"),
        ("put", f"Users/{ana['id']}"),
        ("patch", f"Users/{ana['id']}"),
        ("post", ".search"),
    ):
        assert refused(provider.send(method, path, body))["scimType"] == "invalidSyntax"


@pytest.mark.parametrize(
    "name",
    [
        "ana\nluz",
        "ana\r\n",
        "\tana",
        "ana\u2028luz",
        "\u202eana",
        "a\u200bna",
        "ana\u2066",
        "\u0000ana",
        "",
        "  ",
        "\u00ad",
    ],
)
def test_a_user_name_with_what_nobody_sees_is_refused(provider: Provider, name: str) -> None:
    ana = provider.person("ana@example.com")
    body = {"schemas": [USER], "userName": name}
    assert provider.send("post", "Users", body).status_code == 400
    assert provider.send("put", f"Users/{ana['id']}", body).status_code == 400
    operation = {"op": "replace", "path": "userName", "value": name}
    assert provider.patch(f"Users/{ana['id']}", operation).status_code == 400
    assert list(User.objects.values_list("username", flat=True)) == ["ana@example.com"]


def test_a_user_name_is_kept_in_plain_letters_so_that_no_two_look_alike(provider: Provider) -> None:
    made = provider.person("Ｚｏｅ＠example.com", emails=[{"value": "ｚｏｅ@example.com"}])
    assert (made["userName"], made["emails"][0]["value"]) == ("Zoe@example.com", "zoe@example.com")
    for same in ("ZOE@example.com", "ｚｏｅ@example.com", "zoe@ｅxample.com", " zoe@example.com"):
        answer = provider.send("post", "Users", {"schemas": [USER], "userName": same})
        assert refused(answer, 409)["scimType"] == "uniqueness", same
    provider.person("zoë")
    for same in ("ZOË", "zoe\u0308", "ｚｏë"):
        assert refused(provider.send("post", "Users", {"schemas": [USER], "userName": same}), 409), same
    assert provider.get("Users", filter='userName eq "ｚｏｅ@example.com"')["totalResults"] == 1


@pytest.mark.parametrize(
    "name", ["former member #{}", "Former Member #{}", "ｆｏｒｍｅｒ member  ＃{}", "former member #999"]
)
def test_nobody_takes_the_name_of_a_former_member(provider: Provider, name: str) -> None:
    ana = User.objects.create_user("ana@example.com", "ana@example.com")
    former = personal.erase(ana, None)
    assert provider.get("Users", filter=f'userName eq "{former}"')["totalResults"] == 0
    assert not ScimPerson.objects.exists()
    refused(provider.send("post", "Users", {"schemas": [USER], "userName": name.format(ana.pk)}))


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "externalId", "value": "mine"},
        {"op": "add", "value": {"externalId": "mine"}},
        {"op": "add", "path": "displayName", "value": "Boss"},
        {"op": "replace", "path": "active", "value": True},
    ],
)
def test_nothing_of_a_superuser_changes(provider: Provider, operation: dict[str, Any]) -> None:
    User.objects.create_superuser("root", "root@example.com", "a long enough one")
    (root,) = provider.get("Users", filter='userName eq "root"')["Resources"]
    before = ScimPerson.objects.values().get()
    refused(provider.patch(f"Users/{root['id']}", operation), 403)
    put = {"schemas": [USER], "userName": "root", "externalId": "mine"}
    refused(provider.send("put", f"Users/{root['id']}", put), 403)
    group = provider.group("routerweb-ops", root)
    assert ScimPerson.objects.values().get() == before
    assert not User.objects.get().groups.exists()
    assert not AuditEntry.objects.filter(action__startswith="person.", target="root").exists()
    assert provider.send("delete", f"Groups/{group['id']}").status_code == 204


# ---------------------------------------------------------------------------------------------------- generated

PIECES = [
    '"', "'", "\\", "[", "]", "{", "}", "(", ")", ",", ":", ".", " ", "\n", "-", "+", "%", "%00", "#", "é", "ａ", "😀",
    "\u202e", "\u0000", "\ud800", "userName", "emails", 'emails[type eq "work"]', "members", "value", "meta.created", "active",
    "externalId", "id", "groups", "name.givenName", "eq", "ne", "co", "sw", "gt", "pr", "and", "or", "not", "true", "null",
    "1e999", "-0", "9" * 400, "2026-01-01T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00",
    r"\ud800", r"\u0000", DEEP, '{"a":' * 1_000, USER, "ana@example.com",
]  # fmt: skip
OPERATIONS = ["add", "Replace", "remove", "jump", "", 7, None]


class Strange:
    """Requests of a generator of random numbers: methods, addresses, parameters, headers and bodies, broken in every way."""

    def __init__(self, seed: int, ids: dict[str, str]) -> None:
        self.random = random.Random(seed)
        self.ids = ids

    def text(self) -> str:
        return "".join(self.random.choices(PIECES, k=self.random.randrange(8)))

    def question(self) -> str:
        """A filter, as a rule of the right form and with a strange value."""
        if self.random.random() < 0.3:
            return self.text()
        attribute = self.random.choice(
            ["userName", "emails.value", "externalId", "id", "active", "meta.created", "members.value"]
        )
        value = self.random.choice([f'"{self.random.choice(PIECES)}"', self.random.choice(PIECES), "true", "null", "7"])
        one = f"{attribute} {self.random.choice(['eq', 'ne', 'co', 'gt', 'le', 'pr'])} {value}"
        return self.random.choice([one, f"not ({one})", f"{one} and {one}", f"emails[{one}].value {value}"])

    def value(self, depth: int = 0) -> Any:
        draw = self.random.random()
        if depth > 3 or draw < 0.5:
            return self.random.choice([self.text(), None, True, 7, -1.5, 10**400, "True", self.ids["Users"]])
        if draw < 0.7:
            return [self.value(depth + 1) for _ in range(self.random.randrange(3))]
        return {self.random.choice(PIECES): self.value(depth + 1) for _ in range(self.random.randrange(4))}

    def body(self, kind: str) -> Any:
        known = {
            "schemas": [USER, PATCH, SEARCH, USER.replace("User", "Group")],
            "userName": "ben",
            "displayName": "Team",
        }
        operations = [
            {"op": self.random.choice(OPERATIONS), "path": self.text(), "value": self.value()}
            for _ in range(self.random.randrange(4))
        ]
        body = known | {"Operations": operations, "filter": self.question(), "count": self.value()}
        for _ in range(self.random.randrange(4)):
            body[
                self.random.choice(["userName", "externalId", "name", "emails", "active", "members", "schemas", "id"])
            ] = self.value()
        said = json.dumps(body)
        if self.random.random() < 0.2:
            cut = self.random.randrange(len(said))
            said = said[:cut] + self.text() + said[cut + self.random.randrange(9) :]
        return said.encode("utf-8", self.random.choice(["surrogatepass", "replace"]))

    def request(self) -> dict[str, Any]:
        kind = self.random.choice(["Users", "Groups"])
        fixed = [".search", "Schemas", "ResourceTypes"]
        path = self.random.choice([kind, f"{kind}/{self.ids[kind]}", f"{kind}/.search", f"{kind}/x", *fixed])
        method = self.random.choice(["get", "post", "put", "patch", "delete", "head", "options"])
        asked = {
            name: self.text().encode("utf-8", "replace").decode()
            for name in self.random.sample(
                ["filter", "startIndex", "count", "attributes", "excludedAttributes", "sortBy"], 2
            )
        }
        asked |= {"filter": self.question().encode("utf-8", "replace").decode()} if method == "get" else {}
        sent = self.body(kind) if method in ("post", "put", "patch") else None
        return {"method": method, "path": path, "body": sent, "query_params": asked}


@pytest.mark.at_length
def test_no_request_fails_the_server_or_is_answered_with_html(provider: Provider, caplog: Any) -> None:
    person = provider.person("ana@example.com")
    ids = {"Users": person["id"], "Groups": provider.group("routerweb-ops", person)["id"]}
    strange = Strange(20_261_123, ids)
    seen: dict[int, int] = {}
    for _request in range(int(os.environ.get("GENERATED_REQUESTS", many(4_000, 400)))):
        request = strange.request()
        with transaction.atomic():
            answer = provider.send(**request)
            transaction.set_rollback(True)
        seen[answer.status_code] = seen.get(answer.status_code, 0) + 1
        assert answer.status_code < 500, request
        assert answer.status_code == 204 or answer["Content-Type"] == MEDIA_TYPE, request
    assert {200, 201, 204, 400, 404, 405, 409} <= seen.keys() | {409}, seen
    assert "a SCIM request failed" not in caplog.text
