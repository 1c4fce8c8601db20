"""No page answers a generated request with an error of the server, whatever stands in its address, its query string or its form.

`GENERATED_REQUESTS=20000` makes that many in place of the default; they are then new ones each time.
"""

import inspect
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.db import transaction
from django.forms import BaseForm
from django.test import Client
from django.urls import URLResolver, get_resolver
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasets_app.models import Query
from tests.browser.conftest import person  # noqa: F401
from tests.browser.test_admin_pages import filled  # noqa: F401
from tests.browser.test_everybody import trained_pool  # noqa: F401
from tests.browser.test_review import worked  # noqa: F401
from tests.clients import signed_in
from tests.thorough import many

pytestmark = pytest.mark.computes_long

COUNT = int(os.environ.get("GENERATED_REQUESTS", many(300, 45)))

#: What stood in the requests that were answered with 500 once, and its like.
STRANGE = (
    "²", "٣", "1" * 25, "9" * 5_000, "-1", "0", "1e999", "nan", "\0", "a\0b", "9999-12-31", "0001-01-01", "after:9999-12-31",
    "before:0001-01-01", "disagreement:people>1e999", "disagreement:llm>nan", "agent:²", "split:\0", "by:\0", '"', "'", "-", ":",
    "é" * 500, "\ufeff", "\U0010ffff", "{{ 1 }}", "{% for %}", "[[" * 200, "2147483648", "9223372036854775808", "1,2,²,,3",
    "//example.com", "None", "null", "%00", "..", "\r\nX: y",
)  # fmt: skip
#: What stands in them when people use the pages.
USUAL = (
    "", "1", "2", "3", "7", "support", "big", "Billing", "train", "jsonl", "csv", "txt", "folder", "on", "off", "add", "remove",
    "send", "delete", "accept", "state:gold", "agent:none", "is:deleted", "2026-01-31", "-1", "0.5", "webhook", "email", "random",
    "refund the invoice", "http://localhost:1/hook", "someone@example.com", "ops", "none", "question", "-run", "validation",
    "model", "24", "168", "30",
)  # fmt: skip


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    form: tuple[tuple[str, str], ...] = ()
    file: tuple[str, bytes] | None = None
    htmx: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path[:200]} {repr(self.query)[:300]} {repr(self.form)[:300]}"


ADMIN = (
    "page", "p", "o", "q", "e", "action", "_selected_action", "index", "select_across", "_popup", "_to_field", "agent", "source",
    "app_label", "model_name", "field_name", "term", "post", "pool__id__exact", "at__gte", "state__exact", "name", "slug",
)  # fmt: skip


def patterns(resolver: URLResolver, before: str = "") -> Iterator[tuple[str, tuple[str, ...]]]:
    """(route, its parts as `<kind:name>`; the names of the fields that its view reads) of every page; API and SCIM: elsewhere."""
    for one in resolver.url_patterns:
        route = before + str(one.pattern)
        if isinstance(one, URLResolver):
            if not route.startswith(("api/", "scim/")):
                yield from patterns(one, route)
        elif "(" not in route:
            yield route, ADMIN if route.startswith("admin/") else fields_read(one.callback)


def fields_read(view: Any) -> tuple[str, ...]:
    """The names that the view's module and its forms read from query strings and forms."""
    module = inspect.getmodule(inspect.unwrap(view))
    assert module is not None
    found = {"page", "q"}
    found |= set(re.findall(r"(?:GET|POST|fields|asked)\.get(?:list)?\(\"(\w+)\"", inspect.getsource(module)))
    found |= set(re.findall(r"\"(\w+)\" in request\.(?:GET|POST)", inspect.getsource(module)))
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, BaseForm):
            found |= set(getattr(value, "base_fields", {}))
    return tuple(sorted(found))


values = st.one_of(st.sampled_from(USUAL), st.sampled_from(STRANGE), st.text(max_size=20), st.integers().map(str))


def part(kind: str, name: str, known: dict[str, list[str]]) -> st.SearchStrategy[str]:
    """A part of an address: mostly one that leads somewhere."""
    strange = (
        st.sampled_from(STRANGE)
        if kind in ("", "str", "path", "slug")
        else st.sampled_from(("0", "1" * 25, "9" * 5_000, "²"))
    )
    return st.one_of(
        st.sampled_from(known.get(name, ["1"])),
        st.sampled_from(known.get(name, ["1"])),
        st.sampled_from(("1", "2", "3")),
        strange,
    )


def requests(routes: list[tuple[str, tuple[str, ...]]], known: dict[str, list[str]]) -> st.SearchStrategy[Request]:
    files = st.none() | st.tuples(
        st.sampled_from(("a.jsonl", "b.csv", "c.txt", "d", "\0.jsonl")),
        st.sampled_from(
            (
                b'{"text": "x"}\n',
                b"text,required_agents\nx,0\n",
                b'{"id": 1, "name": "A\\u0000"}',
                b"\xff\n",
                b"[" * 5_000,
            )
        ),
    )

    @st.composite
    def made(draw: st.DrawFn) -> Request:
        path, names = draw(st.sampled_from(routes))
        fields = st.lists(st.tuples(st.sampled_from(names), values), max_size=6).map(tuple)
        for found in re.findall(r"<(?:(\w+):)?(\w+)>", path):
            kind, name = found
            value = quote(draw(part(kind, name, known)), safe="")
            path = path.replace(f"<{kind}:{name}>" if kind else f"<{name}>", value, 1)
        method = draw(st.sampled_from(("GET", "GET", "POST")))
        form = draw(fields) if method == "POST" else ()
        return Request(
            method, f"/{path}", draw(fields), form, draw(files) if method == "POST" else None, draw(st.booleans())
        )

    return made()


def ask(browser: Client, request: Request) -> int:
    """Send it with this client's session, in a transaction that is rolled back: who is signed out by one is there for the next."""
    client = Client(raise_request_exception=False)
    client.cookies.load({name: cookie.value for name, cookie in browser.cookies.items()})
    query = "&".join(f"{quote(name)}={quote(value)}" for name, value in request.query)
    headers = {"HX-Request": "true"} if request.htmx else {}
    data: dict[str, Any] = {}
    for name, value in request.form:
        data.setdefault(name, []).append(value)
    if request.file:
        data["file"] = SimpleUploadedFile(*request.file)
    with transaction.atomic():
        if request.method == "GET":
            answer = client.get(f"{request.path}?{query}", headers=headers)
        else:
            answer = client.post(f"{request.path}?{query}", data, headers=headers)
        if answer.streaming:
            b"".join(answer)
        answer.close()
        transaction.set_rollback(True)
    return answer.status_code


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.at_length
def test_no_generated_request_is_answered_with_an_error_of_the_server(filled: User) -> None:  # noqa: F811
    routes = sorted(set(patterns(get_resolver())))
    assert len(routes) > 150
    assert {"page", "q", "snapshot", "agent", "share", "keywords"} <= {
        name for _route, names in routes for name in names
    }
    queries = [str(key) for key in Query.objects.values_list("pk", flat=True)[:3]]
    known = {
        "slug": ["support", "big"],
        "query_id": queries,
        "number": ["0", "1", "3"],
        "object_id": ["1", *queries],
        "app_label": ["auth"],
    }
    client = signed_in(filled)
    seen: dict[int, int] = {}

    @settings(
        max_examples=COUNT, deadline=None, derandomize="GENERATED_REQUESTS" not in os.environ, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(requests(routes, known))
    def every(request: Request) -> None:
        status = ask(client, request)
        seen[status] = seen.get(status, 0) + 1
        assert status < 500, request

    every()
    print(f"\n{sum(seen.values()):,} requests: {dict(sorted(seen.items()))}")
    assert seen.get(200, 0) > COUNT / 50
