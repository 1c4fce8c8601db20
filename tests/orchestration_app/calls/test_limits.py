"""Places for calls over several processes: never more at once, never more a minute, and the dead hold none."""

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from agents_app.background_work import leases
from orchestration_app.calls import limits
from orchestration_app.calls.limits import Grant, Limit, Wish
from orchestration_app.calls.parts import Spec
from orchestration_app.models import CallPlaces
from routerweb import env

pytestmark = pytest.mark.django_db
KEY = "agent:1"


def settled(name: str, limit: Limit, held: int = 0, waiting: int = 0, unused: float = 0.0) -> Grant:
    return limits.settle(name, {KEY: Wish(limit, held, waiting, unused)})[KEY]


def test_two_processes_together_hold_no_more_than_there_are() -> None:
    limit = Limit(5, 0)
    assert settled("one", limit, waiting=3).places == 3
    assert settled("two", limit, waiting=4).places == 2
    assert settled("one", limit, held=3, waiting=2).places == 0
    # Where another waits too, nobody takes all that became free.
    assert settled("one", limit, held=0, waiting=3).places == 2


def test_a_process_keeps_the_places_that_it_uses_and_gives_them_up_where_another_waits() -> None:
    limit = Limit(5, 0)
    held = limits._Held(limit, busy=1, places=4, busiest=3)
    held.give_up_spare()
    assert held.places == 2  # of three calls at once lately, one goes on
    assert settled("one", limit, held=3).others_wait is False
    assert settled("two", limit, waiting=4).places == 2
    assert settled("one", limit, held=3).others_wait is True
    held.others_wait = True
    held.give_up_spare()
    assert held.places == 0
    settled("one", limit, held=1)
    assert settled("two", limit, held=2, waiting=2).places == 2


def test_who_was_silent_for_long_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = Limit(2, 0)
    assert settled("one", limit, waiting=2).places == 2
    assert settled("two", limit, waiting=2).places == 0
    now = leases.now()
    monkeypatch.setattr(leases, "now", lambda: now + leases.SILENT_SECONDS + 1)
    assert settled("two", limit, waiting=2).places == 2


def test_a_minutes_calls_come_back_evenly_and_are_never_more(monkeypatch: pytest.MonkeyPatch) -> None:
    limit, now = Limit(0, 60), leases.now()
    monkeypatch.setattr(leases, "now", lambda: now)
    assert settled("one", limit, waiting=50).calls == 50
    assert settled("two", limit, waiting=50).calls == 10
    monkeypatch.setattr(leases, "now", lambda: now + 5)
    assert settled("two", limit, waiting=50).calls == 5
    # What was taken and not used is given back.
    assert settled("one", limit, waiting=20, unused=10.0).calls == 10
    monkeypatch.setattr(leases, "now", lambda: now + 10_000)
    assert settled("one", limit, waiting=500).calls == 60


def test_without_calls_nothing_is_kept() -> None:
    settled("one", Limit(5, 0), waiting=1)
    settled("one", Limit(5, 0))
    assert CallPlaces.objects.get().held == {}


def test_a_server_may_have_limits_of_its_own(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROVIDER_LIMITS", "https://one.example = 5/60, https://Two.example:8443/=0/0")
    settings.PROVIDER_LIMITS = env.limits("PROVIDER_LIMITS")
    settings.PROVIDER_AT_ONCE, settings.PROVIDER_CALLS_PER_MINUTE = 9, 0

    def found(address: str) -> dict[str, Limit]:
        return limits.of(Spec(0, "Agent", "", "chat", address=address))

    assert found("https://one.example/v1") == {"provider:https://one.example": Limit(5, 60)}
    assert found("https://two.example:8443/v1") == {}
    assert found("https://other.example") == {"provider:https://other.example": Limit(9, 0)}
    monkeypatch.setenv("PROVIDER_LIMITS", "one.example=5/60")
    with pytest.raises(ImproperlyConfigured, match="PROVIDER_LIMITS"):
        env.limits("PROVIDER_LIMITS")
