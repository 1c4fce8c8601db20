"""Limits over a sliding minute, however many processes there are; and where an executor's call goes."""

import threading
import time
import uuid
from types import SimpleNamespace

import numpy as np
import pytest

from agents_app import sealing
from agents_app.background_work import leases
from agents_app.models import Pool
from orchestration_app.backends import calls, figures, measured, state, windows
from orchestration_app.backends.calls import Served
from orchestration_app.backends.state import PoolBackends
from orchestration_app.backends.windows import Usage, Used
from orchestration_app.models import Backend, BackendCall, BackendSettings
from training_app.answering import serving

ONE = 7


class Process:
    """One of several that share a limit: it uses what it holds, one call at a time."""

    def __init__(self, name: str, limit: windows.Three) -> None:
        self.name, self.limit = name, limit
        self.left, self.told = [0.0, 0.0, 0.0], Usage()

    def settle(self, state: dict, now: float) -> None:
        told, self.told = self.told, Usage()
        told.wants, told.asks = {ONE: 100.0}, {ONE}
        self.left = list(windows.settle(state, self.name, now, {ONE: self.limit}, told).get(ONE, (0, 0, 0)))

    def call(self) -> bool:
        sizes = (1, 100, 1)
        if any(limit and left < size for limit, left, size in zip(self.limit, self.left, sizes, strict=True)):
            return False
        self.left = [left - size for left, size in zip(self.left, sizes, strict=True)]
        used = self.told.used.setdefault(ONE, Used())
        used.requests, used.tokens, used.began = used.requests + 1, used.tokens + 100, used.began + 1
        return True


@pytest.mark.at_length
@pytest.mark.parametrize("limit", [(60.0, 0.0, 0.0), (0.0, 12_000.0, 0.0), (3.0, 0.0, 0.0), (100.0, 5_000.0, 0.0)])
def test_no_minute_holds_more_than_the_limit_and_equals_share_it(limit: windows.Three) -> None:
    state: dict = {}
    processes = [Process(str(i), limit) for i in range(8)]
    rng = np.random.Generator(np.random.PCG64(1))
    made: list[tuple[float, int]] = []
    for step in range(int(300 / 0.25)):
        now = step * 0.25
        for i in rng.permutation(8).tolist():
            processes[i].settle(state, now)
            while processes[i].call():
                made.append((now, i))
    times = np.array([at for at, _ in made])
    most = min(limit[0] or np.inf, limit[1] / 100 or np.inf)
    busiest = max(int(((times >= start) & (times < start + 60)).sum()) for start in times)
    assert busiest <= most
    assert len(made) >= 0.9 * most * 5, "and the limit is used"
    counts = np.bincount([i for _, i in made], minlength=8)
    if most >= 60:
        assert counts.max() / counts.mean() < 1.1, counts
        assert counts.min() / counts.mean() > 0.9, counts


def test_calls_in_flight_stay_within_the_limit_and_places_come_back() -> None:
    state: dict = {}
    limit = (0.0, 0.0, 4.0)
    first, second = Process("a", limit), Process("b", limit)
    first.settle(state, 0.0)
    assert sum(first.call() for _ in range(10)) == 4
    second.settle(state, 0.1)
    assert not second.call()
    first.settle(state, 0.2)
    first.told.used[ONE] = Used(ended=2)
    first.settle(state, 0.3)
    second.settle(state, 0.4)
    assert windows.flying_of(state, ONE) == 2
    assert first.left[2] + second.left[2] == 2


def test_what_a_silent_process_held_counts_as_used() -> None:
    left = Process("left", (10.0, 0.0, 0.0))
    state = {"held": {"gone": {"at": 0.0, "share": {"of": {str(ONE): [10.0, 0.0, 0.0]}, "asks": []}}}}
    left.settle(state, 9.0)
    assert left.left[0] == 0
    left.settle(state, 11.0)
    assert left.left[0] == 0
    left.settle(state, 71.0)
    assert left.left[0] > 0


def test_a_process_keeps_what_comes_while_it_settles() -> None:
    state: dict = {}
    one = Process("one", (10.0, 0.0, 0.0))
    one.settle(state, 0.0)
    told = Usage(wants={ONE: 1.0}, keeps={ONE: (6.0, 0.0, 0.0)})
    other = Process("other", (10.0, 0.0, 0.0))
    share = windows.settle(state, "one", 0.1, {ONE: (10.0, 0.0, 0.0)}, told)[ONE]
    assert share[0] >= 6
    other.settle(state, 0.2)
    assert share[0] + other.left[0] <= 10


@pytest.mark.django_db(transaction=True)
@pytest.mark.both_databases
def test_threads_that_settle_at_once_never_exceed_a_limit(pool: Pool, rows: SimpleNamespace) -> None:
    from django.db import connection, transaction

    from orchestration_app.models import BackendLoad

    BackendLoad.objects.create(pool=pool)
    processes = [Process(str(i), (40.0, 0.0, 0.0)) for i in range(8)]
    made: list[int] = []

    def run(one: Process) -> None:
        for _ in range(5):
            with transaction.atomic():
                row = BackendLoad.objects.select_for_update().get(pool=pool)
                one.settle(row.state, 1.0)
                row.save()
            while one.call():
                made.append(int(one.name))
        connection.close()

    threads = [threading.Thread(target=run, args=(one,)) for one in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 30 <= len(made) <= 40


class Processes:
    """Processes that share the backends of a pool, each of which holds its own part; they settle in turn."""

    def __init__(self, pool: Pool, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        chosen = BackendSettings(pool=pool)
        self.monkeypatch = monkeypatch
        self.each = {name: PoolBackends(pool.pk, list(Backend.objects.in_use()), chosen) for name in names}

    def settle(self, name: str, line: int, *, asks: bool) -> bool:
        """Settle one of them; whether it may make a call of the line then."""
        one = self.each[name]
        one.by_key[line].asked_at = time.monotonic() if asks else -1e9
        self.monkeypatch.setattr(leases, "PROCESS", name)
        state.settle_now(one)
        return one.by_key[line].left[2] >= 1


@pytest.mark.django_db
@pytest.mark.parametrize("at_once", [1, 5])
def test_a_process_that_makes_no_calls_leaves_the_places_to_one_that_waits(
    at_once: int, pool: Pool, rows: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    Backend.objects.filter(pk=rows.small.pk).update(at_once=at_once)
    two = Processes(pool, monkeypatch, "idle", "waits")
    assert two.settle("idle", rows.small.pk, asks=True)
    assert not two.settle("waits", rows.small.pk, asks=True)
    two.settle("idle", rows.small.pk, asks=False)  # sees that another waits
    two.settle("idle", rows.small.pk, asks=False)
    assert two.settle("waits", rows.small.pk, asks=True)
    held = [one.by_key[rows.small.pk].left[2] for one in two.each.values()]
    assert sum(held) <= at_once


@pytest.mark.django_db
@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_processes_that_all_make_calls_take_turns_with_few_places(
    at_once: int, pool: Pool, rows: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    Backend.objects.filter(pk=rows.small.pk).update(at_once=at_once)
    names = ("one", "two", "three")
    three = Processes(pool, monkeypatch, *names)
    turns = dict.fromkeys(names, 0)
    for _round in range(12):
        for name in names:
            turns[name] += three.settle(name, rows.small.pk, asks=True)
            assert sum(one.by_key[rows.small.pk].left[2] for one in three.each.values()) <= at_once
    assert min(turns.values()) >= 3, turns


@pytest.mark.django_db
def test_a_process_that_ends_in_order_gives_its_places_back(
    pool: Pool, rows: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    Backend.objects.filter(pk=rows.small.pk).update(at_once=1)
    two = Processes(pool, monkeypatch, "ends", "next")
    assert two.settle("ends", rows.small.pk, asks=True)
    monkeypatch.setattr(state, "_pools", {pool.pk: two.each["ends"]})
    state._end()
    now = leases.now()
    monkeypatch.setattr(leases, "now", lambda: now + leases.SILENT_SECONDS + 1)
    assert two.settle("next", rows.small.pk, asks=True)


# --- Executors --------------------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_an_executors_call_goes_to_a_backend_and_reports_back(pool: Pool, rows: SimpleNamespace) -> None:
    line = calls.line(pool, 0, "billing", None)
    assert line is not None
    assert (line.provider, line.secret) == ("acme", "sk-never-shown")
    assert "sk-never-shown" not in repr(line)
    call = uuid.uuid4()
    calls.report(pool, call, Served(0, line.backend, tokens_in=1000, tokens_out=1000, latency=12.0, success=True))
    calls.report(pool, call, Served(0, line.backend, tokens_in=1000, tokens_out=1000, latency=12.0, success=True))
    assert BackendCall.objects.get().cost == pytest.approx((line.price_in + line.price_out) / 1000)
    assert calls.line(pool, 2) is None, "Technical has none"


@pytest.mark.django_db
def test_what_was_not_called_yet_is_expected_to_take_what_its_agents_other_backends_do(
    pool: Pool, rows: SimpleNamespace
) -> None:
    """Which tokens a call has is the task's and the agent's more than the model's."""
    calls.report(pool, uuid.uuid4(), Served(0, rows.small.pk, tokens_in=20, tokens_out=120, latency=12.0, success=True))
    shown = {row.backend.pk: row.expected.cost for row in figures.rows(pool)}
    state.load()
    known = state.of(pool.pk)
    assert known is not None
    known.rate(measured.of_pool(pool.pk))
    for backend in (rows.large, rows.quick):
        assert shown[backend.pk] == pytest.approx(backend.cost(20, 120))
        assert known.by_key[backend.pk].candidate.cost == pytest.approx(backend.cost(20, 120))
    assert shown[rows.ships.pk] == pytest.approx(rows.ships.cost(rows.ships.tokens_in, rows.ships.tokens_out))


@pytest.mark.django_db
def test_an_executor_hears_why_nobody_may_be_called(pool: Pool, rows: SimpleNamespace) -> None:
    Backend.objects.update(healthy=False)
    serving.forget()
    with pytest.raises(calls.NoBackend, match="not healthy"):
        calls.line(pool, 0)


def test_what_is_sealed_opens_again_and_nowhere_else(settings: SimpleNamespace) -> None:
    sealed = sealing.seal("sk-1")
    assert "sk-1" not in sealed
    assert sealing.opened(sealed) == "sk-1"
    settings.SECRET_KEY = "another-key-of-this-site"
    with pytest.raises(sealing.CannotOpen):
        sealing.opened(sealed)
