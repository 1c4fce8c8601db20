"""How many queries a minute one API key may send to this process (ROUTE_RATE_PER_MINUTE; 0 sets no limit)."""

import math
import threading
import time

from django.conf import settings

from training_app.replies import Refused
from training_app.serving import Caller

_paid_until: dict[int, float] = {}
_lock = threading.Lock()


def take(caller: Caller, queries: int = 1) -> None:
    """Count queries against the caller's minute; refused with 429 once it is used up.

    The generic cell rate algorithm: each query costs 60 / rate seconds, and a caller may run at most a minute ahead of the clock.
    One number a key is kept, and there is no edge at which two full minutes fit into one. A batch larger than the rate itself
    costs the whole minute.
    """
    rate = settings.ROUTE_RATE_PER_MINUTE
    if not rate:
        return
    now = time.monotonic()
    with _lock:
        after = max(_paid_until.get(caller.pk, 0.0), now) + min(queries, rate) * 60.0 / rate
        wait = after - now - 60.0
        if wait <= 1e-6:
            _paid_until[caller.pk] = after
            return
    raise Refused(
        429, "too_many_requests", f"This API key may send {rate} queries a minute to a process.",
        hint=f"Try again in {math.ceil(wait)} seconds.", headers=(("Retry-After", str(math.ceil(wait))),),
    )  # fmt: skip


def forget() -> None:
    """Give every key a fresh minute."""
    _paid_until.clear()
