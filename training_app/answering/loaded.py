"""What requests read: a pool, its model and what else is done with its traffic, all of it immutable.

`serving` makes these from the database when the version stamp moved, and swaps them in; nothing here asks the database. A pool's
`live` is None where it has no canary, no shadows, no exploration and no agents routed cold; `answer` does what it says.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random, SystemRandom

from training_app.answering import shadowing
from training_app.engine.reading.cold import ColdScorer
from training_app.engine.routing import router as engine
from training_app.engine.routing.allowed import Rules
from training_app.engine.routing.routes import Route, StopReason
from training_app.models import LiveTally

logger = logging.getLogger(__name__)

#: Draws who is explored. Of the system, so that forked processes do not draw alike; a test may put its own here.
chance: Random = SystemRandom()


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """One version of a pool's router, ready to route."""

    pk: int
    name: str
    router: engine.Router


@dataclass(frozen=True, slots=True)
class RosterAgent:
    """One agent of a pool as it stands now. `covered` tells whether the active model has learnt it, `examples` are queries that its
    card says it is for."""

    id: int
    code: str
    name: str
    description: str
    keywords: tuple[str, ...]
    cost: float
    state: str
    available: bool
    covered: bool
    key: str
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadedPool:
    """A pool as requests see it.

    `available` are the ids that the model may choose, None when it may choose all that it knows; retired and unavailable agents
    are left out. `not_covered` are the active agents that the model has never seen. `problem` says why the active model could
    not be loaded; `model` is then the one before it, if there was one.
    `rules` say which sets are allowed. `live` is what else is done with its traffic, None where
    nothing is.
    """

    pk: int
    slug: str
    name: str
    roster: tuple[RosterAgent, ...]
    names: Mapping[int, str]
    keys: Mapping[int, str]
    model: LoadedModel | None
    available: frozenset[int] | None
    not_covered: tuple[int, ...]
    problem: str = ""
    live: Live | None = None
    rules: Rules = field(default_factory=Rules)


@dataclass(frozen=True, slots=True)
class CanarySide:
    """The pool as its canary answers it, for a share of the keys."""

    pool: LoadedPool
    share: float
    salt: str


@dataclass(frozen=True, slots=True)
class Live:
    """What is on in one pool, for the side of its active model or of its canary."""

    exploration: float = 0.0
    cold: ColdScorer | None = None
    threshold: float = 1.0
    ask_cost: float | None = None
    canary: CanarySide | None = None
    shadows: tuple[shadowing.Shadow, ...] = ()
    is_canary: bool = False

    def side(self, pool: LoadedPool, key: str) -> LoadedPool:
        """Who answers that key: the pool itself, or the pool as its canary answers it. The same key, the same side."""
        canary = self.canary
        return canary.pool if canary is not None and lot(canary.salt, key) < canary.share else pool

    def failed(self, model: LoadedModel, error: Exception) -> None:
        """The canary could not answer, and the active model did in its place."""
        logger.error("The canary %s failed, the active model answers: %s: %s", model.name, type(error).__name__, error)
        shadowing.note(model.pk, LiveTally.Kind.CANARY, errors=1, error=f"{type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True)
class Caller:
    """What one API key may do; `pools` are slugs, `expires` is in seconds since 1970, `maker` made it, "" a command; `gone` are the
    slugs of the pools among its own that are put away; `quota` are the queries and characters that it may send in a month, None where
    neither is limited."""

    pk: int
    name: str
    scopes: frozenset[str]
    pools: tuple[str, ...]
    expires: float | None
    maker: str = ""
    gone: tuple[str, ...] = ()
    quota: tuple[int | None, int | None] | None = None


@dataclass(frozen=True, slots=True)
class Served:
    """Everything that requests are answered from, as of one value of the version stamp. `gone` says of each slug whose pool is put
    away whether that was "archived" or "deleted"."""

    stamp: int
    pools: Mapping[str, LoadedPool] = field(default_factory=dict)
    callers: Mapping[str, Caller] = field(default_factory=dict)
    gone: Mapping[str, str] = field(default_factory=dict)


def unit(salt: str, key: str) -> str:
    """Who asked, without saying who: 16 hexadecimal digits, the same for one salt and key."""
    return hashlib.blake2b(f"{salt}\n{key}".encode("utf-8", "replace"), digest_size=8).hexdigest()


def lot(salt: str, key: str) -> float:
    """Where a key falls, from 0 up to 1: evenly over keys, always the same for one salt and key."""
    return int(unit(salt, key), 16) / 2**64


def with_agents(route: Route, agents: Sequence[int]) -> Route:
    """The route with another set; "stop" and "none" follow it, "max_agents" and "abstained" stay."""
    reason: StopReason = route.stop_reason
    if reason in ("stop", "none"):
        reason = "stop" if agents else "none"
    return replace(route, agents=tuple(agents), stop_reason=reason)
