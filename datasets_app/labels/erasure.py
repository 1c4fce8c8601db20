"""What labeling forgets when a query's text is erased: drafts, remarks, and its place in the queue. Labels and counts stay."""

from datasets_app.labels import queue
from datasets_app.models import Assignment, Draft, Label, PrelabelItem, Query, QueueItem


def of_erasing(query: Query, text: str) -> None:
    """Called in the transaction that erases."""
    Draft.objects.filter(query=query).delete()
    Query.objects.filter(pk=query.pk, state=Query.State.DRAFT).update(state=Query.State.UNLABELED)
    Assignment.objects.filter(item__query=query).update(reason="")
    Label.objects.filter(query=query).exclude(note="").update(note="")
    PrelabelItem.objects.filter(query=query).update(error="")
    queue.close([query.pk])
    QueueItem.objects.filter(query=query).update(wanted=False, note="")
    for label in Label.objects.filter(query=query, provenance__has_key="error"):  # what an LLM said of the text
        del label.provenance["error"]
        label.save(update_fields=("provenance",))
