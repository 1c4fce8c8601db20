"""django-q2's queue in the database, where each message that a cluster has taken says which cluster that is.

A message waits under the key `default` or `train`. A cluster that takes it moves it to `default@SLOT`, and deletes it when its task
has ended. So what a dead cluster had taken can be put back at once, where django-q2 alone would wait until a lock of hours has passed.
A message under `default>SLOT` waits for that cluster alone.
"""

import time
from typing import Any

from django_q.brokers.orm import ORM
from django_q.conf import Conf
from django_q.models import OrmQ

from agents_app.background_work.jobs import SLOT

#: Between the queue's name and the slot of the cluster that has taken a message, or that alone may take it.
TAKEN, MEANT_FOR = "@", ">"


class Broker(ORM):
    """One queue, as this process's cluster sees it."""

    def __init__(self, list_key: str | None = None) -> None:
        super().__init__(list_key)
        self._taken, self._own = self.list_key + TAKEN + SLOT, self.list_key + MEANT_FOR + SLOT

    def __setstate__(self, state: Any) -> None:
        super().__setstate__(state)
        self._taken, self._own = self.list_key + TAKEN + SLOT, self.list_key + MEANT_FOR + SLOT

    def dequeue(self) -> list[tuple[int, str]] | None:
        """Take a message or a few: their ids and payloads. Those that are meant for this cluster come first. `lock`, when it was sent,
        is by the sender's clock: a machine that is a minute behind it does not wait."""
        rows = self.get_connection(self.list_key)
        waiting = rows.filter(key__in=(self.list_key, self._own)).order_by("-key", "pk")
        messages = [
            (message.pk, message.payload)
            for message in waiting[: Conf.BULK]
            # Of several clusters that see it, one changes the row.
            if rows.filter(pk=message.pk, key=message.key).update(key=self._taken)
        ]
        if not messages:
            time.sleep(Conf.POLL)
        return messages or None

    def lock_size(self) -> int:
        """How many messages of this queue any cluster has taken."""
        return int(self.get_connection(self.list_key).filter(key__startswith=self.list_key + TAKEN).count())


def held(queue: str, slot: str) -> list[int]:
    """The messages that this cluster has taken, or that wait for it alone."""
    keys = (queue + TAKEN + slot, queue + MEANT_FOR + slot)
    return list(OrmQ.objects.filter(key__in=keys).order_by("pk").values_list("pk", flat=True))


def put_back(queue: str, slot: str) -> int:
    """Let others have what a cluster that has ended had taken; how many messages. What waited for it alone is dropped."""
    OrmQ.objects.filter(key=queue + MEANT_FOR + slot).delete()
    return OrmQ.objects.filter(key=queue + TAKEN + slot).update(key=queue)


def holders() -> set[tuple[str, str]]:
    """(queue, slot) of each cluster that has taken messages, or for which some wait."""
    pairs: set[tuple[str, str]] = set()
    for key in OrmQ.objects.values_list("key", flat=True).distinct():
        for mark in (TAKEN, MEANT_FOR):
            queue, marked, slot = key.partition(mark)
            if marked:
                pairs.add((queue, slot))
    return pairs
