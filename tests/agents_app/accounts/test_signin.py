"""The one door: by password, with attempts limited; nobody signs up; the admin's door leads here."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.hashers import MD5PasswordHasher
from django.contrib.auth.models import User
from django.core import mail
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import NoReverseMatch, reverse

from agents_app.accounts import people
from agents_app.accounts.mail import set_password_link
from tests.agents_app.work import shapes
from tests.thorough import many

pytestmark = pytest.mark.django_db
PASSWORD = "a long enough one"


def signed_in(client: Client) -> bool:
    return "_auth_user_id" in client.session


def sign_in(client: Client, login: str, password: str = PASSWORD, **more: str):
    return client.post("/login/", {"login": login, "password": password, **more})


def test_in_by_address_in_any_case_and_out_again(client: Client, person: Callable[[str], User]) -> None:
    person("ops")
    answer = sign_in(client, " OPS@Example.com ", next="/audit/")
    assert (answer.status_code, answer["Location"]) == (302, "/audit/")
    assert client.get("/audit/").status_code == 200
    assert client.get("/login/?next=/audit/")["Location"] == "/audit/"
    assert "ops@example.com" in client.get("/logout/").content.decode()
    assert signed_in(client)
    out = client.post("/admin/logout/")
    assert (out.status_code, out["Location"]) == (302, "/login/")
    assert not signed_in(client)
    assert not mail.outbox


def test_an_account_of_the_command_line_signs_in_by_its_plain_name(client: Client) -> None:
    User.objects.create_superuser("root", "", PASSWORD)
    User.objects.create_superuser("Boss@Example.com", "", PASSWORD)
    assert sign_in(client, "root").status_code == 302
    assert sign_in(Client(), "Boss@Example.com").status_code == 302


def test_the_admins_door_leads_to_the_one_door(client: Client, person: Callable[[str], User]) -> None:
    person("admin")
    answer = client.get("/admin/agents_app/pool/", follow=True)
    assert answer.redirect_chain[-1][0] == "/login/?next=%2Fadmin%2Fagents_app%2Fpool%2F"
    assert 'name="next" value="/admin/agents_app/pool/"' in answer.content.decode()
    inside = client.post(
        "/login/", {"login": "admin@example.com", "password": PASSWORD, "next": "/admin/agents_app/pool/"}
    )
    assert client.get(inside["Location"]).status_code == 200


def test_who_may_not_open_the_admin_is_told_so_and_not_sent_round(client: Client) -> None:
    client.force_login(User.objects.create_user("guest@example.com"))
    assert client.get("/admin/", follow=True).status_code == 403


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example/", "javascript:alert(1)", "/\\evil.example"]
)
def test_signing_in_leads_nowhere_else(client: Client, person: Callable[[str], User], target: str) -> None:
    person("ops")
    assert sign_in(client, "ops@example.com", next=target)["Location"] == "/"
    assert client.get("/admin/login/", {"next": target})["Location"] == "/login/"


def test_a_deactivated_person_is_told_so_with_the_right_password_alone(
    client: Client, person: Callable[[str], User]
) -> None:
    people.deactivate(person("labeler"), None)
    wrong = sign_in(client, "labeler@example.com", "wrong").content.decode()
    assert "is wrong" in wrong
    right = client.post("/login/", {"login": "labeler@example.com", "password": PASSWORD}, follow=True)
    assert right.status_code == 403
    assert "Your account is deactivated" in right.content.decode()
    assert not signed_in(client)


def test_nobody_signs_up(client: Client) -> None:
    for name in ("account_signup", "socialaccount_signup", "account_email", "socialaccount_connections"):
        with pytest.raises(NoReverseMatch):
            reverse(name)
    assert "sign up" not in client.get("/login/").content.decode().lower()


def test_who_guesses_waits_and_the_right_person_does_not(client: Client, person: Callable[[str], User]) -> None:
    user, owner = person("ops"), Client(REMOTE_ADDR="203.0.113.9")
    for number in range(5):
        assert "is wrong" in sign_in(client, "ops@example.com", f"wrong {number}").content.decode()
    said = sign_in(client, "OPS@example.com").content.decode()
    assert "Too many failed attempts from your network address" in said
    assert "Your account is not locked" in said
    assert not signed_in(client)
    assert sign_in(owner, "ops@example.com").status_code == 302
    person("reviewer")
    assert sign_in(client, "reviewer@example.com").status_code == 302
    client.post("/logout/")
    assert "Too many failed attempts" in sign_in(client, "ops@example.com").content.decode()

    user.refresh_from_db()
    path = set_password_link(user, "http://testserver").removeprefix("http://testserver")
    form = path
    client.post(form, {"new_password1": "horse battery 9", "new_password2": "horse battery 9"})
    assert sign_in(client, "ops@example.com", "horse battery 9").status_code == 302


def test_many_addresses_together_are_slowed_and_a_known_browser_is_not(
    person: Callable[[str], User], settings: Any
) -> None:
    failures = many(100, 10)
    settings.ACCOUNT_RATE_LIMITS = {**settings.ACCOUNT_RATE_LIMITS, "account_failed": f"{failures}/h/key"}
    person("ops")
    known = Client(REMOTE_ADDR="203.0.113.9")
    sign_in(known, " OPS@example.com")
    known.post("/logout/")
    for number in range(failures):
        sign_in(Client(REMOTE_ADDR=f"198.51.100.{number}"), "ops@example.com", "wrong")
    fresh = Client(REMOTE_ADDR="198.51.100.200")
    assert "from many network addresses" in sign_in(fresh, "ops@example.com").content.decode()
    fresh.cookies["routerweb_known"] = "made-up:1abc:signature"
    assert "from many network addresses" in sign_in(fresh, "ops@example.com").content.decode()
    person("reviewer")
    other = Client(REMOTE_ADDR="198.51.100.201")
    sign_in(other, "reviewer@example.com")
    other.post("/logout/")
    assert "from many network addresses" in sign_in(other, "ops@example.com").content.decode(), (
        "known to another account"
    )
    assert "ops@" not in known.cookies["routerweb_known"].value
    assert sign_in(known, "ops@example.com").status_code == 302


@pytest.mark.parametrize("usable", [True, False])
def test_known_and_unknown_addresses_take_the_same_work(
    client: Client, person: Callable[[str], User], monkeypatch: pytest.MonkeyPatch, usable: bool
) -> None:
    user = person("ops")
    if not usable:
        user.set_unusable_password()
        user.save()
    hashed: list[str] = []
    encode = MD5PasswordHasher.encode

    def counted(self: MD5PasswordHasher, password: str, salt: str) -> str:
        hashed.append(password)
        return encode(self, password, salt)

    monkeypatch.setattr(MD5PasswordHasher, "encode", counted)
    work = []
    for login in ("ops@example.com", "nobody@example.com"):
        hashed.clear()
        cache.clear()
        with CaptureQueriesContext(connection) as queries:
            answer = sign_in(client, login, "wrong")
        assert "is wrong" in answer.content.decode()
        work.append((shapes(queries), len(hashed)))
    assert work[0] == work[1]
    assert work[0][1] == 1


def test_guessing_at_many_accounts_from_one_address_is_stopped(client: Client, person: Callable[[str], User]) -> None:
    for number in range(10):
        sign_in(client, f"nobody{number}@example.com", "wrong")
    person("ops")
    assert "Too many failed attempts" in sign_in(client, "ops@example.com").content.decode()
    assert sign_in(Client(REMOTE_ADDR="203.0.113.9"), "ops@example.com").status_code == 302


def test_signing_in_well_uses_up_no_attempts(person: Callable[[str], User]) -> None:
    person("ops")
    for _ in range(7):
        assert sign_in(Client(), "ops@example.com").status_code == 302


def test_asking_for_link_after_link_is_stopped(
    client: Client, person: Callable[[str], User], settings: Any, django_capture_on_commit_callbacks: Any
) -> None:
    person("ops")
    settings.EMAIL_HOST = "mail.example.com"
    with django_capture_on_commit_callbacks() as jobs:
        answers = [client.post("/password/reset/", {"email": "ops@example.com"}) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [302] * 5 + [429]
    assert len(jobs) == 5
    assert "Too many attempts" in answers[-1].content.decode()


@pytest.mark.both_databases
def test_the_attempts_are_counted_in_the_database(client: Client) -> None:
    # In the memory of a process they would be counted once for each.
    cache.clear()  # a test with committed attempts may have run before this one
    sign_in(client, "ops@example.com", "wrong")
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM routerweb_cache WHERE cache_key LIKE %s", ["%login_failed%"])
        assert cursor.fetchone()[0] == 2  # by network address, and by account and network address
    cache.clear()


def test_the_page_needs_no_database(client: Client, person, django_assert_num_queries) -> None:
    person("admin")
    client.get("/login/")  # from now on the process knows that somebody has an account
    with django_assert_num_queries(0):
        page = client.get("/login/").content.decode()
    assert page.count("<h1") == page.count("<main") == 1
    assert 'autocomplete="username"' in page
    assert 'autocomplete="current-password"' in page
    assert "Sign in with" not in page
    assert client.post("/login/oidc/").status_code == 404
    assert client.get("/login/oidc/callback/?code=a&state=b").status_code == 404
