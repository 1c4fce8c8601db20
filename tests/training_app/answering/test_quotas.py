"""A key's month: counted in shares over all processes, refused alike, anew with the calendar."""

from datetime import UTC, date, datetime

import pytest
from django.db import DatabaseError

from agents_app import keys
from agents_app.background_work import leases
from agents_app.models import KeyMonth
from training_app.answering import key_shares, quotas, throttle
from training_app.answering.loaded import Caller, Served

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
MARCH = date(2026, 3, 1)


@pytest.fixture
def clock(monkeypatch):
    """All clocks, which stand until a test moves them: 20 March 2026, noon UTC."""

    class Clock:
        now = datetime(2026, 3, 20, 12, tzinfo=UTC).timestamp()

    for module in (throttle.time, quotas.time):
        monkeypatch.setattr(module, "time", lambda: Clock.now)
    monkeypatch.setattr(throttle.time, "monotonic", lambda: Clock.now)
    monkeypatch.setattr(leases, "now", lambda: Clock.now)
    return Clock


def refused(key: int, texts: list[str], quota: quotas.Quota) -> quotas.Exceeded:
    with pytest.raises(throttle.Exceeded) as caught:
        throttle.take(key, texts, quota)
    return caught.value


def known_of(key: int, quota: quotas.Quota) -> None:
    quotas.know(Served(1, callers={"digest": Caller(key, "shop", frozenset(), (), None, quota=quota)}))


def test_a_month_is_refused_once_it_is_used_up_and_begins_anew(app, clock):
    quota = (5, None)
    throttle.take(app.key.pk, ["x"] * 4, quota)
    too_large = refused(app.key.pk, ["x"] * 2, quota)
    assert (too_large.code, "1 of them are left" in str(too_large)) == ("quota_exhausted", True)
    throttle.take(app.key.pk, ["x"], quota)
    used_up = refused(app.key.pk, ["x"], quota)
    assert "all of them are used" in str(used_up)
    assert "2026-04-01T00:00:00+00:00" in used_up.hint
    assert used_up.seconds == 11 * 86_400 + 43_200
    throttle.settle()
    clock.now = datetime(2026, 4, 1, tzinfo=UTC).timestamp()
    throttle.take(app.key.pk, ["x"], quota)
    throttle.settle()
    assert dict(KeyMonth.objects.values_list("month", "queries")) == {MARCH: 5, date(2026, 4, 1): 1}


def test_what_a_month_had_left_to_tell_is_told_after_its_end(app, clock):
    throttle.take(app.key.pk, ["x"] * 3, (5, None))
    clock.now = datetime(2026, 4, 1, tzinfo=UTC).timestamp()
    throttle.take(app.key.pk, ["x"], (5, None))
    throttle.settle()
    assert dict(KeyMonth.objects.values_list("month", "queries")) == {MARCH: 3, date(2026, 4, 1): 1}


def test_characters_are_counted_as_the_router_reads_them(app, clock):
    throttle.take(app.key.pk, ["\ufdfa"], (None, 20))
    assert "20 characters a month, and 2 of them are left" in str(refused(app.key.pk, ["xxx"], (None, 20)))


def test_what_the_minute_refuses_costs_nothing_of_the_month_and_the_other_way_round(app, clock, settings):
    settings.ROUTE_RATE_PER_MINUTE = 3
    throttle.take(app.key.pk, ["x"] * 3, (10, None))
    assert refused(app.key.pk, ["x"], (10, None)).code == "too_many_requests"
    clock.now += 60
    assert refused(app.key.pk, ["x"] * 8, (10, None)).code == "quota_exhausted"
    throttle.take(app.key.pk, ["x"] * 3, (10, None))
    throttle.settle()
    assert KeyMonth.objects.get().queries == 6


def test_processes_together_stay_within_the_quota_to_the_last_query(app, clock):
    """Three processes that spend all they are given: the quota is used whole, and never more."""
    spent, shares = 0, dict.fromkeys("abc", 0)
    for _turn in range(60):
        for name in "abc":
            told, held = key_shares.settle_month(app.key.pk, MARCH, (100, None), (shares[name], 0), name=name)
            shares[name] = held[0]
            spent += held[0]
            assert spent <= 100
            assert told[0] <= 100
    assert spent == 100
    assert KeyMonth.objects.get().queries == 100


def test_two_processes_share_evenly_and_who_leaves_gives_back(app, clock):
    month = (app.key.pk, MARCH, (100, None))
    assert key_shares.settle_month(*month, (0, 0), name="a")[1] == [100, 0]
    assert key_shares.settle_month(*month, (0, 0), name="b")[1] == [0, 0]
    assert key_shares.settle_month(*month, (10, 0), name="a") == ([10, 0], [45, 0])
    assert key_shares.settle_month(*month, (0, 0), name="b")[1] == [45, 0]
    key_shares.settle_month(*month, (5, 0), leave=True, name="a")
    assert key_shares.settle_month(*month, (0, 0), name="b") == ([15, 0], [85, 0])
    # One that was killed holds nothing for ever: what it had not used is free again.
    clock.now += leases.SILENT_SECONDS + 1
    assert key_shares.settle_month(*month, (0, 0), name="c") == ([15, 0], [85, 0])


def test_a_process_that_starts_late_knows_that_nothing_is_left(app, clock):
    KeyMonth.objects.create(api_key=app.key, month=MARCH, queries=5)
    known_of(app.key.pk, (5, None))
    assert refused(app.key.pk, ["x"], (5, None)).code == "quota_exhausted"


def test_before_its_first_share_a_process_takes_little(app, clock, settings, monkeypatch):
    settings.BACKGROUND_THREADS = True
    monkeypatch.setattr(throttle.settler, "start", lambda *_rest: False)
    throttle.take(app.key.pk, ["x"] * 30, (1_000, None))
    late = refused(app.key.pk, ["x"], (1_000, None))
    assert (late.code, late.seconds) == ("too_many_requests", 1)
    throttle.settle()
    throttle.take(app.key.pk, ["x"] * 970, (1_000, None))
    assert refused(app.key.pk, ["x"], (1_000, None)).code == "quota_exhausted"


def test_what_others_hold_is_no_end_of_the_month(app, clock):
    key_shares.settle_month(app.key.pk, MARCH, (10, None), (0, 0), name="other")
    throttle.take(app.key.pk, ["x"], (10, None))
    throttle.settle()
    assert (refused(app.key.pk, ["x"], (10, None)).code, quotas._months[app.key.pk].held) == (
        "too_many_requests",
        [0, 0],
    )


def test_another_quota_counts_what_was_used_before(app, clock):
    throttle.take(app.key.pk, ["x"] * 5, (5, None))
    throttle.settle()
    assert refused(app.key.pk, ["x"], (5, None)).code == "quota_exhausted"
    throttle.take(app.key.pk, ["x"], (6, None))
    assert refused(app.key.pk, ["x"], (6, None)).code == "quota_exhausted"


def test_without_a_database_a_process_goes_on_with_its_share(app, clock, monkeypatch, caplog):
    quota = (10, None)
    throttle.take(app.key.pk, ["x"], quota)
    throttle.settle()

    def away(*_arguments: object, **_named: object) -> None:
        raise DatabaseError("connection refused")

    with monkeypatch.context() as patch:
        patch.setattr(key_shares, "settle_month", away)
        throttle.take(app.key.pk, ["x"] * 2, quota)
        throttle.settle()
        assert "cannot be settled" in caplog.text
        throttle.take(app.key.pk, ["x"] * 7, quota)
        assert refused(app.key.pk, ["x"], quota).code == "quota_exhausted"
    throttle.settle()
    assert KeyMonth.objects.get().queries == 10


def test_a_request_asks_the_database_nothing_and_a_quiet_key_neither(app, clock, django_assert_num_queries):
    with django_assert_num_queries(0):
        throttle.take(app.key.pk, ["x"], (10, None))
    throttle.settle()
    clock.now += quotas.QUIET_SECONDS + 1
    throttle.settle()
    assert KeyMonth.objects.get().shares == {}
    with django_assert_num_queries(0):
        quotas.settle()


def test_a_fork_leaves_to_its_parent_what_that_holds(app, clock):
    throttle.take(app.key.pk, ["x"] * 2, (10, None))
    throttle.settle()
    throttle.take(app.key.pk, ["x"] * 3, (10, None))
    quotas.leave_to_parent()
    month = quotas._months[app.key.pk]
    assert (month.counted, month.used, month.held) == ([2, 0], [0, 0], None)


def test_the_api_tells_what_is_left(app, model, in_memory):
    in_memory()
    assert app.get("/api/quota/").json()["queries"] is None
    keys.set_quota(app.key, None, queries=10, characters=None)
    in_memory()
    app.route()
    throttle.settle()
    app.route()
    told = app.get("/api/quota/").json()
    assert told["queries"] == {"limit": 10, "used": 2, "left": 8}
    assert told["characters"] is None
    assert told["resets_at"].endswith("-01T00:00:00Z")
