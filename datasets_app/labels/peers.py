"""Who has seen what others said of a query. What they say of it from then on is kept and counts, but is not independent: it is marked,
and left out of agreement."""

from collections.abc import Iterable

from django.contrib.auth.models import User

from datasets_app.models import Label, PeersSeen, Query

#: Labels from which one could copy what somebody thinks.
OF_PEOPLE = (Label.Source.HUMAN, Label.Source.ADJUDICATION)


def note(query: Query, viewer: User, shown: Iterable[Label]) -> None:
    """Keep that this person is being shown these labels of the query, where somebody else's are among them."""
    if any(label.source in OF_PEOPLE and label.author_id != viewer.pk for label in shown) and not seen(query, viewer):
        PeersSeen.objects.bulk_create([PeersSeen(query=query, person=viewer)], ignore_conflicts=True)


def seen(query: Query, person: User) -> bool:
    """Whether this person has seen what others said of the query."""
    return PeersSeen.objects.filter(query=query, person=person).exists()
