"""API keys: random, kept as a digest, scoped to pools, off at once when revoked."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from agents_app import keys
from agents_app.audit import Actor
from agents_app.models import ApiKey, AuditEntry, Pool, Stamp
from training_app.answering import serving

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
        ("A", ["route"], False, "has no pool"),
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
    guest = User.objects.create_user("guest@example.com")
    with pytest.raises(keys.KeyRefused, match=r"guest@.*has no role that labels"):
        keys.create_key("Slack", [pool], ["label"], labels_as=guest)
    assert keys.create_key("Shop", [pool], ["route"], labels_as=ana)[0].person is None


def test_a_key_that_somebody_makes_labels_for_them_and_for_nobody_else(pool: Pool, person) -> None:
    ana, admin = person("labeler"), person("admin")
    assert keys.create_key("Slack", [pool], ["label"], admin)[0].person == admin
    with pytest.raises(keys.KeyRefused, match="only for the person"):
        keys.create_key("Slack", [pool], ["label"], admin, labels_as=ana)


def test_the_command_names_whose_labels_they_are(pool: Pool, person, capsys) -> None:
    ana = person("labeler")
    words = ("create_api_key", "Slack", "--pool", pool.slug, "--scope", "label")
    call_command(*words, "--labels-as", ana.get_username())
    assert ApiKey.objects.get().person == ana
    with pytest.raises(CommandError, match="whose labels"):
        call_command(*words)
    with pytest.raises(CommandError, match="no user 'nobody'"):
        call_command(*words, "--labels-as", "nobody")


def works(secret: str) -> bool:
    return serving.caller_of(secret, serving.refresh()) is not None


@pytest.fixture
def loaded() -> Iterator[None]:
    serving.forget()
    yield
    serving.forget()


def test_a_rotated_key_has_two_secrets_for_a_while_and_is_one_key(
    pool: Pool, loaded: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, first = keys.create_key("Shop", [pool], ["route"])
    before = Stamp.current()
    second = keys.rotate(key, Actor("test"), grace="1h")
    assert second != first
    assert Stamp.current() == before + 1
    state = serving.refresh()
    assert {serving.caller_of(secret, state).pk for secret in (first, second)} == {key.pk}  # type: ignore[union-attr]
    assert key.old_prefix == first[:8]
    assert key.prefix == second[:8]
    # Nobody has to do anything: it ends by itself, in memory.
    later = timezone.now() + timedelta(minutes=61)
    monkeypatch.setattr(serving.time, "time", later.timestamp)
    assert serving.caller_of(first, state) is None
    assert serving.caller_of(second, state) is not None
    entry = AuditEntry.objects.get(action="key.rotated")
    assert entry.actor_name == "test"
    assert entry.detail["grace"] == "1h"
    kept = json.dumps(
        [[*row] for row in (*ApiKey.objects.values_list(), *AuditEntry.objects.values_list())], default=str
    )
    assert first not in kept
    assert second not in kept


def test_without_grace_the_old_secret_ends_at_once(pool: Pool, loaded: None) -> None:
    key, first = keys.create_key("Shop", [pool], ["route"])
    second = keys.rotate(key, None, grace="now")
    assert (works(first), works(second)) == (False, True)
    assert (key.old_digest, key.old_until, key.old_prefix) == (None, None, "")


def test_a_second_rotation_ends_the_oldest_secret(pool: Pool, loaded: None) -> None:
    key, first = keys.create_key("Shop", [pool], ["route"])
    second = keys.rotate(key, None, grace="7d")
    third = keys.rotate(key, None, grace="7d")
    assert [works(secret) for secret in (first, second, third)] == [False, True, True]


def test_the_old_secret_is_ended_early_and_told_once(pool: Pool, loaded: None) -> None:
    key, first = keys.create_key("Shop", [pool], ["route"])
    keys.rotate(key, None, grace="7d")
    assert keys.end_old_secret(key, None) is True
    assert not works(first)
    assert keys.end_old_secret(key, None) is False
    assert AuditEntry.objects.filter(action="key.old_secret_ended").count() == 1


def test_a_rotation_gives_a_new_term_and_the_old_secret_keeps_its_own(pool: Pool) -> None:
    ends = timezone.now() + timedelta(hours=2)
    key, _secret = keys.create_key("Shop", [pool], ["route"], expires_at=ends)
    keys.rotate(key, None, grace="24h", expires_at=ends + timedelta(days=90))
    assert key.old_until == ends
    assert key.expires_at == ends + timedelta(days=90)


def test_who_may_not_rotate_what(pool: Pool) -> None:
    ana, ben = (User.objects.create_superuser(name, f"{name}@example.com") for name in ("ana", "ben"))
    label, _secret = keys.create_key("Slack", [pool], ["label"], ana)
    with pytest.raises(keys.KeyRefused, match="labels as ana"):
        keys.rotate(label, ben)
    keys.rotate(label, ana)
    keys.rotate(label, Actor("rotate_api_key"))
    with pytest.raises(keys.KeyRefused, match="is not a grace period"):
        keys.rotate(label, ana, grace="a year")
    with pytest.raises(keys.KeyRefused, match="expired already"):
        keys.rotate(label, ana, expires_at=timezone.now())
    keys.revoke(label, None)
    with pytest.raises(keys.KeyRefused, match="Only a key that works"):
        keys.rotate(label, ana)


def test_the_command_prints_the_new_secret_alone(pool: Pool, loaded: None, capsys: pytest.CaptureFixture[str]) -> None:
    _key, first = keys.create_key("shop", [pool], ["route"])
    call_command("rotate_api_key", "shop", "--grace", "1h", "--days", "30")
    said = capsys.readouterr()
    assert works(said.out.strip())
    assert works(first)
    assert "the old one ends" in said.err
    keys.create_key("shop", [pool], ["route"])
    with pytest.raises(CommandError, match="several keys"):
        call_command("rotate_api_key", "shop")
    call_command("rotate_api_key", said.out[:8], "--grace", "now")
    assert "the old one has ended" in capsys.readouterr().err
    with pytest.raises(CommandError, match="no key"):
        call_command("rotate_api_key", "nothing")


def test_a_quota_is_kept_and_told(pool: Pool) -> None:
    key, _secret = keys.create_key("Shop", [pool], ["route"])
    assert key.quota is None
    keys.set_quota(key, Actor("test"), queries=100, characters=None)
    assert key.quota == (100, None)
    keys.set_quota(key, Actor("test"), queries=100, characters=None)
    assert AuditEntry.objects.get(action="key.quota").detail["quota"] == {"queries": 100, "characters": None}
    assert [(use.what, use.used, use.left) for use in keys.uses([key])[key.pk]] == [("queries", 0, 100)]
    with pytest.raises(keys.KeyRefused, match="whole number from 1"):
        keys.set_quota(key, None, queries=0, characters=None)


def test_keys_that_end_soon_are_found(pool: Pool) -> None:
    now = timezone.now()
    for days in (3, 6, 8):
        keys.create_key(f"{days} days", [pool], ["route"], expires_at=now + timedelta(days=days))
    keys.create_key("never", [pool], ["route"])
    assert [key.name for key in ApiKey.objects.expiring(keys.EXPIRES_SOON)] == ["3 days", "6 days"]


def test_a_keys_history_outlives_its_secrets(pool: Pool) -> None:
    key, _secret = keys.create_key("Shop", [pool], ["route"])
    keys.create_key("Shop", [pool], ["route"])
    keys.rotate(key, None, grace="1h")
    keys.set_quota(key, None, queries=10, characters=None)
    keys.rotate(key, None, grace="now")
    keys.revoke(key, None)
    done = ["key.revoked", "key.rotated", "key.quota", "key.rotated", "key.created"]
    assert [entry.action for entry in keys.history(key)] == done
