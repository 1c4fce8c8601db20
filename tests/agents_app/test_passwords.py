"""Forgotten passwords and first ones."""

import re
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client

from agents_app import people

pytestmark = pytest.mark.django_db


def test_the_sign_in_page_leads_to_a_new_password(client: Client) -> None:
    assert "/password/reset/" in client.get("/login/").content.decode()
    assert client.get("/password/reset/").status_code == 200


def test_a_forgotten_password_is_set_anew_once(client: Client, person: Callable[[str], User]) -> None:
    user = person("ops")
    answer = client.post("/password/reset/", {"email": "OPS@example.com"}, follow=True)
    assert "Look into your mail" in answer.content.decode()
    (message,) = mail.outbox
    assert message.to == [user.email]
    found = re.search(r"http://testserver(/password/set/\S+)", message.body)
    assert found
    form = client.get(found.group(1), follow=True)
    new = {"new_password1": "horse battery 9", "new_password2": "horse battery 9"}
    done = client.post(form.redirect_chain[-1][0], new, follow=True)
    assert "You can sign in now" in done.content.decode()
    user.refresh_from_db()
    assert user.check_password("horse battery 9")
    assert "This link is used up" in client.get(found.group(1), follow=True).content.decode()


def test_a_weak_password_is_refused_with_the_reason(client: Client, person: Callable[[str], User]) -> None:
    user = person("ops")
    path = people.set_password_link(user, "http://testserver").removeprefix("http://testserver")
    form = client.get(path, follow=True)
    answer = client.post(form.redirect_chain[-1][0], {"new_password1": "12345678", "new_password2": "12345678"})
    assert list(answer.context["form"].errors) == ["new_password1"], "beside the password, not beside its repetition"
    user.refresh_from_db()
    assert not user.check_password("12345678")


def test_an_unknown_address_gets_the_same_answer_and_no_mail(client: Client) -> None:
    answer = client.post("/password/reset/", {"email": "nobody@example.com"}, follow=True)
    assert "Look into your mail" in answer.content.decode()
    assert not mail.outbox


def test_who_lost_the_invitation_gets_a_link_and_who_was_deactivated_does_not(
    client: Client, person: Callable[[str], User]
) -> None:
    people.invite("ana@example.com", "labeler", None)
    client.post("/password/reset/", {"email": "ana@example.com"})
    assert len(mail.outbox) == 1
    people.deactivate(person("labeler"), None)
    client.post("/password/reset/", {"email": "labeler@example.com"})
    assert len(mail.outbox) == 1


def test_signing_in_says_what_did_not_fit(client: Client, person: Callable[[str], User]) -> None:
    person("ops")
    answer = client.post("/login/", {"login": "ops@example.com", "password": "wrong"})
    assert "do not belong together" in answer.content.decode()
