"""Where people are signed in: told in words, ended one by one or all at once, written down now and then."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.cache import caches
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents_app.accounts import people, sessions
from agents_app.models import AuditEntry, Pool
from tests.clients import signed_in

pytestmark = pytest.mark.django_db
PHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 Version/17.5 Mobile/15E148 Safari/604.1"
DESK = "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:127.0) Gecko/20100101 Firefox/127.0"
PASSWORD = "a long enough one"


@pytest.fixture(autouse=True)
def seen(settings: Any) -> None:
    settings.SESSIONS_SEEN = True


def browser(agent: str, address: str, login: str = "ops@example.com") -> Client:
    client = Client(headers={"user-agent": agent}, REMOTE_ADDR=address)
    assert client.post("/login/", {"login": login, "password": PASSWORD}).status_code == 302
    return client


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        (PHONE, "Safari on iPhone"),
        (DESK, "Firefox on Windows"),
        ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/126.0 Safari/537.36 Edg/126.0", "Edge on Linux"),
        ("Mozilla/5.0 (Linux; Android 14) AppleWebKit/537.36 Chrome/126.0 Mobile Safari/537.36", "Chrome on Android"),
        ("curl/8.5.0", "curl"),
        ("", "An unknown device"),
    ],
)
def test_a_device_is_told_in_words(agent: str, said: str) -> None:
    assert sessions.device(agent) == said


def test_a_person_sees_where_they_are_signed_in_and_ends_one(person: Callable[[str], User]) -> None:
    person("ops"), person("admin")
    desk, phone = browser(DESK, "10.0.0.1"), browser(PHONE, "10.0.0.2")
    stranger = browser(DESK, "10.0.0.3", "admin@example.com")
    page = desk.get("/account/").content.decode()
    assert "Firefox on Windows" in page
    assert "Safari on iPhone" in page
    assert "10.0.0.2" in page
    assert "10.0.0.3" not in page
    assert page.count("this one") == 1
    assert "Sign out everywhere else" in page
    row = UserSession.objects.get(ip="10.0.0.2")
    stranger.post("/account/sessions/", {"session": row.pk})
    assert phone.get("/account/").status_code == 200
    desk.post("/account/sessions/", {"session": row.pk})
    assert phone.get("/account/").status_code == 302
    alone = desk.get("/account/")
    assert alone.status_code == 200
    assert "Sign out everywhere else" not in alone.content.decode(), "there is nothing else to end"
    assert "had ended already" in desk.post("/account/sessions/", {"session": row.pk}, follow=True).content.decode()


def test_all_others_are_ended_those_without_a_row_too(person: Callable[[str], User]) -> None:
    person("ops")
    desk, phone, old = browser(DESK, "10.0.0.1"), browser(PHONE, "10.0.0.2"), Client()
    old.force_login(person("ops"))  # as of before rows were kept
    said = desk.post("/account/sessions/", follow=True).content.decode()
    assert "2 other sessions were ended." in said
    assert (phone.get("/account/").status_code, old.get("/account/").status_code) == (302, 302)
    assert desk.get("/account/").status_code == 200
    assert AuditEntry.objects.filter(action="person.session_ended", detail={"sessions": 2}).count() == 1


def test_a_session_of_before_gets_a_row_when_it_is_used(person: Callable[[str], User]) -> None:
    old = signed_in(person("ops"), headers={"user-agent": PHONE})
    old.get("/glossary/")
    assert UserSession.objects.get().user == person("ops")


def test_it_is_written_once_in_some_minutes(person: Callable[[str], User]) -> None:
    person("ops")
    desk = browser(DESK, "10.0.0.1")
    began = UserSession.objects.get().last_seen_at

    def opened() -> list[str]:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            assert desk.get("/glossary/").status_code == 200
        return [query["sql"] for query in queries if "usersession" in query["sql"]]

    opened()
    assert opened() == []
    caches["process"].clear()  # another process
    assert len(opened()) == 1  # it looks, and need not write
    assert UserSession.objects.get().last_seen_at == began
    caches["process"].clear()
    UserSession.objects.update(last_seen_at=timezone.now() - timedelta(hours=1))
    opened()
    assert UserSession.objects.get().last_seen_at > timezone.now() - timedelta(minutes=1)


def test_nobody_is_written_down_who_is_not_signed_in(client: Client) -> None:
    client.get("/login/")
    assert not UserSession.objects.exists()


def test_admins_end_all_sessions_of_a_person_and_closing_an_account_does(
    client_of: Callable[[str], Client], person: Callable[[str], User]
) -> None:
    user = person("ops")
    desk, phone = browser(DESK, "10.0.0.1"), browser(PHONE, "10.0.0.2")
    admin = client_of("admin")
    assert "Sign out (2 sessions)" in admin.get("/people/").content.decode()
    admin.post(f"/people/{user.pk}/sessions/")
    assert (desk.get("/account/").status_code, phone.get("/account/").status_code) == (302, 302)
    entry = AuditEntry.objects.get(action="person.sessions_ended")
    assert (entry.actor, entry.target, entry.detail) == (person("admin"), "ops@example.com", {"sessions": 2})
    again = browser(DESK, "10.0.0.1")
    people.deactivate(user, person("admin"))
    assert again.get("/account/").status_code == 302
    assert not UserSession.objects.filter(user=user).exists()


def test_what_has_run_out_is_forgotten(person: Callable[[str], User]) -> None:
    person("ops")
    browser(DESK, "10.0.0.1"), browser(PHONE, "10.0.0.2")
    gone = UserSession.objects.get(ip="10.0.0.1")
    Session.objects.filter(session_key=gone.session_key).update(expire_date=timezone.now() - timedelta(days=1))
    assert sessions.prune() == 1
    assert UserSession.objects.get().ip == "10.0.0.2"
    assert Session.objects.count() == 1


def test_a_page_is_no_worse_where_it_cannot_be_written(person: Callable[[str], User], monkeypatch: Any) -> None:
    person("ops")
    desk = browser(DESK, "10.0.0.1")
    UserSession.objects.all().delete()
    caches["process"].clear()

    def locked(**_values: Any) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(UserSession.objects, "update_or_create", locked)
    assert desk.get("/glossary/").status_code == 200
    assert not UserSession.objects.exists()


def test_what_a_page_sends_for_somebody_else_is_refused(person: Callable[[str], User]) -> None:
    """Of a page that was drawn for one person before another signed in at the same desk."""
    ana, ben = person("ops"), person("labeler")
    client = signed_in(ben)
    post = {"query": "0"}
    pool = Pool.objects.create(slug="one", name="One")
    undo = f"/p/{pool.slug}/label/undo/"
    refused = client.post(undo, post, headers={"x-person": str(ana.pk), "accept": "application/json"})
    assert refused.status_code == 403
    for given in ({"x-person": str(ben.pk)}, {}):
        assert client.post(undo, post, headers={"accept": "application/json", **given}).status_code == 200
    signed_out = Client().post(undo, post, headers={"x-person": str(ana.pk), "accept": "application/json"})
    assert signed_out.status_code in {302, 401}
