"""Generated bodies, operations and questions: whatever an identity provider sends is answered in SCIM's form, never with 500."""

import json
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agents_app.scim.schemas import GROUP, PATCH, SEARCH, USER
from tests.agents_app.scim.conftest import Provider
from tests.thorough import many

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
leaves: Any = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["True", "a@example.com"])
)
keys = st.sampled_from(["value", "type", "primary", "x"])
values: Any = st.recursive(leaves, lambda one: st.lists(one, max_size=3) | st.dictionaries(keys, one), max_leaves=5)
names = st.sampled_from(
    [
        "userName",
        "USERNAME",
        "externalId",
        "name",
        "displayName",
        "emails",
        "active",
        "members",
        "schemas",
        "groups",
        "id",
        "title",
        "x",
    ]
)
attributes: Any = st.dictionaries(names, values, max_size=5)
paths = st.sampled_from(
    ["a[b", "active", "userName", "name.givenName",
     'emails[type eq "work"].value', 'members[value eq "x"]', "members", "emails", "", "[",
     f"{USER}:name.familyName", "emails.value", "groups", "schemas", 'emails[not (value pr) or type co "x"]']
) | st.text(max_size=10)  # fmt: skip
told = {"path": paths, "value": values | attributes}
ops = st.sampled_from(["add", "Replace", "REMOVE", "jump"])
operations: Any = st.lists(st.fixed_dictionaries({"op": ops}, optional=told), max_size=4)
words = st.sampled_from(
    ["userName", "emails.value", "id", "meta.created", "active", "eq", "ne", "co", "gt", "pr", "and", "or", "not", "(", ")", "[", "]",
     '"ana"', '"2026-01-01T00:00:00Z"', "true", "7", "null", '"\\ud800"', "'", '"'],
)  # fmt: skip
questions = st.lists(words, max_size=8).map(" ".join) | st.text(max_size=20)


@pytest.mark.parametrize("kind", ["Users", "Groups"])
def test_nothing_that_is_sent_is_a_fault_of_the_server(provider: Provider, kind: str) -> None:
    urn = USER if kind == "Users" else GROUP
    person = provider.person("ana@example.com")
    one = person["id"] if kind == "Users" else provider.group("routerweb-ops", person)["id"]
    seen: set[int] = set()

    @settings(max_examples=many(600, 10), deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(attributes, operations, questions, st.sampled_from(["0", "-1", "2", "x", "9" * 30]))
    @example({"emails": [None], "members": [None]}, [{"op": "add", "path": "emails", "value": [None]}], "", "0")
    def check(sent: Any, changes: Any, question: str, number: str) -> None:
        known = {"schemas": [urn], "userName": "ben", "displayName": "Team"}
        for method, path, body, asked in (
            ("post", kind, known | sent, {}),
            ("put", f"{kind}/{one}", known | sent, {}),
            ("patch", f"{kind}/{one}", {"schemas": [PATCH], "Operations": changes}, {}),
            ("get", kind, None, {"filter": question, "startIndex": number, "count": number, "attributes": question}),
            (
                "post",
                f"{kind}/.search",
                {"schemas": [SEARCH], "filter": question, "excludedAttributes": [question]},
                {},
            ),
        ):
            with transaction.atomic():
                answer = provider.send(method, path, body and json.dumps(body), query_params=asked)
                transaction.set_rollback(True)
            seen.add(answer.status_code)
            assert answer.status_code < 500, (method, path, body, asked)
            assert answer.status_code < 400 or answer.json()["status"] == str(answer.status_code)

    check()
    assert {200, 201, 400} <= seen, seen
