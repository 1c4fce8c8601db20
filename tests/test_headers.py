"""The headers that hold a page to this site."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]


@pytest.mark.parametrize("path", ["/login/", "/password/reset/", "/nowhere/", "/"])
def test_every_page_says_where_its_scripts_come_from(client: Client, path: str) -> None:
    answer = client.get(path)
    directives = dict(one.strip().split(" ", 1) for one in answer["Content-Security-Policy"].split(";"))
    assert directives["script-src"].split() == ["'self'", "'unsafe-eval'"]
    assert directives["default-src"] == "'none'"
    assert directives["frame-ancestors"] == "'none'"
    assert "unsafe-inline" not in directives["script-src"]
    assert "camera=()" in answer["Permissions-Policy"]
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == "same-origin"
    assert answer["Cross-Origin-Opener-Policy"] == "same-origin"


def test_no_script_and_no_other_site_gets_at_a_cookie(client: Client) -> None:
    User.objects.create_user("ana", "ana@example.com", "a long pass phrase")
    client.get("/login/")
    client.post("/login/", {"login": "ana", "password": "a long pass phrase"})
    assert {"csrftoken", "sessionid"} <= set(client.cookies)
    for name, cookie in client.cookies.items():
        assert cookie["httponly"], name
        assert cookie["samesite"] == "Lax", name
