"""API keys: random, kept as a digest, scoped to pools, off at once when revoked."""

import json
from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from agents_app import keys
from agents_app.audit import Actor
from agents_app.models import ApiKey, AuditEntry, Pool, Stamp

pytestmark = pytest.mark.django_db


def test_a_key_is_kept_only_as_its_digest(pool: Pool) -> None:
    before = Stamp.current()
    key, secret = keys.create_key("Shop", [pool], ["ops", "route"])
    key.refresh_from_db()
    assert secret.startswith("rw_")
    assert len(secret) == 46
    assert key.digest == ApiKey.digest_of(secret)
    assert secret.startswith(key.prefix)
    assert len(key.prefix) == 8
    assert key.scopes == ["route", "ops"]
    assert list(key.pools.all()) == [pool]
    assert Stamp.current() == before + 1
    assert secret not in json.dumps([[*row] for row in ApiKey.objects.values_list()], default=str)
    assert secret not in json.dumps([[*row] for row in AuditEntry.objects.values_list()], default=str)


def test_two_keys_differ(pool: Pool) -> None:
    assert keys.create_key("A", [pool], ["route"])[1] != keys.create_key("A", [pool], ["route"])[1]


@pytest.mark.parametrize(
    ("name", "scopes", "with_pool", "said"),
    [
        (" ", ["route"], True, "no name"),
        ("n" * 121, ["route"], True, "longer than 120"),
        ("A", ["root"], True, "'root' is not known"),
        ("A", [], True, "is not known"),
        ("A", ["route"], False, "opens no pool"),
    ],
)
def test_a_key_that_makes_no_sense_is_refused(
    pool: Pool, name: str, scopes: list[str], with_pool: bool, said: str
) -> None:
    with pytest.raises(keys.KeyRefused, match=said):
        keys.create_key(name, [pool] if with_pool else [], scopes)
    assert not ApiKey.objects.exists()


def test_a_key_cannot_be_born_expired(pool: Pool) -> None:
    with pytest.raises(keys.KeyRefused, match="expired already"):
        keys.create_key("A", [pool], ["route"], expires_at=timezone.now() - timedelta(seconds=1))


def test_revoking_is_told_once(pool: Pool) -> None:
    key, _secret = keys.create_key("Shop", [pool], ["route"])
    before = Stamp.current()
    assert keys.revoke(key, Actor("test")) is True
    assert key.revoked_at is not None
    assert not ApiKey.objects.live().exists()
    assert keys.revoke(key, None) is False
    assert Stamp.current() == before + 1
    assert AuditEntry.objects.filter(action="key.revoked", actor_name="test").count() == 1


def test_the_secret_is_in_no_log(
    pool: Pool, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level("DEBUG"):
        call_command("create_api_key", "shop", "--pool", pool.slug)
    secret = capsys.readouterr().out.strip()
    assert ApiKey.objects.get().digest == ApiKey.digest_of(secret)
    logged = [record.getMessage() for record in caplog.records]
    assert not any(secret in line for line in logged)


def test_a_key_that_labels_does_so_as_somebody(pool: Pool, person) -> None:
    ana = person("labeler")
    key, _secret = keys.create_key("Slack", [pool], ["label"], labels_as=ana)
    key.refresh_from_db()
    assert key.person == ana
    assert AuditEntry.objects.get(action="key.created").detail["labels_as"] == ana.get_username()
    with pytest.raises(keys.KeyRefused, match="whose labels"):
        keys.create_key("Slack", [pool], ["route", "label"])
    with pytest.raises(keys.KeyRefused, match=r"ops@.*may not label"):
        keys.create_key("Slack", [pool], ["label"], labels_as=person("ops"))
    assert keys.create_key("Shop", [pool], ["route"], labels_as=ana)[0].person is None


def test_a_key_that_somebody_makes_labels_for_them_and_for_nobody_else(pool: Pool, person) -> None:
    ana, admin = person("labeler"), person("admin")
    assert keys.create_key("Slack", [pool], ["label"], admin)[0].person == admin
    with pytest.raises(keys.KeyRefused, match="for nobody else"):
        keys.create_key("Slack", [pool], ["label"], admin, labels_as=ana)
    with pytest.raises(keys.KeyRefused, match=r"ops@.*may not label"):
        keys.create_key("Slack", [pool], ["label"], person("ops"))


def test_the_command_names_whose_labels_they_are(pool: Pool, person, capsys) -> None:
    ana = person("labeler")
    words = ("create_api_key", "Slack", "--pool", pool.slug, "--scope", "label")
    call_command(*words, "--labels-as", ana.get_username())
    assert ApiKey.objects.get().person == ana
    with pytest.raises(CommandError, match="whose labels"):
        call_command(*words)
    with pytest.raises(CommandError, match="no user 'nobody'"):
        call_command(*words, "--labels-as", "nobody")
