"""People: invited, given a role, deactivated; the last admin stays."""

import re
from collections.abc import Callable
from io import StringIO
from smtplib import SMTPException
from typing import Any
from urllib.parse import urlparse

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.management import CommandError, call_command
from django.test import Client

from agents_app import keys
from agents_app.access import Role, roles_of
from agents_app.accounts import mail as agents_mail
from agents_app.accounts import people
from agents_app.accounts.people import PeopleError
from agents_app.models import ApiKey, AuditEntry, Pool, PoolRole, Stamp
from tests.clients import signed_in

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
    done = browser.post(urlparse(invitation.link).path, new)
    assert done.status_code == 302
    assert not browser.get(urlparse(invitation.link).path, follow=True).context["validlink"]
    answer = browser.post("/login/", {"login": "ANA@example.com", "password": "horse battery 9", "next": "/audit/"})
    assert (answer.status_code, answer["Location"]) == (302, "/audit/")


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


def test_a_worker_mails_the_link_where_mail_is_set_up(
    settings: Any, run_jobs: Callable[[], int], django_capture_on_commit_callbacks: Any
) -> None:
    settings.EMAIL_HOST = "mail.example.com"
    with django_capture_on_commit_callbacks(execute=True):
        invitation = people.invite("ana@example.com", "labeler", None, base_url="https://routes.example.com")
    assert invitation.mailed
    assert mail.outbox == [], "not while the page waits"
    assert run_jobs() == 1
    (message,) = mail.outbox
    assert (message.to, message.subject) == (["ana@example.com"], "You are invited to Routerweb")
    link = re.search(r"https://routes.example.com(/password/set/\S+)", message.body)
    assert link
    assert Client().get(link.group(1), follow=True).context["validlink"]


def test_a_mail_that_cannot_be_sent_is_told_to_the_audit_trail(
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
    run_jobs: Callable[[], int],
    django_capture_on_commit_callbacks: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.EMAIL_HOST = "mail.example.com"

    def refuse(*args: object, **kwargs: object) -> None:
        raise SMTPException("no such relay")

    monkeypatch.setattr(agents_mail, "send_mail", refuse)
    with django_capture_on_commit_callbacks(execute=True):
        invitation = people.invite("ana@example.com", "labeler", None)
    assert "/password/set/" in invitation.link
    run_jobs()
    entry = AuditEntry.objects.get(action="person.mail_failed")
    assert (entry.target, entry.detail["why"]) == ("ana@example.com", "SMTPException: no such relay")
    assert "/password/set/" not in caplog.text


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
    assert browser.get("/audit/").status_code == 302, "the session of before is over for good"
    browser.force_login(user)
    assert browser.get("/audit/").status_code == 200


def test_a_session_that_came_between_does_not_revive_either(person: Callable[[str], User]) -> None:
    user, other, late, stays = person("ops"), person("reviewer"), Client(), Client()
    stays.force_login(other)
    people.deactivate(user, None)
    late.force_login(user)  # a sign-in that was under way
    people.reactivate(user, None)
    assert late.get("/audit/").status_code == 302
    assert stays.get("/").status_code == 200


def test_the_link_of_a_deactivated_invitation_sets_no_password(person: Callable[[str], User]) -> None:
    invitation = people.invite("ana@example.com", "reviewer", person("admin"))
    people.deactivate(invitation.user, None)
    page = Client().get(urlparse(invitation.link).path, follow=True)
    assert not page.context["validlink"]
    new = {"new_password1": "horse battery 9", "new_password2": "horse battery 9"}
    Client().post(urlparse(invitation.link).path, new, follow=True)
    assert not User.objects.get(username="ana@example.com").has_usable_password()


@pytest.mark.parametrize("action", ["link", "role", "deactivate", "activate"])
def test_an_admin_changes_nothing_of_a_superuser(person: Callable[[str], User], action: str) -> None:
    root = User.objects.create_superuser("root@example.com", "root@example.com", "long enough one")
    if action == "activate":
        person("admin")
        User.objects.filter(pk=root.pk).update(is_active=False)
    browser = signed_in(person("admin"))
    answer = browser.post(f"/people/{root.pk}/{action}/", {"role": "labeler"}, follow=True)
    assert "root@example.com is a superuser" in answer.content.decode()
    assert "/password/set/" not in answer.content.decode()
    after = User.objects.get(pk=root.pk)
    assert (after.is_superuser, after.is_active) == (True, action != "activate")
    assert not AuditEntry.objects.exclude(action__startswith="pool.").filter(target="root@example.com").exists()


def test_a_superuser_and_the_command_line_may(person: Callable[[str], User]) -> None:
    root = User.objects.create_superuser("root@example.com", "root@example.com", "long enough one")
    second = User.objects.create_superuser("second@example.com", "second@example.com", "long enough one")
    assert "/password/set/" in people.new_link(second, root).link
    assert "/password/set/" in people.new_link(second, None).link


@pytest.mark.both_databases
def test_keys_stop_with_their_maker_and_come_back_with_them(person: Callable[[str], User], pool: Pool) -> None:
    maker, browser = person("ops"), Client()
    keys.create_key("Shop", [pool], ["route"], maker)
    keys.create_key("Command", [pool], ["label"], labels_as=person("labeler"))
    keys.create_key("Other", [pool], ["route"])
    browser.force_login(person("admin"))
    before = Stamp.current()
    said = browser.post(f"/people/{maker.pk}/deactivate/", follow=True).content.decode()
    assert "Their API keys have stopped until they are reactivated: Shop." in said
    assert Stamp.current() > before
    assert AuditEntry.objects.get(action="person.deactivated").detail["keys_stopped"][0].startswith("Shop (rw_")
    people.deactivate(person("labeler"), None)
    assert [key.name for key in ApiKey.objects.live()] == ["Other"]
    assert "The account of the person who created it" in browser.get("/p/support/settings/keys/").content.decode()
    before = Stamp.current()
    people.reactivate(maker, None)
    assert Stamp.current() > before
    assert [key.name for key in ApiKey.objects.live()] == ["Other", "Shop"]


def test_sign_up_is_closed() -> None:
    assert not User.objects.exists()
    form = {"username": "x", "password1": "horse battery 9", "password2": "horse battery 9"}
    for path in ("/accounts/signup/", "/signup/"):
        assert Client().post(path, form).status_code == 404
    assert Client().post("/admin/auth/user/add/", form)["Location"].startswith("/admin/login/?next=")
    assert not User.objects.exists()


def test_a_command_invites_to_one_pool(pool: Pool) -> None:
    out = StringIO()
    call_command("invite_user", "cem@example.com", "--role", "ops", "--pool", pool.slug, stdout=out, stderr=StringIO())
    assert "/password/set/" in out.getvalue()
    user = User.objects.get(username="cem@example.com")
    assert (list(user.groups.all()), PoolRole.objects.get(user=user).role) == ([], Role.OPS)
    with pytest.raises(CommandError, match="no pool 'other'"):
        call_command("invite_user", "dan@example.com", "--pool", "other", stderr=StringIO())
    assert not User.objects.filter(username="dan@example.com").exists()
