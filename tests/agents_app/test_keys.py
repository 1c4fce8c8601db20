"""API keys: random, kept as a digest, scoped to pools, off at once when revoked."""

import json
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.utils import timezone

from agents_app import keys
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
    assert keys.revoke(key, None, actor_name="test") is True
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
