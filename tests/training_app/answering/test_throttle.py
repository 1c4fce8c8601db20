"""A key's minute: requests, queries and characters, and one minute for all processes together."""

from datetime import UTC, datetime

import pytest
from django.db import DatabaseError

from agents_app import keys
from agents_app.background_work import leases
from training_app.answering import key_shares, throttle
from training_app.models import KeyMinute

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
LIMITS = (0, 60, 6000)


@pytest.fixture
def clock(monkeypatch):
    """Both clocks, which stand until a test moves them."""

    class Clock:
        now = 1000.0

    monkeypatch.setattr(throttle.time, "monotonic", lambda: Clock.now)
    monkeypatch.setattr(leases, "now", lambda: Clock.now)
    return Clock


def refused(key: int, texts: list[str]) -> str:
    with pytest.raises(throttle.Exceeded) as caught:
        throttle.take(key, texts)
    return str(caught.value)


def test_requests_queries_and_characters_each_have_their_limit(settings, clock):
    settings.ROUTE_REQUESTS_PER_MINUTE = 3
    settings.ROUTE_RATE_PER_MINUTE = 10
    settings.ROUTE_CHARACTERS_PER_MINUTE = 100
    throttle.take(1, ["x" * 10] * 4)
    assert "10 queries a minute" in refused(1, ["x"] * 7)
    assert "100 characters a minute" in refused(1, ["x" * 61])
    throttle.take(1, ["x"])
    throttle.take(1, ["x"])
    assert "3 requests a minute" in refused(1, ["x"])
    clock.now += 20
    throttle.take(1, ["x"])


def test_a_ligature_costs_what_the_router_reads(settings, clock):
    settings.ROUTE_CHARACTERS_PER_MINUTE = 100
    assert throttle.read_length("ﷺ" * 5) == 90
    throttle.take(1, ["ﷺ" * 5])
    assert "characters" in refused(1, ["ﷺ"])


def test_processes_share_one_minute(app, clock):
    key = app.key.pk
    none = [0.0] * 3
    first = key_shares.settle(key, LIMITS, none, none, name="a")
    assert (first.left, first.part) == ([0.0, 60.0, 6000.0], 1.0)
    # The second finds nothing free until the first has settled; then both hold half.
    second = key_shares.settle(key, LIMITS, none, none, name="b")
    assert (second.left, second.part) == ([0.0, 0.0, 0.0], 0.5)
    first = key_shares.settle(key, LIMITS, [0.0, 10.0, 0.0], first.left, name="a")
    second = key_shares.settle(key, LIMITS, none, second.left, name="b")
    assert (first.left[1], second.left[1]) == (25.0, 25.0)


@pytest.mark.at_length
def test_what_processes_use_together_stays_within_the_minute(app, clock):
    """Three processes that spend all they are given for two minutes: never more than the minute and what came back since."""
    key, spent = app.key.pk, 0.0
    shares = {name: key_shares.Share([0.0] * 3, 1.0) for name in "abc"}
    used = {name: [0.0] * 3 for name in "abc"}
    for turn in range(240):
        for name in "abc":
            shares[name] = key_shares.settle(key, LIMITS, used[name], shares[name].left, name=name)
            used[name] = list(shares[name].left)
            spent += used[name][1]
        clock.now += 0.5
        assert spent <= 60 + 0.5 * (turn + 1) + 1e-6
    assert spent >= 0.95 * 180


def test_a_debt_is_paid_by_the_minute(app, clock):
    none = [0.0] * 3
    share = key_shares.settle(app.key.pk, LIMITS, [0.0, 90.0, 0.0], none, name="a")
    assert share.left[1] == 0.0
    clock.now += 30
    assert key_shares.settle(app.key.pk, LIMITS, none, share.left, name="a").left[1] == 0.0
    clock.now += 1
    assert key_shares.settle(app.key.pk, LIMITS, none, none, name="a").left[1] == pytest.approx(1.0)


def test_who_leaves_gives_back_and_who_falls_silent_does_not(app, clock):
    none = [0.0] * 3
    held = key_shares.settle(app.key.pk, LIMITS, none, none, name="a").left
    key_shares.settle(app.key.pk, LIMITS, none, held, leave=True, name="a")
    assert KeyMinute.objects.get().shares == {}
    assert key_shares.settle(app.key.pk, LIMITS, none, none, name="b").left[1] == 60.0
    clock.now += leases.SILENT_SECONDS + 1
    assert key_shares.settle(app.key.pk, LIMITS, none, none, name="c").left[1] == pytest.approx(11.0)


def test_a_process_settles_and_gives_back_once_it_is_quiet(app, settings, clock):
    settings.ROUTE_RATE_PER_MINUTE = 60
    throttle.take(app.key.pk, ["x"] * 10)
    throttle.settle()
    other = key_shares.settle(app.key.pk, (0, 60, 0), [0.0] * 3, [0.0] * 3, name="other")
    assert other.part == 0.5
    throttle.settle()
    assert throttle._held[app.key.pk].part == 0.5
    assert "queries" in refused(app.key.pk, ["x"] * 30)
    clock.now += throttle.QUIET_SECONDS + 1
    throttle.settle()
    assert app.key.pk not in throttle._held


def test_without_a_database_each_process_keeps_its_part(app, settings, clock, monkeypatch, caplog):
    settings.ROUTE_RATE_PER_MINUTE = 60
    throttle.take(app.key.pk, ["x"] * 60)

    def away(*_arguments: object, **_named: object) -> None:
        raise DatabaseError("connection refused")

    with monkeypatch.context() as patch:
        patch.setattr(key_shares, "settle", away)
        throttle.settle()
        assert "cannot be settled" in caplog.text
        clock.now += 2
        throttle.take(app.key.pk, ["x"] * 2)
        assert "queries" in refused(app.key.pk, ["x"])
    throttle.settle()
    assert KeyMinute.objects.get().free[1] == -2.0, "what was used meanwhile is told, too"


def test_a_request_asks_the_database_nothing(app, model, settings, in_memory, django_assert_num_queries):
    settings.ROUTE_RATE_PER_MINUTE = 60
    in_memory()
    with django_assert_num_queries(0):
        throttle.take(app.key.pk, ["x"])


@pytest.mark.parametrize("limit", [0, 100])
def test_a_key_tells_when_it_was_last_used(pool, clock, settings, limit):
    settings.ROUTE_REQUESTS_PER_MINUTE = limit
    used, unused = (keys.create_key(name, [pool], ["route"])[0] for name in ("used", "unused"))
    throttle.take(used.pk, ["a text"])
    throttle.settle()
    assert keys.last_used([used.pk, unused.pk]) == {used.pk: datetime.fromtimestamp(1000, UTC)}
    clock.now += 61
    throttle.take(used.pk, ["a text"])
    throttle.settle()
    assert keys.last_used([used.pk]) == {used.pk: datetime.fromtimestamp(1061, UTC)}


def test_a_last_use_is_written_once_a_minute_however_often_it_is_used(pool, clock, django_assert_num_queries):
    key = keys.create_key("used", [pool], ["route"])[0]
    for _second in range(30):
        throttle.take(key.pk, ["a text"])
    throttle.settle()
    clock.now += 30
    throttle.take(key.pk, ["a text"])
    with django_assert_num_queries(0):
        throttle.settle()
