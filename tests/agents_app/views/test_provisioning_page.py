"""Page: provisioning. Its tokens, shown once, and the roles that groups give; and the command that makes the same tokens."""

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client

from agents_app.accounts import people
from agents_app.models import AuditEntry, Pool, PoolRole, ScimGroup, ScimPerson, ScimToken
from agents_app.scim import tokens

pytestmark = pytest.mark.django_db
PAGE = "/people/provisioning/"


def test_a_token_is_shown_once_rotated_and_revoked(admin: Client) -> None:
    assert "Provisioning is off" in admin.get(PAGE).text
    answer = admin.post(PAGE, {"name": "Okta"})
    secret = answer.context["secret"]
    assert secret in answer.text
    assert "no-store" in answer["Cache-Control"]
    token = ScimToken.objects.get()
    assert token.digest == ScimToken.digest_of(secret)
    assert secret not in admin.get(PAGE).text
    rotated = admin.post(f"{PAGE}tokens/{token.pk}/rotate/", {"grace": "1h"}).context["secret"]
    assert {tokens.of(f"Bearer {one}") for one in (secret, rotated)} == {token}
    assert "Choose how long" in admin.post(f"{PAGE}tokens/{token.pk}/rotate/", {"grace": "ever"}, follow=True).text
    admin.post(f"{PAGE}tokens/{token.pk}/revoke/")
    assert {tokens.of(f"Bearer {one}") for one in (secret, rotated)} == {None}
    assert "revoked before" in admin.post(f"{PAGE}tokens/{token.pk}/revoke/", follow=True).text
    assert list(AuditEntry.objects.filter(action__startswith="scim_token").order_by("pk").values_list("action", flat=True)) == [
        "scim_token.created", "scim_token.rotated", "scim_token.revoked",
    ]  # fmt: skip


def test_an_admin_says_what_a_group_gives(admin: Client, pool: Pool, settings) -> None:
    settings.SCIM = True
    ana = User.objects.create_user("ana@example.com", "ana@example.com")
    group = ScimGroup.objects.create(name="Routing people")
    group.members.add(ScimPerson.objects.create(user=ana))
    path = f"{PAGE}groups/{group.pk}/role/"
    assert "Routing people" in admin.get(PAGE).text
    admin.post(path, {"role": "ops", "pool": pool.slug})
    assert PoolRole.objects.get().role == "ops"
    assert "for all pools" in admin.post(path, {"role": "admin", "pool": pool.slug}, follow=True).text
    assert "Choose one of the roles" in admin.post(path, {"role": "king"}, follow=True).text
    admin.post(path, {"role": "reviewer", "pool": ""})
    assert (people.role_of(User.objects.get(pk=ana.pk)), PoolRole.objects.exists()) == ("reviewer", False)


def test_the_command_makes_rotates_and_revokes(db: None, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("scim_token", "okta")
    said = capsys.readouterr()
    first = said.out.strip()
    assert "/scim/v2" in said.err
    assert "SCIM is off here" in said.err
    with pytest.raises(CommandError, match="already"):
        call_command("scim_token", "okta")
    call_command("scim_token", "okta", "--rotate", "now")
    second = capsys.readouterr().out.strip()
    assert (tokens.of(f"Bearer {first}"), tokens.of(f"Bearer {second}")) == (None, ScimToken.objects.get())
    call_command("scim_token", "okta", "--revoke")
    assert tokens.of(f"Bearer {second}") is None
    with pytest.raises(CommandError, match="no token 'entra'"):
        call_command("scim_token", "entra", "--revoke")
