"""What can be done to many queries at once: each action is one object, and `ACTIONS` is the table of them.

The pages, their previews, the admin, the journal of changes and the tests that take changes back in every order iterate over the
table; CONTRIBUTING.md says how to add one. `bulk` carries an action out in batches, keeps what `apply` returns for each query as its
`before`, and hands that to `undo`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from agents_app.models import Agent, Pool
from datasets_app.labeling import queue, reask, sending
from datasets_app.labels import disagreement, gold, labels, suggestions, trust
from datasets_app.models import BulkChange, Gold, GoldAgent, Label, Query, Suggestion

#: What undoing needs to know of one query, as JSON.
Before = Any


def _changed(n: int) -> str:
    return ngettext("%(n)s query was changed.", "%(n)s queries were changed.", n) % {"n": n}


def _change(n: int) -> str:
    return ngettext("Change %(n)s query", "Change %(n)s queries", n) % {"n": f"{n:,}"}


def _keep(_later: Before, earlier: Before) -> Before:
    return earlier


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkAction:
    """One row of the table.

    `affected(queries, agent)` are those of the queries that the action changes. `apply(change, keys)` changes a batch of them within a
    transaction, and returns the `before` of each that it did change. `undo(change, before, actor)` takes that back and returns how
    many queries are as they were.

    Actions of one `layer` write the same state of a query. Where a later change of that layer stands, undoing an earlier one leaves
    the query alone: the later change's `before` becomes `inherit(its own, the earlier one's)`, so that changes can be taken back in
    any order. "" is for actions whose effects do not touch each other.
    """

    code: str
    label: Promise
    affected: Callable[["QuerySet[Query]", Agent | None], "QuerySet[Query]"]
    apply: Callable[[BulkChange, Sequence[int]], Mapping[int, Before]]
    undo: Callable[[BulkChange, Mapping[int, Before], User], int]
    layer: str = ""
    inherit: Callable[[Before, Before], Before] = _keep
    takes_agent: bool = False
    #: Which agent? Asked where none was chosen.
    question: Promise | str = ""
    #: May name an agent that is retired.
    retired_agents: bool = False
    #: It changes queries that are deleted; all others leave those alone.
    of_deleted: bool = False
    danger: bool = False
    #: What it means, on the preview.
    consequence: Promise
    button: Callable[[int], str] = _change
    done: Callable[[int], str] = _changed
    #: The name of its entries in the audit trail.
    audited: str


# --- Labels: an agent added or removed, suggestions accepted -------------------------------------------------------


def _lacks(queries: "QuerySet[Query]", agent: Agent | None) -> "QuerySet[Query]":
    return queries.filter(deleted_at__isnull=True).exclude(_has_gold(agent))


def _needs(queries: "QuerySet[Query]", agent: Agent | None) -> "QuerySet[Query]":
    return queries.filter(deleted_at__isnull=True).filter(_has_gold(agent))


def _has_gold(agent: Agent | None) -> Exists:
    return Exists(GoldAgent.objects.filter(gold__query=OuterRef("pk"), agent=agent))


def _suggested(queries: "QuerySet[Query]", _agent: Agent | None) -> "QuerySet[Query]":
    """Those without gold for which something is suggested; what an unreadable answer fell back to is no suggestion to accept."""
    machine = Label.objects.current().filter(query=OuterRef("pk"), source=Label.Source.LLM)
    model = Suggestion.objects.filter(query=OuterRef("pk"))
    open_ones = queries.exclude(state=Query.State.GOLD).filter(deleted_at__isnull=True)
    return open_ones.filter(Exists(machine.filter(provenance__fallback__isnull=True)) | Exists(model))


def _label(statements: Iterable[labels.NewLabel], keys: Sequence[int]) -> dict[int, Before]:
    """Record labels; the `before` of a query is the key of the label that was made."""
    label_by_query = {label.query_id: label.pk for label in labels.record_many(list(statements))}
    disagreement.measure(keys)
    return label_by_query


def _one_agent(change: BulkChange, keys: Sequence[int], *, required: bool) -> dict[int, Before]:
    assert change.agent is not None
    number = change.agent.number
    return _label(
        (
            labels.NewLabel(
                query_id=key,
                source=Label.Source.ADJUDICATION,
                author=change.author,
                required=[number] if required else [],
                asked=[number],
                provenance={"via": "bulk", "change": change.pk},
                partial=True,
            )
            for key in keys
        ),
        keys,
    )


def _accept(change: BulkChange, keys: Sequence[int]) -> dict[int, Before]:
    accepted = labels.record_many(list(_accepted(change, keys)))
    sending.close_by(accepted)
    label_by_query = {label.query_id: label.pk for label in accepted}
    reask.ask_about_the_rest(change.pool, list(label_by_query))
    disagreement.measure(keys)
    return label_by_query


def _accepted(change: BulkChange, keys: Sequence[int]) -> Iterator[labels.NewLabel]:
    agents = frozenset(change.pool.agents.active().values_list("number", flat=True))
    decided = {
        key: frozenset(asked) for key, asked in Gold.objects.filter(query__in=keys).values_list("query", "asked")
    }
    offered = suggestions.offers(keys)
    weights = trust.weights(change.pool)
    for key in keys:
        offers = [offer for offer in offered[key] if not offer.fallback]
        asked = frozenset().union(*(offer.asked for offer in offers)) & agents - decided.get(key, frozenset())
        if not asked:
            continue
        yield labels.NewLabel(
            query_id=key,
            source=Label.Source.ADJUDICATION,
            author=change.author,
            required=suggestions.proposed(offers, asked, weights),
            asked=asked,
            provenance={"via": "accepted", "change": change.pk, "shown": [offer.as_json() for offer in offers]},
            partial=True,
        )


def _withdraw(change: BulkChange, before: Mapping[int, Before], actor: User) -> int:
    """What the change's labels said counts no more; whatever was said since stays."""
    queries = list(before)
    erased = [query.pk for query in gold.lock(queries) if query.erased_at is not None]  # their gold counts as it is
    withdrawn = Label.objects.filter(pk__in=before.values()).exclude(query__in=erased)
    standing = list(withdrawn.exclude(pk__in=withdrawn.withdrawn().values("pk")))
    counted = sum(label.superseded_at is None for label in standing)
    labels.withdraw_many(standing, actor)
    gold.recompose(queries)
    sending.reopen(change.pool, list(withdrawn))
    disagreement.measure(queries)
    return counted


# --- The queue ----------------------------------------------------------------------------------------------------


def _send(change: BulkChange, keys: Sequence[int]) -> dict[int, Before]:
    """Ask labelers; the `before` of a query is its place in the queue and the extra answers that it is to have now."""
    queue.fill_these(change.pool, keys)
    before = sending.of(keys)
    sending.send(Query.objects.filter(pk__in=keys), change.pool)
    after = sending.of(keys)
    return {key: [*before[key], after[key].extra] for key in keys if before.get(key) != after.get(key)}


def _unsend(change: BulkChange, before: Mapping[int, Before], _actor: User) -> int:
    return sending.take_back(change.pool, {key: sending.Sent.of(place) for key, place in before.items()})


def _sent_before(later: Before, earlier: Before) -> Before:
    """The place before both, and the extra answers after the later one."""
    return [*sending.Sent.of(earlier).before, sending.Sent.of(later).extra]


# --- Deleting and restoring ---------------------------------------------------------------------------------------


def delete(query_ids: Sequence[int]) -> int:
    """Put queries aside: no list, queue, export or snapshot holds them, nobody holds them any more, and `restore` brings them back."""
    with transaction.atomic():
        gold.lock(query_ids)
        count = Query.objects.filter(pk__in=query_ids, deleted_at__isnull=True).update(deleted_at=timezone.now())
        queue.close(query_ids)
    return count


def restore(pool: Pool, query_ids: Sequence[int]) -> int:
    """Bring deleted queries back, with everything that is known and asked of them; erased ones stay erased."""
    with transaction.atomic():
        gold.lock(query_ids)
        count = Query.objects.filter(pk__in=query_ids, erased_at__isnull=True, deleted_at__isnull=False).update(
            deleted_at=None
        )
        queue.fill_these(pool, query_ids)
        queue.resize(queue.stored_settings(pool), query_ids)
    return count


#: The `before` of deleting and restoring: whether the query was deleted.
ALIVE, DELETED = False, True


def _delete(_change: BulkChange, keys: Sequence[int]) -> dict[int, Before]:
    delete(keys)
    return dict.fromkeys(keys, ALIVE)


def _restore(change: BulkChange, keys: Sequence[int]) -> dict[int, Before]:
    restore(change.pool, keys)
    return dict.fromkeys(keys, DELETED)


def _as_it_was(change: BulkChange, before: Mapping[int, Before], _actor: User) -> int:
    alive = [key for key, deleted in before.items() if deleted == ALIVE]
    put_aside = [key for key, deleted in before.items() if deleted == DELETED]
    return restore(change.pool, alive) + delete(put_aside)


# --- The table ----------------------------------------------------------------------------------------------------

_ONE_AGENT = _(
    "Only the answers about this agent change. All other answers and labels stay. You can undo this in one step."
)

_TABLE = (
    BulkAction(
        code="add",
        label=_("Add an agent"),
        affected=_lacks,
        apply=lambda change, keys: _one_agent(change, keys, required=True),
        undo=_withdraw,
        takes_agent=True,
        question=_("Add which agent?"),
        consequence=_ONE_AGENT,
        audited="add",
    ),
    BulkAction(
        code="remove",
        label=_("Remove an agent"),
        affected=_needs,
        apply=lambda change, keys: _one_agent(change, keys, required=False),
        undo=_withdraw,
        takes_agent=True,
        question=_("Remove which agent?"),
        retired_agents=True,
        consequence=_ONE_AGENT,
        audited="remove",
    ),
    BulkAction(
        code="accept",
        label=_("Accept suggestions as gold"),
        affected=_suggested,
        apply=_accept,
        undo=_withdraw,
        consequence=_(
            "For queries without gold, the suggestions become your decision, unread, and labelers are not asked about them. "
            "You can undo this in one step."
        ),
        audited="accept",
    ),
    BulkAction(
        code="send",
        label=_("Send to queue"),
        affected=lambda queries, _agent: sending.unasked(queries),
        apply=_send,
        undo=_unsend,
        layer="place",
        inherit=_sent_before,
        consequence=_(
            "Labelers are asked about these queries again. Existing answers stay until then. You can undo this in one step."
        ),
        done=lambda n: ngettext("%(n)s query waits for labelers.", "%(n)s queries wait for labelers.", n) % {"n": n},
        audited="sent",
    ),
    BulkAction(
        code="delete",
        label=_("Delete"),
        affected=lambda queries, _agent: queries.filter(deleted_at__isnull=True),
        apply=_delete,
        undo=_as_it_was,
        layer="deleted",
        danger=True,
        consequence=_(
            "Deleted queries disappear from lists, the queue, exports and new snapshots. You can restore them."
        ),
        button=lambda n: ngettext("Delete %(n)s query", "Delete %(n)s queries", n) % {"n": f"{n:,}"},
        audited="delete",
    ),
    BulkAction(
        code="restore",
        label=_("Restore"),
        affected=lambda queries, _agent: queries.filter(deleted_at__isnull=False, erased_at__isnull=True),
        apply=_restore,
        undo=_as_it_was,
        layer="deleted",
        of_deleted=True,
        consequence=_("Restored queries keep all their labels and return to the queue if they were in it."),
        button=lambda n: ngettext("Restore %(n)s query", "Restore %(n)s queries", n) % {"n": f"{n:,}"},
        done=lambda n: ngettext("%(n)s query was restored.", "%(n)s queries were restored.", n) % {"n": n},
        audited="restore",
    ),
)

ACTIONS: dict[str, BulkAction] = {action.code: action for action in _TABLE}
