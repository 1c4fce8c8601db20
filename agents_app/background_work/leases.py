"""The one way in which processes share a limit: each holds a share in advance and asks nobody while it lasts.

A process settles now and then: in one transaction under the row's lock, by the database's clock, it tells what it used and takes its
share again. One that did not settle for SILENT_SECONDS holds nothing any more. What is free, and whether a silent process used what it
held, is for whoever keeps the limit to say: minutes and months of API keys (`training_app.answering.key_shares`), backends
(`orchestration_app.backends.windows`), calls of agents and providers (`orchestration_app.calls.limits`).
"""

import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import connection, models, transaction

SILENT_SECONDS = 10.0
#: This process among those that share; another one after a fork.
PROCESS = uuid.uuid4().hex

Row = TypeVar("Row", bound=models.Model)
#: Shares by process, as JSON keeps them: when the process settled last, and what it holds since.
Held = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Parties:
    """Who holds what as one process settles at a moment: its `own` share of the last time, None where it was silent or is new; the
    shares of the living `others`; and what `silent` ones held, with the moment at which it was no longer theirs."""

    process: str
    at: float
    own: Any
    others: dict[str, Any]
    silent: dict[str, tuple[float, Any]]

    @classmethod
    def of(cls, held: Held, process: str, at: float) -> "Parties":
        """The parties of the shares that a row keeps."""
        own_share, others, silent = None, {}, {}
        for name, party in held.items():
            if name == process:
                own_share = party["share"]
            elif party["at"] > at - SILENT_SECONDS:
                others[name] = party["share"]
            else:
                silent[name] = party["at"] + SILENT_SECONDS, party["share"]
        return cls(process, at, own_share, others, silent)

    def holding(self, held: Held, share: Any) -> Held:
        """The shares that the row keeps from now on; a `share` of None is none."""
        living = {name: held[name] for name in self.others}
        return living if share is None else living | {self.process: {"at": self.at, "share": share}}


def equal_part(free: float, elsewhere: float, others: int) -> float:
    """What one process takes of what is free, where so many `others` hold so much `elsewhere`: all are to have as much."""
    return max(min(free, (free + elsewhere) / (others + 1)), 0.0)


@contextmanager
def settling(
    model: type[Row], key: Mapping[str, Any], defaults: Mapping[str, Any] | None = None
) -> Iterator[tuple[Row, float]]:
    """The locked row of that key, made where there is none, and the moment; what is changed of it is saved at the end. Raises
    django.db.Error."""
    with transaction.atomic():
        rows = model._default_manager
        rows.get_or_create(**key, defaults=dict(defaults or {}))
        row = rows.select_for_update(of=("self",)).get(**key)
        yield row, now()
        row.save()


def now() -> float:
    """Seconds since 1970 by the database's clock, which all processes share."""
    if connection.vendor != "postgresql":
        return time.time()
    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())::float8")
        return float(cursor.fetchone()[0])


def _in_child() -> None:
    global PROCESS
    PROCESS = uuid.uuid4().hex


os.register_at_fork(after_in_child=_in_child)
