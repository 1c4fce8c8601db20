"""Who has seen what others said is noted where a page only reads, and written by a thread."""

import pytest

from datasets_app.labels import labels, peers
from datasets_app.models import PeersSeen


def test_a_note_counts_at_once_and_is_written_later(pool, queries, ana, rita) -> None:
    label = labels.record(labels.NewLabel(queries[0].pk, source="human", required=[1], asked=[0, 1], author=rita))
    peers.note(queries[0], ana, [label])
    assert peers.seen(queries[0], ana)
    assert not PeersSeen.objects.exists()
    peers.write()
    assert not peers._noted
    assert PeersSeen.objects.get().person == ana
    assert peers.seen(queries[0], ana)
    peers.note(queries[0], rita, [label])
    assert not peers.seen(queries[0], rita), "one's own label tells nothing"


@pytest.mark.django_db(transaction=True)
def test_a_note_about_what_was_deleted_is_dropped(pool, queries, ana, rita) -> None:
    label = labels.record(labels.NewLabel(queries[0].pk, source="human", required=[1], asked=[0, 1], author=rita))
    peers.note(queries[0], ana, [label])
    peers._noted[10_000_000, ana.pk] = None
    peers.write()
    assert not peers._noted
