"""The key's minute over all processes: each holds a share of it, settled with the database by a thread beside the requests.

A process tells what it used of its share, gives back the rest, and takes its part of what is there: all of it where it is alone. What
one used beyond its share is a debt that everybody's minute pays. While the database is away each goes on with the part of the rate
that it had.
"""

import time
import uuid
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime
from typing import NamedTuple

from django.db import connection, transaction

from agents_app.models import ApiKey, KeyMonth
from training_app.models import KeyMinute

#: A process that was not heard of for so long holds nothing any more; what it held counts as used.
SILENT_SECONDS = 10.0

_name = uuid.uuid4().hex


class Share(NamedTuple):
    """What a process may use of a key's minute, and its part of the rate at which it comes back."""

    left: list[float]
    part: float


def settle(
    key: int,
    limits: Sequence[int],
    used: Sequence[float],
    held: Sequence[float],
    *,
    leave: bool = False,
    name: str = "",
) -> Share:
    """Settle one key's minute for this process, which had `held` and has `used`; to `leave` is to take no new share.

    Raises django.db.Error.
    """
    name = name or _name
    with transaction.atomic():
        KeyMinute.objects.get_or_create(
            api_key_id=key, defaults={"at": now(), "free": [float(limit) for limit in limits]}
        )
        minute = KeyMinute.objects.select_for_update().get(api_key_id=key)
        at = now()
        seconds, minute.at = max(at - minute.at, 0.0), at
        own = held if name in minute.shares else [0.0] * len(limits)
        others = {
            other: share for other, share in minute.shares.items() if other != name and share["at"] > at - SILENT_SECONDS
        }  # fmt: skip
        leased, left = [], []
        for place, limit in enumerate(limits):
            elsewhere = sum(share["held"][place] for share in others.values())
            whole = min(minute.free[place] + own[place] - used[place] + limit * seconds / 60.0, limit - elsewhere)
            taken = 0.0 if leave else max(min(whole, (whole + elsewhere) / (len(others) + 1)), 0.0)
            leased.append(taken)
            left.append(whole - taken)
        minute.free = left
        minute.shares = others if leave else others | {name: {"at": at, "held": leased}}
        minute.save()
    return Share(leased, 1.0 / (len(others) + 1))


def settle_month(
    key: int, month: date, quota: Sequence[int | None], used: Sequence[int], *, leave: bool = False, name: str = ""
) -> tuple[list[int], list[int]]:
    """Tell what this process has `used` of a key's month; what all have used, and the share of the rest that this one holds now.

    A month does not come back, so nothing of it is lost: what a silent process held is free again, and the last one left is given
    whole to who asks first. Raises django.db.Error.
    """
    name = name or _name
    with transaction.atomic():
        KeyMonth.objects.get_or_create(api_key_id=key, month=month)
        row = KeyMonth.objects.select_for_update(of=("self",)).get(api_key_id=key, month=month)
        at = now()
        row.queries, row.characters = row.queries + used[0], row.characters + used[1]
        others = {
            other: share for other, share in row.shares.items() if other != name and share["at"] > at - SILENT_SECONDS
        }
        held = []
        for place, (limit, told) in enumerate(zip(quota, (row.queries, row.characters), strict=True)):
            elsewhere = sum(share["held"][place] for share in others.values())
            free = 0 if limit is None or leave else limit - told - elsewhere
            held.append(max(min(free, -(-(free + elsewhere) // (len(others) + 1))), 0))
        row.shares = others if leave else others | {name: {"at": at, "held": held}}
        row.save()
    return [row.queries, row.characters], held


def now() -> float:
    """Seconds since 1970 by the database's clock, which all processes share."""
    if connection.vendor != "postgresql":
        return time.time()
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(cursor.fetchone()[0])


def note(keys: Collection[int], limits: int) -> None:
    """Write down that these keys, of so many limits that are all off, were used just now. Raises django.db.Error."""
    with transaction.atomic():
        at = now()
        KeyMinute.objects.filter(api_key__in=keys).update(at=at)
        known = set(KeyMinute.objects.filter(api_key__in=keys).values_list("api_key", flat=True))
        alive = ApiKey.objects.filter(pk__in=set(keys) - known).values_list("pk", flat=True)
        new = [KeyMinute(api_key_id=key, at=at, free=[0.0] * limits) for key in alive]
        KeyMinute.objects.bulk_create(new, ignore_conflicts=True)


def last_used(keys: Collection[int]) -> dict[int, datetime]:
    """When these keys were last used, to about a minute: when they were noted, or their minutes settled."""
    settled = KeyMinute.objects.filter(api_key__in=keys).values_list("api_key", "at")
    return {key: datetime.fromtimestamp(at, UTC) for key, at in settled}
