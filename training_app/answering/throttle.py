"""How much one API key may send in a minute: requests, queries, and characters as the router will read them; and its month's quota.

A setting of 0 sets no limit. A request counts against what this process holds of the key's minute, in memory; it asks the database
nothing. A thread beside the requests settles with the other processes (`key_shares`). What a key may send in a month is its own:
`quotas`.
"""

import logging
import threading
import time
import unicodedata
from collections.abc import Sequence
from functools import cache

from django.conf import settings
from django.core.signals import setting_changed
from django.db import Error as DatabaseFault
from django.db import IntegrityError

from routerweb import state
from routerweb.background import Background
from routerweb.serving import disconnect
from training_app.answering import key_shares, quotas
from training_app.answering.quotas import Exceeded as Exceeded
from training_app.answering.serving import drop_connection
from training_app.engine.data.conversations import before

logger = logging.getLogger(__name__)

#: What is counted, in the order of every tuple of three here.
COUNTED = ("requests", "queries", "characters")
#: Between two settlements with the other processes.
SETTLE_SECONDS = 0.5
#: A key's last use is written down so often.
NOTE_SECONDS = 60.0
#: A key that sends nothing for so long gives back its share.
QUIET_SECONDS = 5.0
#: The part of a minute that a process may use of a key of which it has no share yet: for the milliseconds until it has.
EARLY = 0.1


class Allowance:
    """What this process holds of one key's minute: what is `left` of each of COUNTED as of `at`, in monotonic seconds.

    `part` is the process's part of the key's rate. `held` and `used` are for the next settlement: the share that was taken at the
    last one, and what was used since.
    """

    __slots__ = ("asked", "at", "held", "left", "part", "used")

    def __init__(self, limits: tuple[int, ...], at: float, part: float) -> None:
        self.at = self.asked = at
        self.part = part
        self.left = [limit * part for limit in limits]
        self.held = [0.0] * len(limits)
        self.used = [0.0] * len(limits)

    def refill(self, limits: tuple[int, ...], at: float) -> None:
        """A minute brings back a whole minute's worth, evenly, and never more than that is held."""
        minutes, self.at = (at - self.at) * self.part / 60.0, at
        self.left = [min(left + limit * minutes, limit) for left, limit in zip(self.left, limits, strict=True)]

    def spend(self, costs: Sequence[float]) -> None:
        """Use so much of it."""
        self.left = [left - cost for left, cost in zip(self.left, costs, strict=True)]
        self.used = [used + cost for used, cost in zip(self.used, costs, strict=True)]


@cache
def _limits() -> tuple[int, int, int]:
    """What a minute holds of each of COUNTED."""
    return settings.ROUTE_REQUESTS_PER_MINUTE, settings.ROUTE_RATE_PER_MINUTE, settings.ROUTE_CHARACTERS_PER_MINUTE


setting_changed.connect(lambda **_signal: _limits.cache_clear(), weak=False)

_held: dict[int, Allowance] = {}
#: Keys that were used since they were last noted, where nothing is limited; and when each was.
_used: set[int] = set()
_noted: dict[int, float] = {}
state.keep(__name__, "_held", "Minutes of API keys", "one for each key of the last minutes")
state.keep(__name__, "_used", "API keys whose use is not yet written", "one for each key")
state.keep(__name__, "_noted", "Times at which uses of API keys were written", "one for each key")
_lock = threading.Lock()


def take(key: int, texts: Sequence[str], quota: quotas.Quota | None = None) -> None:
    """Count one request with its texts against the key's minute, and its month where it has a `quota`. Raises Exceeded, and counts
    nothing, once either is used up.

    What is larger than this process's part of a minute may be sent once that part is whole, and costs up to the whole minute.
    """
    limits = _limits()
    limited = any(limits)
    if not limited:
        if key not in _used:
            settler.start()
        _used.add(key)
        if quota is None:
            return
    counts_characters = limits[2] or (quota is not None and quota[1] is not None)
    characters = sum(map(read_length, disconnect.checked(texts))) if counts_characters else 0
    costs = (1, len(texts), characters if limits[2] else 0)
    with _lock:
        held = _minute(key, limits, costs) if limited else None
        if quota is not None:
            try:
                quotas.spend(key, quota, (len(texts), characters))
            finally:
                if quotas.unsettled(key):
                    settler.start()
                    settler.wake()
        if held is not None:
            held.spend([min(cost, limit) for cost, limit in zip(costs, limits, strict=True)])


def _minute(key: int, limits: tuple[int, int, int], costs: Sequence[int]) -> Allowance:
    """What this process holds of the key's minute. Raises Exceeded where that is less than a request costs."""
    now = time.monotonic()
    held = _held.get(key)
    if held is None:
        held = _held[key] = Allowance(limits, now, EARLY if settings.BACKGROUND_THREADS else 1.0)
        settler.start()
        settler.wake()
    held.refill(limits, now)
    held.asked = now
    for what, limit, cost, left in zip(COUNTED, limits, costs, held.left, strict=True):
        missing = min(cost, limit * held.part) - left
        if limit and missing > 1e-6:
            message = f"This API key may send {limit:,} {what} a minute."
            raise Exceeded(message, missing * 60.0 / (limit * held.part))
    return held


def read_length(text: str) -> int:
    """The characters of a query as the router reads it, with all that was said before it: a ligature counts as the letters that it
    stands for (NFKC)."""
    if earlier := before(text):
        return sum(read_length(part) for part in (str(text), *(message.content for message in earlier)))
    return len(text) if text.isascii() else len(unicodedata.normalize("NFKC", text))


def forget() -> None:
    """Give every key a fresh minute, and forget what is known of its month."""
    quotas.forget()
    _held.clear()
    _used.clear()
    _noted.clear()


def _in_child() -> None:
    global _lock
    _lock = threading.Lock()  # the parent's may have been held by its thread
    quotas.leave_to_parent()
    _held.clear()
    _used.clear()
    _noted.clear()


# --- With the other processes -------------------------------------------------------------------------------------


def note() -> None:
    """Write down which keys were used of late; each at most once in NOTE_SECONDS. Where a minute is limited, settling it does so."""
    now = time.monotonic()
    due = {key for key in list(_used) if now - _noted.get(key, -NOTE_SECONDS) >= NOTE_SECONDS}
    if due:
        _used.difference_update(due)
        key_shares.note(due, len(_limits()))
        _noted.update(dict.fromkeys(due, now))


def settle() -> float:
    """Settle every key's minute with the other processes; the seconds until the next time."""
    try:
        note()
    except DatabaseFault as error:  # a key that is gone among them: who was used is told next time
        logger.warning("When keys were last used cannot be written: %s", error)
        drop_connection()
    try:
        quotas.settle()
    except DatabaseFault as error:
        logger.warning("The keys' months cannot be settled; each process keeps to its share: %s", error)
        drop_connection()
        return 10 * SETTLE_SECONDS
    for key, held in list(_held.items()):
        try:
            _settle(key, held, leave=time.monotonic() - held.asked > QUIET_SECONDS)
        except IntegrityError:
            _held.pop(key, None)  # the key is gone
        except DatabaseFault as error:
            logger.warning("The keys' minutes cannot be settled; each process keeps to its part: %s", error)
            drop_connection()
            return 10 * SETTLE_SECONDS
    return SETTLE_SECONDS


def _settle(key: int, held: Allowance, *, leave: bool) -> None:
    limits = _limits()
    with _lock:
        used, held.used = held.used, [0.0] * len(limits)
    try:
        share = key_shares.settle(key, limits, used, held.held, leave=leave)
    except DatabaseFault:
        with _lock:
            held.used = [now + before for now, before in zip(held.used, used, strict=True)]
        raise
    with _lock:
        if leave and not any(held.used):
            _held.pop(key, None)
            return
        held.held, held.part, held.at = share.left, share.part, time.monotonic()
        held.left = [left - used for left, used in zip(share.left, held.used, strict=True)]


def _end() -> None:
    """Give back what this process holds."""
    settler.stop()
    try:
        quotas.settle(leave=True)
    except DatabaseFault:
        return
    for key, held in list(_held.items()):
        try:
            _settle(key, held, leave=True)
        except DatabaseFault:
            return


settler = Background("throttle-settler", settle, at_end=_end, in_child=_in_child)
