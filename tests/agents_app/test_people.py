"""People: invited, given a role, deactivated; the last admin stays."""

from collections.abc import Callable
from smtplib import SMTPException
from urllib.parse import urlparse

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client

from agents_app import people
from agents_app.access import Role, roles_of
from agents_app.models import AuditEntry
from agents_app.people import PeopleError

pytestmark = pytest.mark.django_db


def test_an_invited_person_sets_a_password_once_and_signs_in(person: Callable[[str], User]) -> None:
    invitation = people.invite(" Ana@Example.com ", "reviewer", person("admin"), base_url="http://testserver")
    user = invitation.user
    assert (user.username, user.email, user.is_staff, user.is_superuser) == (
        "ana@example.com",
        "ana@example.com",
        True,
        False,
    )
    assert not user.has_usable_password()
    assert not invitation.mailed
    assert roles_of(user) == {Role.LABELER, Role.REVIEWER}

    browser = Client()
    form = browser.get(urlparse(invitation.link).path, follow=True)
    assert form.context["validlink"]
    new = {"new_password1": "horse battery 9", "new_password2": "horse battery 9"}
    done = browser.post(form.redirect_chain[-1][0], new)
    assert done.status_code == 302
    assert not browser.get(urlparse(invitation.link).path, follow=True).context["validlink"]
    signed_in = browser.post("/login/", {"login": "ANA@example.com", "password": "horse battery 9", "next": "/audit/"})
    assert (signed_in.status_code, signed_in["Location"]) == (302, "/audit/")


@pytest.mark.parametrize(
    "email", ["", "ana", "ana@", "a" * 140 + "@example.com", "ana@example.com\nBcc: x@example.com"]
)
def test_what_is_no_address_is_refused(email: str) -> None:
    with pytest.raises(PeopleError):
        people.invite(email, "labeler", None)
    assert not User.objects.exists()


def test_nobody_is_invited_twice(person: Callable[[str], User]) -> None:
    ops = person("ops")
    with pytest.raises(PeopleError, match="has an account already"):
        people.invite("OPS@example.com", "labeler", None)
    people.deactivate(ops, None)
    with pytest.raises(PeopleError, match="Reactivate it instead"):
        people.invite("ops@example.com", "labeler", None)
    with pytest.raises(PeopleError, match="not a role"):
        people.invite("new@example.com", "boss", None)


def test_the_link_is_mailed_where_mail_is_set_up(settings: object) -> None:
    settings.EMAIL_HOST = "mail.example.com"  # type: ignore[attr-defined]
    invitation = people.invite("ana@example.com", "labeler", None)
    assert invitation.mailed
    (message,) = mail.outbox
    assert message.to == ["ana@example.com"]
    assert invitation.link in message.body


def test_a_mail_that_cannot_be_sent_still_leaves_the_link(settings: object, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.EMAIL_HOST = "mail.example.com"  # type: ignore[attr-defined]

    def refuse(*args: object, **kwargs: object) -> None:
        raise SMTPException("no such relay")

    monkeypatch.setattr(people, "send_mail", refuse)
    invitation = people.invite("ana@example.com", "labeler", None)
    assert "no such relay" in invitation.problem
    assert "/password/set/" in invitation.link
    assert User.objects.filter(username="ana@example.com").exists()


def test_the_last_admin_stays(person: Callable[[str], User]) -> None:
    admin = person("admin")
    with pytest.raises(PeopleError, match="last active admin"):
        people.deactivate(admin, admin)
    with pytest.raises(PeopleError, match="last active admin"):
        people.set_role(admin, "ops", admin)
    # One who was invited and never came does not count: nobody could get in.
    people.invite("second@example.com", "admin", admin)
    with pytest.raises(PeopleError, match="last active admin"):
        people.deactivate(admin, admin)
    second = User.objects.get(username="second@example.com")
    second.set_password("long enough one")
    second.save()
    people.deactivate(admin, second)
    assert not User.objects.get(pk=admin.pk).is_active
    with pytest.raises(PeopleError, match="last active admin"):
        people.set_role(second, "labeler", second)


def test_a_superuser_counts_as_an_admin_and_can_be_made_less(person: Callable[[str], User]) -> None:
    root = User.objects.create_superuser("root@example.com", "root@example.com", "long enough one")
    assert people.role_of(root) == Role.ADMIN
    people.deactivate(person("admin"), root)
    with pytest.raises(PeopleError):
        people.set_role(root, "ops", root)
    people.reactivate(person("admin"), root)
    less = people.set_role(root, "ops", root)
    assert (less.is_superuser, people.role_of(less)) == (False, Role.OPS)


def test_a_role_replaces_the_role_before(person: Callable[[str], User]) -> None:
    user = people.set_role(person("labeler"), Role.OPS, person("admin"))
    assert [group.name for group in user.groups.all()] == ["ops"]
    entry = AuditEntry.objects.get(action="person.role")
    assert entry.detail == {"before": "labeler", "role": "ops"}
    people.set_role(user, "ops", None)
    assert AuditEntry.objects.filter(action="person.role").count() == 1


def test_deactivating_ends_open_sessions_and_keeps_the_person(person: Callable[[str], User]) -> None:
    user, browser = person("ops"), Client()
    browser.force_login(user)
    assert browser.get("/audit/").status_code == 200
    people.deactivate(user, None)
    assert browser.get("/audit/").status_code == 302
    assert people.role_of(User.objects.get(pk=user.pk)) == Role.OPS
    with pytest.raises(PeopleError, match="is deactivated"):
        people.new_link(User.objects.get(pk=user.pk), None)
    people.reactivate(user, None)
    browser.force_login(user)
    assert browser.get("/audit/").status_code == 200


def test_sign_up_is_closed() -> None:
    assert not User.objects.exists()
    for path in ("/accounts/signup/", "/signup/", "/admin/auth/user/add/"):
        assert Client().post(path, {"username": "x", "password1": "horse battery 9"}).status_code in (302, 403, 404)
    assert not User.objects.exists()
