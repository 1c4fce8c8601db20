"""Labels put right where an error is seen: from a run's errors, a decision, the playground, without a way through the queue."""

from collections.abc import Collection

from django.contrib.auth.models import User
from django.db import transaction
from django.utils.translation import gettext as _

from agents_app import privacy
from agents_app.models import Pool
from datasets_app.labeling import adjudication, one_query, sending
from datasets_app.labels import disagreement, labels
from datasets_app.models import Label, Query
from datasets_app.queries import adding
from training_app.engine.data.file_rows import BadRow, text_of


def find(pool: Pool, text: str) -> Query | None:
    """The pool's query of that text, where it has one."""
    stored = privacy.redacted(pool.pk, [text])[0]
    return Query.objects.filter(dataset__pool=pool, deleted_at__isnull=True, text=stored).order_by("pk").first()


def correct(
    pool: Pool, text: str, required: Collection[int], person: User, *, seen_at: str, decides: bool = False
) -> Label:
    """What this person says that a text needs, of all active agents; the query is made where the pool has none of that text.

    `seen_at` says where the error was seen, and is kept with the label. With `decides` it is a reviewer's decision, which makes gold
    whatever others said. Raises ChoiceError for an agent that the pool does not have, for a text that cannot be stored, and for a
    query that was deleted or erased.
    """
    asked = frozenset(pool.agents.active().values_list("number", flat=True))
    if not set(required) <= asked:
        raise one_query.ChoiceError(_("The page is out of date. Reload it; your choice is kept."))
    try:
        text_of(text)
    except BadRow as problem:
        raise one_query.ChoiceError(problem.reason) from None
    with transaction.atomic():
        query = find(pool, text)
        if query is None:
            place = adding.find_or_add(adding.dataset_of(pool), [adding.NewQuery(text)], f"corrected: {seen_at}"[:60])
            query = Query.objects.get(pk=place[0][0].pk)
        if query.deleted_at is not None:
            raise one_query.Gone
        if decides:
            return adjudication.decide(
                pool,
                query,
                adjudication.Ruling(
                    required=frozenset(required), took="edit", reason="mistake", asked=asked, seen_at=seen_at
                ),
                author=person,
            )
        label = labels.record(
            labels.NewLabel(
                query.pk,
                source=Label.Source.HUMAN,
                author=person,
                required=sorted(required),
                asked=sorted(asked),
                provenance={"via": "correction", "seen_at": seen_at},
            )
        )
        # Nobody is asked what somebody has just said of their own accord.
        sending.close_by([label], untaken=True)
        disagreement.measure([query.pk])
    return label


def last_of(pool: Pool, text: str, person: User, *, seen_at: str) -> Label | None:
    """This person's correction of a text that stands, made where `seen_at` says."""
    query = find(pool, text)
    return Label.objects.current().filter(query=query, author=person, provenance__seen_at=seen_at).order_by("pk").last()


def take_back(pool: Pool, key: int | None, person: User) -> None:
    """Undo this person's correction of that key. Raises ChoiceError where there is none, or it was taken back."""
    corrections_of_person = Label.objects.filter(
        query__dataset__pool=pool, author=person, provenance__has_key="seen_at"
    )
    label = None if key is None else corrections_of_person.select_related("query__dataset__pool").filter(pk=key).first()
    if label is None:
        raise one_query.ChoiceError(_("This label was taken back already."))
    try:
        if label.source == Label.Source.ADJUDICATION:
            adjudication.take_back(label, person)
        else:
            with transaction.atomic():
                labels.withdraw(label, person)
                sending.reopen(pool, [label])
            disagreement.measure([label.query_id])
    except (labels.LabelError, adjudication.DecisionError) as error:
        raise one_query.ChoiceError(str(error)) from None
