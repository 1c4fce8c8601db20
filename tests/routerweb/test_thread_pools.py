"""A pool of threads knows when it does not keep up, and a process that does not is not ready."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client

from routerweb.serving import thread_pools
from routerweb.serving.thread_pools import STALLED_SECONDS, Threads
from tests.waiting import until


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the pools' clock."""
    at = [0.0]
    monkeypatch.setattr(thread_pools, "time", SimpleNamespace(monotonic=lambda: at[0]))
    return lambda seconds: at.__setitem__(0, seconds)


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Threads]:
    monkeypatch.setattr(thread_pools, "pools", {})
    made = Threads("of a test", 1)
    yield made
    made.executor.shutdown()


@pytest.fixture
def held(pool: Threads) -> Iterator[threading.Event]:
    """The pool's one thread is held until this is set."""
    begun, release = threading.Event(), threading.Event()
    pool.executor.submit(lambda: (begun.set(), release.wait(30)))
    begun.wait(30)
    yield release
    release.set()


def test_a_pool_whose_threads_are_held_is_stalled_until_one_is_free(
    pool: Threads, held: threading.Event, now: Callable[[float], None]
) -> None:
    assert not pool.stalled()
    now(STALLED_SECONDS - 1)
    assert not pool.stalled()
    now(STALLED_SECONDS + 1)
    assert pool.stalled()
    assert thread_pools.stalled() == ["of a test"]
    held.set()
    until(lambda: not pool.stalled())


def test_a_request_that_waits_is_counted_from_when_it_came(
    pool: Threads, held: threading.Event, now: Callable[[float], None]
) -> None:
    async def ask() -> Any:
        asked = asyncio.ensure_future(pool.run(lambda: "answered"))
        await asyncio.sleep(0)
        now(STALLED_SECONDS + 1)
        seen = pool.stalled()
        held.set()
        return seen, await asked

    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(asyncio.run(ask())))
    thread.start()
    thread.join(30)
    assert answers == [(True, "answered")]


def test_a_pool_that_is_idle_for_long_is_not_stalled(pool: Threads, now: Callable[[float], None]) -> None:
    assert not pool.stalled()
    until(lambda: not pool._queued)
    now(1_000.0)
    assert not pool.stalled()


@pytest.mark.django_db
def test_a_process_whose_pages_wait_is_not_ready(
    client: Client, pool: Threads, held: threading.Event, now: Callable[[float], None]
) -> None:
    assert client.get("/api/ready/").status_code == 200
    now(STALLED_SECONDS + 1)
    answer = client.get("/api/ready/")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "not_ready")
    held.set()
    until(lambda: client.get("/api/ready/").status_code == 200)


@pytest.mark.django_db
def test_pages_that_read_a_file_wait_in_threads_of_their_own() -> None:
    from routerweb import wsgi

    wsgi.pages()
    reading = ("/p/support/import/", "/p/support/import/7/columns/", "/pools/new/", "/p/support/agents/sources/")
    assert {path: wsgi.reads_file(path) for path in reading} == dict.fromkeys(reading, True)
    others = ("/", "/login/", "/p/support/import/7/", "/there-is-no-such-page/")
    assert {path: wsgi.reads_file(path) for path in others} == dict.fromkeys(others, False)
