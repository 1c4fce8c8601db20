"""How much one API key may send in a calendar month (UTC): queries, and characters as the router will read them.

A process holds a share of what is left of the month, in memory; a request counts against it and asks the database nothing. The thread
that settles the keys' minutes settles these too (`key_shares.settle_month`). All processes together stay within the quota but for the
moment before one has its first share: then it takes one request, and from then on up to EARLY of the quota, of what it knew was left.
"""

import math
import threading
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime

from django.conf import settings
from django.db import Error as DatabaseFault
from django.db import IntegrityError

from agents_app.models import KeyMonth
from routerweb import state
from training_app.answering import key_shares
from training_app.answering.loaded import Caller, Served

#: What is counted, in the order of every tuple of two here.
COUNTED = ("queries", "characters")
#: The part of a quota that a process may use before it has a share.
EARLY = 0.02
#: A key that sends nothing for so long gives back its share.
QUIET_SECONDS = 5.0

Quota = tuple[int | None, int | None]


class Exceeded(Exception):
    """A key may not send that now. `seconds` is when to try again, `code` the error's word for programs."""

    code = "too_many_requests"

    def __init__(self, message: str, seconds: float, hint: str = "") -> None:
        super().__init__(message)
        self.seconds = max(math.ceil(seconds - 1e-6), 1)
        self.hint = hint or f"Try again in {self.seconds} second{'' if self.seconds == 1 else 's'}."


class Exhausted(Exceeded):
    """The key's month is used up, or has less left than the request needs."""

    code = "quota_exhausted"

    def __init__(self, what: str, limit: int, left: int, ends: float) -> None:
        remainder = f"{left:,} of them are left" if left else "all of them are used"
        super().__init__(
            f"This API key may send {limit:,} {what} a month, and {remainder}.",
            ends - time.time(),
            f"A new month begins at {datetime.fromtimestamp(ends, UTC).isoformat()}. Ops can raise the key's quota.",
        )


class Month:
    """What this process knows and holds of one key's month.

    `counted` is what all processes together have used, as of the last settlement; `held` the share that was taken then, None before
    the first and after giving it back; `used` what was used since.
    """

    __slots__ = ("asked", "begins", "counted", "ends", "held", "quota", "used", "woken")

    def __init__(self, quota: Quota, at: float) -> None:
        begins, ends = KeyMonth.span(at)
        self.begins, self.ends, self.quota = begins.date(), ends.timestamp(), quota
        self.counted, self.used = [0, 0], [0, 0]
        self.held: list[int] | None = None
        self.asked, self.woken = at, False

    def spend(self, costs: Sequence[int]) -> None:
        """Use so much of it. Raises Exhausted, or Exceeded where others hold what is left, and uses nothing then."""
        for place, (limit, cost) in enumerate(zip(self.quota, costs, strict=True)):
            if limit is None:
                continue
            used = self.used[place]
            left = limit - self.counted[place] - used
            if cost > left or left <= 0:
                raise Exhausted(COUNTED[place], limit, max(left, 0), self.ends)
            if self.held is not None:
                late = cost > self.held[place] - used
            else:
                late = settings.BACKGROUND_THREADS and used > 0 and used + cost > EARLY * limit
            if late:
                raise Exceeded("Other processes hold what is left of this API key's month.", 1.0)
        self.used = [used + cost for used, cost in zip(self.used, costs, strict=True)]


_months: dict[int, Month] = {}
#: Months that ended with something that is not yet told.
_ended: list[tuple[int, Month]] = []
state.keep(__name__, "_months", "Months of API keys", "one for each key with a quota")
state.keep(__name__, "_ended", "Months of API keys, ended and not yet written", "one for each key with a quota")
_lock = threading.Lock()


def spend(key: int, quota: Quota, costs: Sequence[int]) -> None:
    """Count a request of so many COUNTED against the key's month. Raises Exceeded, and counts nothing, where that is used up."""
    now = time.time()
    with _lock:
        month = _month(key, quota, now)
        month.asked = now
        month.spend(costs)


def unsettled(key: int) -> bool:
    """Whether this process holds no share of the key's month yet, and nobody was told so: then a settlement is wanted at once."""
    month = _months.get(key)
    if month is None or month.held is not None or month.woken:
        return False
    month.woken = True
    return True


def _month(key: int, quota: Quota, now: float) -> Month:
    month = _months.get(key)
    if month is not None and month.ends <= now:
        _ended.append((key, month))
        month = None
    if month is None:
        month = _months[key] = Month(quota, now)
    elif month.quota != quota:
        # Another quota: what was held is told with the next settlement, and a share of the new one taken then.
        month.quota, month.held, month.woken = quota, None, False
    return month


def used(caller: Caller) -> tuple[date, datetime, list[int]]:
    """The month's first day, the beginning of the next one, and what the key has sent of COUNTED, as this process knows."""
    now = time.time()
    begins, ends = KeyMonth.span(now)
    row = KeyMonth.objects.filter(api_key=caller.pk, month=begins.date()).first()
    sent = [row.queries, row.characters] if row else [0, 0]
    with _lock:
        month = _months.get(caller.pk)
        if month is not None and month.ends > now:
            sent = [
                max(sent_before, stored) + used
                for sent_before, stored, used in zip(sent, month.counted, month.used, strict=True)
            ]
    return begins.date(), ends, sent


def know(state: Served) -> None:
    """What months that this process holds nothing of have used already: a key is told so from its first request on."""
    quotas = {caller.pk: caller.quota for caller in state.callers.values() if caller.quota is not None}
    if not quotas:
        return
    now = time.time()
    rows = KeyMonth.objects.filter(api_key__in=quotas, month=KeyMonth.span(now)[0].date())
    with _lock:
        for row in rows:
            month = _month(row.api_key_id, quotas[row.api_key_id], now)
            month.counted = [
                max(before, new) for before, new in zip(month.counted, (row.queries, row.characters), strict=True)
            ]


def forget() -> None:
    """Hold nothing, and know nothing."""
    _months.clear()
    _ended.clear()


def leave_to_parent() -> None:
    """After a fork: what is held and not yet told is the parent's. What months have used is known here too."""
    global _lock
    _lock = threading.Lock()  # the parent's may have been held by its thread
    _ended.clear()
    for month in _months.values():
        month.held, month.used, month.woken = None, [0, 0], False


def settle(*, leave: bool = False) -> None:
    """Settle every key's month with the other processes. Raises django.db.Error where the database cannot be reached."""
    now = time.time()
    with _lock:
        due = list(_ended) + [
            (key, month) for key, month in _months.items() if month.held is not None or month.woken or any(month.used)
        ]
        _ended.clear()
    for place, (key, month) in enumerate(due):
        over = month.ends <= now
        try:
            _settle(key, month, leave=leave or over or now - month.asked > QUIET_SECONDS)
        except IntegrityError:
            _months.pop(key, None)  # the key is gone
        except DatabaseFault:
            with _lock:
                _ended.extend(entry for entry in due[place:] if _months.get(entry[0]) is not entry[1])
            raise
        with _lock:
            if over and _months.get(key) is month:
                del _months[key]


def _settle(key: int, month: Month, *, leave: bool) -> None:
    with _lock:
        used, month.used = month.used, [0, 0]
        quota = month.quota
    try:
        counted, held = key_shares.settle_month(key, month.begins, quota, used, leave=leave)
    except DatabaseFault:
        with _lock:
            month.used = [since + before for since, before in zip(month.used, used, strict=True)]
        raise
    with _lock:
        month.counted, month.woken = counted, False
        # What was used while this was settled counts against the new share; of another quota meanwhile there is none yet.
        month.held = None if leave or quota != month.quota else held
