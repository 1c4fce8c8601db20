"""A labeler's work on one query: drafts, submit, skip, undo. Nothing that was sent is lost, and nothing counts twice."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app.access import Role, roles_of
from agents_app.models import Agent, Pool
from datasets_app.labeling import alike, queue
from datasets_app.labels import disagreement, gold, labels, peers, suggestions, trust, voices
from datasets_app.models import Assignment, Draft, Label, Query, Submission
from training_app.engine.data.conversations import USER, before


class ChoiceError(ValueError):
    """A choice that cannot be sent as it is; the message says what to do."""


class Gone(ChoiceError):
    """The query was deleted or erased meanwhile; nothing was written."""

    def __init__(self) -> None:
        super().__init__(_("This query was deleted meanwhile. Continue with the next one."))


class KeyUsed(Exception):
    """The key of a submit has been used for another query; nothing was written. `query_id` is the other one."""

    def __init__(self, query_id: int | None) -> None:
        where = _("for query %(key)s") % {"key": query_id} if query_id is not None else _("by somebody else")
        super().__init__(
            _("This submission's key was already used %(where)s. Nothing was stored: send it again with a new key.")
            % {"where": where}
        )
        self.query_id = query_id


class Stale(Exception):
    """Somebody's other tab was first. `theirs` is the draft or the label that stands, `required` the agents that it needs, and nothing
    was written."""

    def __init__(self, theirs: Draft | Label, required: Sequence[int] | None = None) -> None:
        super().__init__(_("This query was changed in another window."))
        self.theirs = theirs
        self.required = list(theirs.required if required is None else required)


@dataclass(frozen=True, slots=True)
class Choice:
    """What a person has chosen: agents by id, or “none of these”; neither is an answer yet. `asked`: the agents on screen,
    `note`: what reviewers are to know, `one_key`: one key accepted the suggestion and sent it."""

    required: frozenset[int]
    none: bool
    unsure: bool
    asked: frozenset[int]
    note: str = ""
    one_key: bool = False

    def check(self) -> None:
        """Raise ChoiceError unless this is an answer."""
        if self.required and self.none:
            raise ChoiceError(_("Choose agents or “None of these agents”, not both."))
        if len(self.note) > labels.LONGEST_NOTE:
            raise ChoiceError(_("The note is longer than %(most)d characters.") % {"most": labels.LONGEST_NOTE})
        if not self.required and not self.none:
            raise ChoiceError(_("Choose at least one agent, or “None of these agents”."))
        if self.required - self.asked or not self.asked:
            raise ChoiceError(_("The page is out of date. Reload it; your choice is kept."))


def both_versions(stale: Stale, choice: Choice, base: int) -> dict[str, Any]:
    """What stands (`theirs`) and what was sent (`mine`), for whoever has to choose between them; sending again with the `base` and
    `version` of `theirs` is that choice."""
    theirs = stale.theirs
    sent = isinstance(theirs, Label)
    return {
        "theirs": {
            "required": stale.required,
            "none": not stale.required if isinstance(theirs, Label) else theirs.none,
            "unsure": theirs.unsure,
            "note": theirs.note,
            "sent": sent,
            "version": 0 if isinstance(theirs, Label) else theirs.version,
            "base": theirs.pk if sent else base,
        },
        "mine": {
            "required": sorted(choice.required),
            "none": choice.none,
            "unsure": choice.unsure,
            "note": choice.note,
        },
    }


@dataclass(frozen=True, slots=True)
class Undone:
    """What was taken back: `what` is "submit" or "skip". `held`: the item is the person's again; not where somebody else has taken
    what they had skipped."""

    query: Query
    what: str
    held: bool = True


def _own_labels(query: Query, person: User) -> "QuerySet[Label]":
    return Label.objects.current().filter(query=query, source=Label.Source.HUMAN, author=person).order_by("pk")


def own_label(query: Query, person: User) -> Label | None:
    """The latest of the person's labels of this query that count, if there is one."""
    return _own_labels(query, person).last()


def own_answer(query: Query, person: User) -> frozenset[int] | None:
    """The agents that the query needs as this person has said in all; None where they have said nothing."""
    labels_of_person = list(_own_labels(query, person))
    return voices.answer(labels_of_person, {}).required if labels_of_person else None


def own_earlier(query: Query, person: User) -> dict[int, frozenset[int]]:
    """What this person has said of the turns before this one: by the place of a user's message in `messages`, the agents it needs."""
    messages = before(query.routed_text)
    if not messages:
        return {}
    turns = Query.objects.filter(group=query.group_id, turn__lt=query.turn or 0, erased_at=None, deleted_at=None)
    labels = Label.objects.current().filter(query__in=turns, author=person, source=Label.Source.HUMAN)
    of_query: dict[int, list[Label]] = {}
    for label in labels.select_related("query").order_by("pk"):
        of_query.setdefault(label.query_id, []).append(label)
    labels_by_turn = {}
    for labels_of_turn in of_query.values():
        own_messages = before(labels_of_turn[0].query.routed_text)
        for place, message in enumerate(messages):
            # What an earlier turn had before it is what stands before its message, as far back as both reach.
            both = min(len(own_messages), place)
            same = message.role == USER and message.content == labels_of_turn[0].query.text
            if same and own_messages[len(own_messages) - both :] == messages[place - both : place]:
                labels_by_turn[place] = voices.answer(labels_of_turn, {}).required
    return labels_by_turn


def _stale(label: Label, query: Query, person: User, agent: Agent | None) -> Stale:
    required = own_answer(query, person) or frozenset()
    return Stale(label, sorted(required if agent is None else required & {agent.number}))


def save_draft(lease: Assignment, choice: Choice, *, base: int, version: int, writer: str, step: int) -> Draft:
    """Keep what a person has chosen so far; the lease is renewed.

    `base` and `version`: the person's label (0: none) and draft as the tab knew them; `writer` names the tab and `step` counts its
    saves. A save that arrives twice or after a later one of its own tab changes nothing. Raises Stale when another tab has
    written something else since: two tabs that chose the same do not conflict, as a page and its reload do.
    """
    query, person, agent = lease.item.query, lease.person, lease.item.agent
    with transaction.atomic():
        label = own_label(query, person)
        if label is not None and label.pk != base:
            raise _stale(label, query, person, agent)
        draft = Draft.objects.select_for_update().filter(query=query, person=person, agent=agent).first()
        fields: dict[str, Any] = {
            "required": sorted(choice.required),
            "none": choice.none and not choice.required,
            "unsure": choice.unsure,
            "note": choice.note[: labels.LONGEST_NOTE],
            "writer": writer[:40],
            "step": step,
        }
        if draft is None:
            draft, created = Draft.objects.get_or_create(query=query, person=person, agent=agent, defaults=fields)
            if created:
                Query.objects.filter(pk=query.pk, state=Query.State.UNLABELED).update(state=Query.State.DRAFT)
                return draft
        if draft.writer == writer[:40]:
            if step <= draft.step:
                return draft
        elif draft.writer and draft.version != version:  # without a writer it is what an undo put back
            chosen = ("required", "none", "unsure", "note")
            if any(getattr(draft, name) != fields[name] for name in chosen):
                raise Stale(draft)
        for name, value in fields.items():
            setattr(draft, name, value)
        draft.version += 1
        draft.save()
    return draft


def draft_of(lease: Assignment) -> Draft | None:
    """What the person has chosen for this item and not yet sent."""
    return Draft.objects.filter(query=lease.item.query_id, person=lease.person_id, agent=lease.item.agent_id).first()


def drop_draft(lease: Assignment) -> None:
    """Forget a person's draft; a query that nobody has drafted or labeled is unlabeled again."""
    query = lease.item.query
    Draft.objects.filter(query=query, person=lease.person_id, agent=lease.item.agent_id).delete()
    if not Draft.objects.filter(query=query).exists():
        Query.objects.filter(pk=query.pk, state=Query.State.DRAFT).update(state=Query.State.UNLABELED)


def submit(
    lease: Assignment,
    choice: Choice,
    *,
    key: str,
    base: int,
    seconds: int = 0,
    api_key: str = "",
    similar: Sequence[int] = (),
) -> tuple[Submission, bool]:
    """Make a choice the person's label; returns the submission and whether it is new. The same `key` again returns the first one and
    changes nothing.

    `base`: the person's own label as their page knew it (0: none). `api_key` names the key that it came with. `similar`: keys of
    queries that get the same answer, each as a label of its own; those that the person may not answer with it are left out. Raises
    Stale when another label stands meanwhile; ChoiceError when the choice is no answer; Gone when the query was deleted; KeyUsed when
    the key was another submit's.
    """
    query, person = lease.item.query, lease.person
    followers = alike.take(lease, similar)
    with transaction.atomic():
        locked = {row.pk: row for row in gold.lock([query.pk, *(follower.item.query_id for follower in followers)])}
        done = _sent_before(key, lease)
        if done is not None:
            return done, False
        if query.pk not in locked or locked[query.pk].deleted_at is not None:
            raise Gone
        choice.check()
        if lease.item.agent is not None and choice.asked != {lease.item.agent.number}:
            raise ChoiceError(_("This question is about %(agent)s alone.") % {"agent": lease.item.agent.name})
        current = own_label(query, person)
        if current is not None and current.pk != base:
            raise _stale(current, query, person, lease.item.agent)
        label = labels.record(
            labels.NewLabel(
                query.pk,
                source=Label.Source.HUMAN,
                author=person,
                required=choice.required,
                asked=choice.asked,
                unsure=choice.unsure,
                note=choice.note,
                provenance=_provenance(lease, choice, seconds) | ({"api_key": api_key} if api_key else {}),
                partial=lease.item.agent_id is not None,
            )
        )
        try:
            with transaction.atomic():
                submission = Submission.objects.create(key=key, item=lease.item, person=person, label=label)
        except IntegrityError:  # the same key, at the same moment, for another query
            raise KeyUsed(_query_of(key, person)) from None
        queue.finish(lease)
        drop_draft(lease)
        for follower in followers:
            if locked[follower.item.query_id].deleted_at is None:
                _follow(submission, follower, choice)
        disagreement.measure([query.pk, *(follower.item.query_id for follower in followers)])
    return submission, True


def _follow(submission: Submission, lease: Assignment, choice: Choice) -> None:
    """Give a similar query the answer of `submission`. To be called in its transaction, with the query locked."""
    provenance = {"via": "similar", "like": submission.item.query_id, "blind": False}
    if peers.seen(lease.item.query, lease.person):
        provenance["peers_seen"] = True
    label = labels.record(
        labels.NewLabel(
            lease.item.query.pk,
            source=Label.Source.HUMAN,
            author=lease.person,
            required=choice.required,
            asked=choice.asked,
            unsure=choice.unsure,
            note=choice.note,
            provenance=provenance,
        )
    )
    Submission.objects.create(
        key=uuid.uuid4().hex, item=lease.item, person=lease.person, label=label, together=submission
    )
    queue.finish(lease)
    drop_draft(lease)


def _sent_before(key: str, lease: Assignment) -> Submission | None:
    """The submission that this key has made already for this item and person. Raises KeyUsed where it was another's."""
    done = Submission.objects.select_related("label").filter(key=key).first()
    if done is not None and (done.item_id, done.person_id) != (lease.item_id, lease.person_id):
        raise KeyUsed(_query_of(key, lease.person))
    return done


def _query_of(key: str, person: User) -> int | None:
    """The query that a person's own submission of this key was for; None where it is not theirs."""
    return Submission.objects.filter(key=key, person=person).values_list("item__query", flat=True).first()


def _provenance(lease: Assignment, choice: Choice, seconds: int) -> dict[str, Any]:
    """How the label came about: blind or not, before or after others' labels were seen, and what became of the suggestions that were
    shown."""
    provenance: dict[str, Any] = {"via": "queue", "blind": lease.blind}
    if lease.item.agent is not None:
        provenance = {"via": "re-ask", "agent": lease.item.agent.number, "blind": lease.blind}
    elif lease.drawn:
        provenance["evaluation"] = True
    if peers.seen(lease.item.query, lease.person):
        provenance["peers_seen"] = True
    if seconds > 0:
        provenance["seconds"] = min(seconds, 24 * 3600)
    if lease.shown:
        offered = frozenset(lease.shown[0].get("proposed", ()))
        provenance |= {
            "shown": lease.shown,
            "kept": sorted(offered & choice.required),
            "added": sorted(choice.required - offered),
            "removed": sorted(offered - choice.required),
        }
        if choice.one_key and offered == choice.required:
            provenance["one_key"] = True
    return provenance


def skip(lease: Assignment, reason: str) -> None:
    """Hand the item on with a reason; it comes back to this person when they ask for what they skipped."""
    queue.skip(lease, reason)


def undo(pool: Pool, person: User, query: Query | None = None, agent: Agent | None = None) -> Undone | None:
    """Take back the person's last submit or skip, or the one of `query`; the item is theirs again, with what they had chosen.
    `agent`: in the queue about that agent alone. Answers that were given together are taken back together.

    What is already taken back stays so: a request that arrives twice undoes one thing. None: there is nothing to undo, or the
    query was deleted or erased since, and what was said of it stays.
    """
    sent = Submission.objects.filter(person=person, item__pool=pool, item__agent=agent, undone_at__isnull=True)
    passed = Assignment.objects.filter(
        person=person, item__pool=pool, item__agent=agent, state=Assignment.State.SKIPPED
    )
    if query is not None:
        sent, passed = sent.filter(item__query=query), passed.filter(item__query=query)
    last_sent = sent.select_related("label", "item__query", "item__pool", "item__agent").order_by("-at", "-pk").first()
    last_passed = passed.select_related("item__query", "item__pool").order_by("-ended_at").first()
    if last_passed and last_passed.ended_at and not (last_sent and last_sent.at > last_passed.ended_at):
        if last_passed.item.query.deleted_at is not None:
            return None
        return Undone(last_passed.item.query, "skip", held=queue.reopen(last_passed))
    return _undo_submit(last_sent, person) if last_sent else None


def _undo_submit(submission: Submission, person: User) -> Undone | None:
    """Take back a submission, and those that were sent together with it."""
    first = submission.together_id or submission.pk
    sent = Submission.objects.filter(Q(pk=first) | Q(together=first), person=person, undone_at__isnull=True)
    with transaction.atomic():
        gold.lock(list(sent.values_list("item__query", flat=True)))
        each = sent.select_related("label", "item__query", "item__pool", "item__agent").order_by("pk")
        undone = [lease.item.query for lease in each if _take_back(lease, person)]
        disagreement.measure([query.pk for query in undone])
    return Undone(undone[0], "submit") if undone else None


def _take_back(submission: Submission, person: User) -> bool:
    """Undo one submission, its query locked; False where it is undone already, or its query was deleted since."""
    query, label, agent = submission.item.query, submission.label, submission.item.agent
    if query.deleted_at is not None:
        return False
    if not Submission.objects.filter(pk=submission.pk, undone_at__isnull=True).update(undone_at=timezone.now()):
        return False
    labels.withdraw(label, person)
    lease = Assignment.objects.select_related("item__pool").filter(item=submission.item, person=person).first()
    if lease is not None and not _answered(submission):
        queue.reopen(lease)
    required = [n for n in label.required if agent is None or n == agent.number]
    fields = {"required": required, "none": not required, "unsure": label.unsure, "note": label.note}
    fields |= {"writer": "", "step": 0}
    Draft.objects.update_or_create(query=query, person=person, agent=agent, defaults=fields)
    Query.objects.filter(pk=query.pk, state=Query.State.UNLABELED).update(state=Query.State.DRAFT)
    return True


def _answered(undone: Submission) -> bool:
    """Whether another answer of this person to the same question stands: then it is not asked again."""
    others = Submission.objects.filter(item=undone.item_id, person=undone.person_id, undone_at__isnull=True)
    return others.exclude(pk=undone.pk).filter(label__superseded_at__isnull=True).exists()


def visible_labels(query: Query, viewer: User) -> Sequence[Label]:
    """The labels of a query that this person may see, oldest first: a labeler sees nobody else's before their own is submitted. Who
    is shown others' is remembered: what they say from then on is not independent."""
    labels = Label.objects.filter(query=query).select_related("author", "superseded_by").order_by("pk")
    if roles_of(viewer, query.dataset.pool_id) & {Role.REVIEWER, Role.OPS} or own_label(query, viewer) is not None:
        shown = list(labels)
        peers.note(query, viewer, shown)
        return shown
    return list(labels.filter(author=viewer, source=Label.Source.HUMAN))


def suggested(lease: Assignment) -> list[suggestions.Offer]:
    """What is suggested on this lease: nothing on a blind one, and nothing that `reveal` has not written down."""
    return _offers(lease) if lease.shown else []


def is_unrevealed(lease: Assignment) -> bool:
    """Whether something could be suggested on this lease that `reveal` has not written down yet."""
    return not lease.shown and bool(_offers(lease))


def reveal(lease: Assignment) -> None:
    """Write down, once, what will be suggested on this lease: its label's provenance says so."""
    offers = [] if lease.shown else _offers(lease)
    if offers:
        proposed = sorted(suggestions.proposed(offers, asked_of(lease), trust.weights(lease.item.pool)))
        lease.shown = [{"proposed": proposed, **offer.as_json()} for offer in offers]
        Assignment.objects.filter(pk=lease.pk).update(shown=lease.shown)


def _offers(lease: Assignment) -> list[suggestions.Offer]:
    if lease.blind:
        return []
    about = lease.item.agent.number if lease.item.agent else None
    return suggestions.offers([lease.item.query_id], about).get(lease.item.query_id, [])


def asked_of(lease: Assignment) -> list[int]:
    """The ids of the agents that this lease asks about, in their order."""
    if lease.item.agent:
        return [lease.item.agent.number]
    return list(
        Agent.objects.filter(pool=lease.item.pool_id).active().order_by("number").values_list("number", flat=True)
    )
