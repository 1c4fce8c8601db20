"""Who has seen what others said of a query. What they say of it from then on is kept and counts, but is not independent: it is marked,
and left out of agreement.

A page that shows labels only reads. So who has seen them is noted in memory, at most NOTED_AT_MOST pairs, and a thread writes the
notes within WRITE_SECONDS.
"""

import contextlib
from collections.abc import Iterable

from django.contrib.auth.models import User
from django.db import IntegrityError

from datasets_app.models import Label, PeersSeen, Query
from routerweb import state
from routerweb.background import Background

#: Labels from which one could copy what somebody thinks.
OF_PEOPLE = (Label.Source.HUMAN, Label.Source.ADJUDICATION)
WRITE_SECONDS = 1.0
NOTED_AT_MOST = 10_000
_noted: dict[tuple[int, int], None] = {}
state.keep(__name__, "_noted", "Labels shown to others, not yet written", NOTED_AT_MOST)


def note(query: Query, viewer: User, shown: Iterable[Label]) -> None:
    """Note that this person is being shown these labels of the query, where somebody else's are among them."""
    if any(label.source in OF_PEOPLE and label.author_id != viewer.pk for label in shown) and not seen(query, viewer):
        if len(_noted) < NOTED_AT_MOST:
            _noted[query.pk, viewer.pk] = None
        writer.start(WRITE_SECONDS)


def seen(query: Query, person: User) -> bool:
    """Whether this person has seen what others said of the query."""
    if (query.pk, person.pk) in _noted:
        return True
    return PeersSeen.objects.filter(query=query, person=person).exists()


def write() -> None:
    """Write what was noted; notes about what was deleted meanwhile are dropped."""
    for query, person in list(_noted):
        with contextlib.suppress(IntegrityError):
            PeersSeen.objects.bulk_create([PeersSeen(query_id=query, person_id=person)], ignore_conflicts=True)
        _noted.pop((query, person), None)


def _turn() -> float:
    write()
    return WRITE_SECONDS


writer = Background("peers-seen", _turn, at_end=write, in_child=_noted.clear)
