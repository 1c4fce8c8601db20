"""Limits over a sliding minute that no number of processes exceeds, and the assignments that all of them made last.

Requests and tokens count for WINDOW seconds after they are told; calls in flight until they end, or for CALL_SECONDS. What is left is
shared out in advance: a process may use what it holds without asking, tells what it used, and takes its part again. What one holds
counts as used for everybody else, so the sum over any minute stays within the limit; one that was silent
(`agents_app.background_work.leases`) is taken to have used all that it held.

`state`, as JSON keeps it:

    held    {process: {"at": …, "share": {"of": {backend: [requests, tokens, places]}, "asks": [backend that it asks for, …]}}}
    used    {backend: [[at, requests, tokens, process], …]}
    flying  {backend: [[at, calls], …]}
    last    [backend, …]
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agents_app.background_work.leases import Parties
from orchestration_app.engine.backends.load import WINDOW as LAST

WINDOW = 60.0
ACTIVE_SECONDS = 10.0
GRANT_SECONDS = 5.0
CALL_SECONDS = 120.0

Three = tuple[float, float, float]  # requests, tokens, calls in flight; of a limit, 0 is none
NOTHING: Three = (0.0, 0.0, 0.0)


@dataclass(slots=True)
class Used:
    """What a process did with one backend since it told last: requests and tokens, calls that began and that ended."""

    requests: int = 0
    tokens: float = 0.0
    began: int = 0
    ended: int = 0


@dataclass(slots=True)
class Usage:
    """What a process tells: by backend what it used, which backends it wants more of, and the assignments it made, oldest first."""

    used: dict[int, Used] = field(default_factory=dict)
    wants: dict[int, float] = field(default_factory=dict)  # tokens of a call
    asks: set[int] = field(default_factory=set)  # of these it made calls lately, or would have
    keeps: dict[int, Three] = field(default_factory=dict)  # of what it held, for the calls that come meanwhile
    yields: set[int] = field(default_factory=set)  # of these it takes no place now: another process is to have one
    last: list[int] = field(default_factory=list)


def settle(state: dict[str, Any], name: str, now: float, limits: Mapping[int, Three], usage: Usage) -> dict[int, Three]:
    """Bring the state up to date with one process, and what it may use until it tells again, by backend."""
    parties = Parties.of(state.get("held", {}), name, now)
    used: dict[str, list[list[Any]]] = state.setdefault("used", {})
    flying: dict[str, list[list[float]]] = state.setdefault("flying", {})
    for other, (at, share) in parties.silent.items():
        for key, (requests, tokens, places) in share["of"].items():
            used.setdefault(key, []).append([at, requests, tokens, other])
            flying.setdefault(key, []).append([at, places])
    for backend, usage_of_backend in usage.used.items():
        key = str(backend)
        if usage_of_backend.requests or usage_of_backend.tokens:
            used.setdefault(key, []).append([now, usage_of_backend.requests, usage_of_backend.tokens, name])
        if usage_of_backend.began:
            flying.setdefault(key, []).append([now, usage_of_backend.began])
        _land(flying.get(key, []), usage_of_backend.ended)
    _forget(used, now - WINDOW)
    _forget(flying, now - CALL_SECONDS)
    state["last"] = [*state.get("last", []), *usage.last][-LAST * 8 :]
    shares = {
        backend: _share(state, backend, limits[backend], parties, usage) for backend in usage.wants if backend in limits
    }
    share_of_process = {
        "of": {str(backend): list(share) for backend, share in shares.items()}, "asks": [str(ask) for ask in usage.asks],
    }  # fmt: skip
    state["held"] = parties.holding(state.get("held", {}), share_of_process)
    return shares


def waiting_for(state: Mapping[str, Any], name: str, backend: int, limit: Three, tokens: float) -> int:
    """How many other processes ask for the backend; 0 where each of them holds a call's worth."""
    key, worth = str(backend), (1.0, min(tokens, limit[1]), 1.0)
    shares = [party["share"] for other, party in state["held"].items() if other != name]
    asking = [share["of"].get(key, NOTHING) for share in shares if key in share["asks"]]
    lacks = any(allowed and of[place] < worth[place] for of in asking for place, allowed in enumerate(limit))
    return len(asking) if lacks else 0


def flying_of(state: Mapping[str, Any], backend: int) -> float:
    """Its calls in flight, as far as they were told."""
    return sum(calls for _at, calls in state.get("flying", {}).get(str(backend), []))


def _share(state: Mapping[str, Any], backend: int, limit: Three, parties: Parties, usage: Usage) -> Three:
    """This process's part of what is left.

    Of a minute, each process that makes calls is due as much as any other; one that is idle holds one call's worth. What nobody is due
    goes to who had least, a call at a time. At most GRANT_SECONDS' worth is held at once, so that who comes later finds some.
    """
    key, name, now = str(backend), parties.process, parties.at
    spent = state["used"].get(key, [])
    busy = {row[3] for row in spent if row[0] > now - ACTIVE_SECONDS} | ({name} if backend in usage.asks else set())
    others = {other: share["of"][key] for other, share in parties.others.items() if key in share["of"]}
    busy |= {other for other, share in parties.others.items() if key in share["asks"]}
    current, least = usage.keeps.get(backend, NOTHING), usage.wants[backend]
    if backend in usage.yields:
        return current
    shares = []
    for place, allowed in enumerate(limit):
        if not allowed:
            shares.append(0.0)
            continue
        whole = max(min(least, allowed), 1.0) if place == 1 else 1.0
        mine = _own(state, key, name, place)
        theirs = {other: _own(state, key, other, place) for other in busy - {name}}
        occupied = flying_of(state, backend) if place == 2 else sum(row[1 + place] for row in spent)
        available = allowed - occupied - sum(share[place] for share in others.values())
        each = allowed / max(len(busy), 1)
        waiting = sum(
            max(each - used - others.get(other, list(NOTHING))[place], 0.0) // whole * whole
            for other, used in theirs.items()
        )
        largest = allowed if place == 2 else max(allowed * GRANT_SECONDS / WINDOW, whole)
        due = min(each - mine, largest) // whole * whole if name in busy else 0.0
        if due < whole and available - waiting >= whole and mine <= min(theirs.values(), default=mine):
            due = whole
        shares.append(max(min(available, due), current[place], 0.0))
    # A part of a call is of no use.
    if any(
        allowed and shares[place] < (1.0 if place != 1 else min(least, allowed)) for place, allowed in enumerate(limit)
    ):
        return current
    return shares[0], shares[1], shares[2]


def _own(state: Mapping[str, Any], key: str, name: str, place: int) -> float:
    """What a process used of a minute; of places, how many of its calls are in flight is not known: they end anywhere."""
    if place == 2:
        return 0.0
    return sum(row[1 + place] for row in state["used"].get(key, []) if row[3] == name)


def _land(calls: list[list[float]], ended: int) -> None:
    """Calls ended: the oldest ones."""
    for row in calls:
        done = min(row[1], ended)
        row[1] -= done
        ended -= int(done)


def _forget(rows: dict[str, list[list[Any]]], before: float) -> None:
    for key in list(rows):
        rows[key] = [row for row in rows[key] if row[0] > before and any(row[1:3])]
        if not rows[key]:
            del rows[key]
