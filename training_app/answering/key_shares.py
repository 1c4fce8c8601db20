"""The minutes and months of API keys over all processes, which hold shares of them (`agents_app.background_work.leases`).

What a process used of a minute beyond its share is a debt that everybody's minute pays; what a silent one held counts as used. While
the database is away each goes on with the part of the rate that it had.
"""

import math
from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime
from typing import NamedTuple

from django.db import transaction

from agents_app.background_work import leases
from agents_app.background_work.leases import Parties
from agents_app.models import ApiKey, KeyMonth
from training_app.models import KeyMinute


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
    first = {"at": leases.now, "free": [float(limit) for limit in limits]}
    with leases.settling(KeyMinute, {"api_key_id": key}, first) as (minute, at):
        parties = Parties.of(minute.shares, name or leases.PROCESS, at)
        seconds, minute.at = max(at - minute.at, 0.0), at
        own = [0.0] * len(limits) if parties.own is None else held
        leased, left = [], []
        for place, limit in enumerate(limits):
            elsewhere = sum(share[place] for share in parties.others.values())
            whole = min(minute.free[place] + own[place] - used[place] + limit * seconds / 60.0, limit - elsewhere)
            granted = 0.0 if leave else leases.equal_part(whole, elsewhere, len(parties.others))
            leased.append(granted)
            left.append(whole - granted)
        minute.free = left
        minute.shares = parties.holding(minute.shares, None if leave else leased)
    return Share(leased, 1.0 / (len(parties.others) + 1))


def settle_month(
    key: int, month: date, quota: Sequence[int | None], used: Sequence[int], *, leave: bool = False, name: str = ""
) -> tuple[list[int], list[int]]:
    """Tell what this process has `used` of a key's month; what all have used, and the share of the rest that this one holds now.

    A month does not come back, so nothing of it is lost: what a silent process held is free again, and the last one left is given
    whole to who asks first. Raises django.db.Error.
    """
    with leases.settling(KeyMonth, {"api_key_id": key, "month": month}) as (row, at):
        parties = Parties.of(row.shares, name or leases.PROCESS, at)
        row.queries, row.characters = row.queries + used[0], row.characters + used[1]
        held = []
        for place, (limit, counted) in enumerate(zip(quota, (row.queries, row.characters), strict=True)):
            elsewhere = sum(share[place] for share in parties.others.values())
            free = 0 if limit is None or leave else limit - counted - elsewhere
            held.append(math.ceil(leases.equal_part(free, elsewhere, len(parties.others))))
        row.shares = parties.holding(row.shares, None if leave else held)
    return [row.queries, row.characters], held


def note(keys: Collection[int], limits: int) -> None:
    """Write down that these keys, of so many limits that are all off, were used just now. Raises django.db.Error."""
    with transaction.atomic():
        at = leases.now()
        KeyMinute.objects.filter(api_key__in=keys).update(at=at)
        present = set(KeyMinute.objects.filter(api_key__in=keys).values_list("api_key", flat=True))
        alive = ApiKey.objects.filter(pk__in=set(keys) - present).values_list("pk", flat=True)
        new = [KeyMinute(api_key_id=key, at=at, free=[0.0] * limits) for key in alive]
        KeyMinute.objects.bulk_create(new, ignore_conflicts=True)


def last_used(keys: Collection[int]) -> dict[int, datetime]:
    """When these keys were last used, to about a minute: when they were noted, or their minutes settled."""
    settled = KeyMinute.objects.filter(api_key__in=keys).values_list("api_key", "at")
    return {key: datetime.fromtimestamp(at, UTC) for key, at in settled}
