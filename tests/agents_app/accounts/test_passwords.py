"""Forgotten passwords and first ones."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django_q.models import OrmQ
from django_q.signing import SignedPackage

from agents_app.accounts import people
from agents_app.accounts.mail import set_password_link
from agents_app.models import BackgroundJob
from tests.agents_app.work import shapes

pytestmark = pytest.mark.django_db


@pytest.fixture
def ask(
    client: Client, settings: Any, run_jobs: Callable[[], int], django_capture_on_commit_callbacks: Any
) -> Callable[[str], str]:
    """Asks for a link to an address, has the worker mail what there is to mail, and returns the page that came."""
    settings.EMAIL_HOST = "mail.example.com"

    def asked(address: str) -> str:
        with django_capture_on_commit_callbacks(execute=True):
            answer = client.post("/password/reset/", {"email": address}, follow=True)
        run_jobs()
        return str(answer.content.decode())

    return asked


def test_the_sign_in_page_leads_to_a_new_password(client: Client, person: Callable[[str], User]) -> None:
    person("ops")
    assert "/password/reset/" in client.get("/login/").content.decode()
    assert client.get("/password/reset/").status_code == 200


def test_a_forgotten_password_is_set_anew_once(
    client: Client, person: Callable[[str], User], ask: Callable[[str], str]
) -> None:
    user = person("ops")
    assert "Check your mail" in ask("OPS@example.com")
    (message,) = mail.outbox
    assert message.to == [user.email]
    found = re.search(r"http://testserver(/password/set/\S+)", message.body)
    assert found
    assert client.get(found.group(1)).context["validlink"]
    new = {"new_password1": "horse battery 9", "new_password2": "horse battery 9"}
    done = client.post(found.group(1), new, follow=True)
    assert done.redirect_chain[-1][0] == "/"
    assert done.wsgi_request.user == user, "nobody signs in again after setting a password"
    user.refresh_from_db()
    assert user.check_password("horse battery 9")
    assert "This link is used up" in client.get(found.group(1), follow=True).content.decode()


def test_a_weak_password_is_refused_with_the_reason(client: Client, person: Callable[[str], User]) -> None:
    user = person("ops")
    path = set_password_link(user, "http://testserver").removeprefix("http://testserver")
    answer = client.post(path, {"new_password1": "12345678", "new_password2": "12345678"})
    assert list(answer.context["form"].errors) == ["new_password1"], "beside the password, not beside its repetition"
    user.refresh_from_db()
    assert not user.check_password("12345678")


def test_known_and_unknown_addresses_get_the_same_answer_for_the_same_work(
    client: Client, person: Callable[[str], User], settings: Any, django_capture_on_commit_callbacks: Any
) -> None:
    person("ops")
    settings.EMAIL_HOST = "mail.example.com"
    pages, work = [], []
    for address in ("ops@example.com", "nobody@example.com"):
        cache.clear()
        with (
            django_capture_on_commit_callbacks(execute=True) as jobs,
            CaptureQueriesContext(connection) as queries,
        ):
            answer = client.post("/password/reset/", {"email": address})
        pages.append((answer.status_code, answer["Location"], answer.content))
        work.append((shapes(queries), len(jobs)))
    assert pages[0] == pages[1]
    assert work[0] == work[1]
    assert work[0][1] == 1
    assert not any("auth_user" in sql for sql in work[0][0]), "whether there is an account is the worker's to find out"


def test_an_unknown_address_gets_no_mail(ask: Callable[[str], str]) -> None:
    assert "Check your mail" in ask("nobody@example.com")
    assert not mail.outbox


def test_the_queue_and_the_log_hold_no_link(
    person: Callable[[str], User],
    client: Client,
    settings: Any,
    django_capture_on_commit_callbacks: Any,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    person("ops")
    settings.EMAIL_HOST = "mail.example.com"
    with django_capture_on_commit_callbacks(execute=True), caplog.at_level("DEBUG"):
        client.post("/password/reset/", {"email": "ops@example.com"})
    task = SignedPackage.loads(OrmQ.objects.get().payload)
    assert "/password/set/" not in str(task)
    assert "ops@example.com" not in str(task)
    assert "/password/set/" not in str(BackgroundJob.objects.values())
    assert "/password/set/" not in caplog.text + "".join(capsys.readouterr())


def test_without_a_mail_server_the_page_says_whom_to_ask(
    person: Callable[[str], User],
    client: Client,
    settings: Any,
    django_capture_on_commit_callbacks: Any,
    capsys: pytest.CaptureFixture[str],
) -> None:
    person("ops")
    settings.EMAIL_HOST = ""
    assert "Ask an admin for one" in client.get("/password/reset/").content.decode()
    with django_capture_on_commit_callbacks(execute=True):
        answer = client.post("/password/reset/", {"email": "ops@example.com"}, follow=True)
    assert "No mail is sent from here" in answer.content.decode()
    assert not mail.outbox
    assert not OrmQ.objects.exists()
    assert "/password/set/" not in "".join(capsys.readouterr())


def test_who_lost_the_invitation_gets_a_link_and_who_was_deactivated_does_not(
    person: Callable[[str], User], ask: Callable[[str], str]
) -> None:
    people.invite("ana@example.com", "labeler", None)
    ask("ana@example.com")
    assert len(mail.outbox) == 1
    people.deactivate(person("labeler"), None)
    ask("labeler@example.com")
    assert len(mail.outbox) == 1


def test_signing_in_says_what_did_not_fit(client: Client, person: Callable[[str], User]) -> None:
    person("ops")
    answer = client.post("/login/", {"login": "ops@example.com", "password": "wrong"})
    assert "is wrong" in answer.content.decode()
