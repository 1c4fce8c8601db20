"""The first account of a new installation: by a link that works once, and whoever sets a password is signed in."""

import re

import pytest
from django.contrib.auth.models import User
from django.core import signing
from django.core.cache import caches
from django.test import Client
from django.urls import reverse

from agents_app.access import Role, roles_of
from agents_app.accounts import people, setup
from agents_app.models import AuditEntry

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def new_process() -> None:
    caches["process"].clear()


SAID = {"email": "Ada@Example.com", "password": "a-long-password-1"}


@pytest.mark.parametrize("page", ["/", "/login/", "/pools/", "/p/support/label/"])
def test_any_page_of_a_new_installation_leads_to_setup(page: str) -> None:
    html = Client().get(page, follow=True).content.decode()
    assert "Open the link that Routerweb printed" in html


def test_the_link_makes_the_first_admin_and_signs_in() -> None:
    client = Client()
    link = setup.link()
    assert client.get(link).status_code == 200
    answer = client.post(link, SAID)
    assert (answer.status_code, answer["Location"]) == (302, "/")
    user = User.objects.get()
    assert user.username == user.email == "ada@example.com"
    assert Role.ADMIN in roles_of(user)
    assert client.get("/").status_code == 200
    assert AuditEntry.objects.filter(action="site.set_up").exists()
    assert "Make the pool" in client.get("/").content.decode()


def test_it_works_once() -> None:
    link = setup.link()
    Client().post(link, SAID)
    later = Client()
    for method in (later.get, later.post):
        assert method(link, {**SAID, "email": "eve@example.com"})["Location"] == "/login/"
    assert later.get("/login/").status_code == 200
    assert User.objects.count() == 1
    assert setup.make_first("eve@example.com", "a-long-password-1") is None


@pytest.mark.parametrize(
    "token", ["made-up", signing.dumps("first admin", salt="another")], ids=["made up", "another salt"]
)
def test_no_other_token_opens_it(token: str) -> None:
    assert Client().post(reverse("setup", args=[token]), SAID)["Location"] == "/login/"
    assert not User.objects.exists()


def test_an_old_link_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    link = setup.link()
    monkeypatch.setattr(setup, "DAY", -1)
    assert Client().post(link, SAID)["Location"] == "/login/"
    assert not User.objects.exists()


def test_a_bad_password_is_told_beside_its_field() -> None:
    answer = Client().post(setup.link(), {**SAID, "password": "short"})
    assert answer.status_code == 422
    assert "too short" in answer.content.decode()
    assert not User.objects.exists()


def test_who_sets_a_password_by_an_invitation_is_signed_in() -> None:
    User.objects.create_superuser("root@example.com", "root@example.com", "a-long-password-1")
    invitation = people.invite("lea@example.com", Role.LABELER, None, base_url="http://testserver")
    path = re.sub(r"^https?://[^/]+", "", invitation.link)
    client = Client()
    assert client.get(path).status_code == 200
    said = {"new_password1": "another-long-password-2", "new_password2": "another-long-password-2"}
    answer = client.post(path, said)
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert client.get("/").wsgi_request.user.username == "lea@example.com"
