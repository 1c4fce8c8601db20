"""The labeling queue over HTTP: take an item, draft, submit, skip, give back, undo, with the scope `label`.

A key labels as one person, and sees what that person would see on the labeling page: no suggestion on a blind item, nobody else's
label before their own is submitted. Every address calls what the page calls.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User
from rest_framework.request import Request
from rest_framework.response import Response

from agents_app.access import Role, roles_of
from agents_app.models import Agent, ApiKey, Pool
from datasets_app.labeling import one_query, queue
from datasets_app.models import Assignment, Query, QueueItem
from datasets_app.pages import labeling_page
from training_app.api import examples
from training_app.api.errors import Refused
from training_app.api.schema import operation
from training_app.api.serializers import labeling as shapes
from training_app.api.views.base import ApiView

OF = "Labeling"
NOBODY = ("no_person", "person_refused")
OF_AN_ITEM = (*NOBODY, "not_found", "gone")


class LabelingView(ApiView):
    """Works the queue as the key's person."""

    scope = "label"

    def person(self, pool: Pool) -> User:
        """Whom the key labels as; refused where that is nobody, or somebody who may not label in the pool any more."""
        key = ApiKey.objects.filter(pk=self.access.caller.pk)
        person = User.objects.filter(pk__in=key.values("person")).first()
        if person is None:
            raise Refused(
                403, "no_person", "This API key labels as nobody.", hint="Make one with the person whose labels they will be."
            )  # fmt: skip
        if Role.LABELER not in roles_of(person, pool):
            raise Refused(403, "person_refused", f"This API key labels as {person.get_username()}, who may not label.")
        return person

    def queue_of(self, body: Mapping[str, Any]) -> tuple[Pool, User, Agent | None]:
        """The pool, the key's person, and the agent of a queue of one question; None for the queue of whole sets."""
        pool = self.pool(body["pool"])
        return pool, self.person(pool), _about(pool, body["agent"])

    def lease(self, body: Mapping[str, Any], query_id: int) -> Assignment:
        """The item of that query, opened for the key's person."""
        return _lease(*self.queue_of(body), query_id)


class Next(LabelingView):
    """The next item."""

    @operation(
        "takeItem", "Take the next item of the queue", of=OF, body=shapes.TakeRequest, example={"pool": "support"},
        answers={200: (shapes.TakenItemSerializer, "The item, leased until its idle time has passed; null, with why, where there is "
                       "nothing to do", examples.TAKEN)},
        errors=(*OF_AN_ITEM, "too_many"),
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """Lease the next item, or the `query` of one's choice. What is held already comes first, but for what `beside` names."""
        body = self.body(shapes.TakeRequest)
        pool, person, agent = self.queue_of(body)
        if body["query"] is not None:
            leases = [_lease(pool, person, agent, body["query"])]
        else:
            leases = queue.take(pool, person, beside=body["beside"] or (), agent=agent)
        for lease in leases:
            one_query.reveal(_of(lease, pool, person))
        content: dict[str, Any] = {"item": _item(leases[0]) if leases else None}
        if not leases:
            content["why"] = _why_nothing(pool, person, agent)
        content |= labeling_page.counts(pool, person, agent)
        return Response(shapes.TakenItemSerializer(content).data)


class Item(LabelingView):
    """One item."""

    @operation(
        "readItem", "An item that was taken", of=OF, query_string=shapes.ItemParameters, parts=("query_id",),
        answers={200: (shapes.TakenItemSerializer, "The item as it stands", examples.TAKEN)},
        errors=(*OF_AN_ITEM, "not_taken"),
    )  # fmt: skip
    def get(self, request: Request, query_id: int) -> Response:
        """The item as it stands now, with what the person has chosen so far. Reading takes nothing and renews nothing."""
        body = self.query_string(shapes.ItemParameters)
        pool, person, agent = self.queue_of(body)
        query = _query(pool, query_id)
        lease = (
            Assignment.objects.select_related("item__query", "item__agent")
            .filter(item__query=query, item__agent=agent, person=person)
            .first()
        )
        if lease is None:
            raise Refused(
                404, "not_taken", f"{person.get_username()} has not taken the query {query.pk}.",
                hint="POST /api/label/next/ with it as `query`.",
            )  # fmt: skip
        content = {"item": _item(_of(lease, pool, person)), **labeling_page.counts(pool, person, agent)}
        return Response(shapes.TakenItemSerializer(content).data)


class Heartbeat(LabelingView):
    """Leases go on."""

    @operation(
        "holdItems", "Renew leases", of=OF, body=shapes.QueriesRequest, example={"queries": [17]},
        answers={200: (shapes.HeldSerializer, "The queries that are still held", {"held": [17]})},
        errors=(*NOBODY, "too_many"),
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """Renew the leases on `queries`; a lease that is not renewed ends after the queue's idle minutes."""
        body = self.body(shapes.QueriesRequest)
        held = queue.heartbeat(pool := self.pool(body["pool"]), self.person(pool), body["queries"] or ())
        return Response(shapes.HeldSerializer({"held": sorted(held)}).data)


class Release(LabelingView):
    """Items go back."""

    @operation(
        "releaseItems", "Give items back unanswered", of=OF, body=shapes.QueriesRequest, example={"queries": [17]},
        answers={200: (shapes.ReleasedSerializer, "How many were given back", {"released": 1})},
        errors=(*NOBODY, "too_many"),
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """Give back the items of `queries`, or all that are held; drafts stay."""
        body = self.body(shapes.QueriesRequest)
        released = queue.release(pool := self.pool(body["pool"]), self.person(pool), body["queries"])
        return Response(shapes.ReleasedSerializer({"released": released}).data)


class Draft(LabelingView):
    """What is chosen so far."""

    @operation(
        "saveDraft", "Keep what is chosen so far", of=OF, body=shapes.DraftRequest, parts=("query_id",),
        example={"agents": [1], "base": 0, "version": 0},
        answers={200: (shapes.DraftSerializer, "The version to send with the next one", {"query": 17, "version": 1})},
        errors=(*OF_AN_ITEM, "too_many", "too_long", "stale"),
    )  # fmt: skip
    def post(self, request: Request, query_id: int) -> Response:
        """Keep a choice without making it a label; the lease is renewed. Refused with both versions where another window has written
        since."""
        body = self.body(shapes.DraftRequest)
        lease = self.lease(body, query_id)
        choice = _choice(body, lease, none=body["none"])
        base = body["base"] or 0
        # Without a writer of its own every call is a stranger to the last, and the version alone decides.
        writer = body["writer"] or f"key {uuid.uuid4().hex}"
        try:
            draft = one_query.save_draft(
                lease, choice, base=base, version=body["version"] or 0, writer=writer, step=body["step"] or 0
            )
        except one_query.Stale as stale:
            raise _stale(stale, choice, base) from None
        queue.heartbeat(lease.item.pool, lease.person, [lease.item.query_id])
        return Response(shapes.DraftSerializer({"query": lease.item.query_id, "version": draft.version}).data)


class Submit(LabelingView):
    """The person's answer."""

    @operation(
        "submitLabel", "Make a choice the person's label", of=OF, body=shapes.SubmitRequest, parts=("query_id",),
        example={"agents": [1], "asked": [0, 1, 2], "base": 0, "key": "slack-7f3a"},
        answers={
            201: (shapes.SubmittedSerializer, "The label", examples.SUBMITTED),
            200: (shapes.SubmittedSerializer, "This key was sent before; nothing has changed", examples.SUBMITTED | {"new": False}),
        },
        errors=(*OF_AN_ITEM, "too_many", "too_long", "stale", "key_used"),
    )  # fmt: skip
    def post(self, request: Request, query_id: int) -> Response:
        """Make the choice the person's label. The same `key` again is the same submit, so after a lost answer send it again; a key
        that was used for another query is refused."""
        body = self.body(shapes.SubmitRequest)
        lease = self.lease(body, query_id)
        base = body["base"] or 0
        choice = _choice(body, lease, none=not body["agents"])
        if not body["asked"]:
            raise Refused(
                400, "missing", "asked is missing: the ids of the agents that were shown, as the item has them.", field="asked"
            )  # fmt: skip
        try:
            sent, new = one_query.submit(
                lease, choice, key=f"{lease.person_id}:{body['key']}", base=base, seconds=body["seconds"] or 0,
                api_key=self.access.caller.name,
            )  # fmt: skip
        except one_query.Gone as error:
            raise Refused(410, "gone", str(error)) from None
        except one_query.KeyUsed as error:
            raise Refused(409, "key_used", str(error), field="key") from None
        except one_query.ChoiceError as error:
            raise Refused(400, "invalid", str(error), field="agents") from None
        except one_query.Stale as stale:
            raise _stale(stale, choice, base) from None
        submitted = {
            "query": lease.item.query_id,
            "new": new,
            "undone": sent.undone_at is not None,
            "label": sent.label,
            **labeling_page.counts(lease.item.pool, lease.person, lease.item.agent),
        }
        return Response(shapes.SubmittedSerializer(submitted).data, status=201 if new else 200)


class Skip(LabelingView):
    """Handing on."""

    @operation(
        "skipItem", "Hand the item on", of=OF, body=shapes.SkipRequest, parts=("query_id",), example={"reason": "garbled"},
        answers={200: (shapes.SkippedSerializer, "Others are asked",
                       {"query": 17, "skipped": True, "today": 41, "left": 260, "others": 12})},
        errors=(*OF_AN_ITEM, "too_long"),
    )  # fmt: skip
    def post(self, request: Request, query_id: int) -> Response:
        """Hand the item on with a `reason`; others are asked."""
        body = self.body(shapes.SkipRequest)
        lease = self.lease(body, query_id)
        one_query.skip(lease, body["reason"])
        counts = labeling_page.counts(lease.item.pool, lease.person, lease.item.agent)
        return Response(shapes.SkippedSerializer({"query": lease.item.query_id, "skipped": True, **counts}).data)


class Undo(LabelingView):
    """Taking back."""

    @operation(
        "undoLabel", "Take back the last submit or skip", of=OF, body=shapes.UndoRequest, example={},
        answers={200: (shapes.UndoneSerializer, "What was taken back; the item is held again",
                       {"undone": "submit", "query": 17, "today": 40, "left": 261, "others": 12})},
        errors=OF_AN_ITEM,
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """Take back the person's last submit or skip, or that of `query`; nulls where there is none."""
        body = self.body(shapes.UndoRequest)
        pool, person, agent = self.queue_of(body)
        query = _query(pool, body["query"]) if body["query"] is not None else None
        undone = one_query.undo(pool, person, query, agent)
        answer = {"undone": undone.what if undone else None, "query": undone.query.pk if undone else None}
        return Response(shapes.UndoneSerializer({**answer, **labeling_page.counts(pool, person, agent)}).data)


# --- What is meant --------------------------------------------------------------------------------------------------


def _about(pool: Pool, number: int | None) -> Agent | None:
    """The agent of the queue of one question; None for the queue of whole sets."""
    if number is None:
        return None
    agent = Agent.objects.active().filter(pool=pool, number=number).first()
    if agent is None:
        raise Refused(400, "invalid", "agent must be the id of an active agent of this pool.", field="agent")
    return agent


def _query(pool: Pool, key: int) -> Query:
    query = Query.objects.of(pool).filter(pk=key).first()
    if query is None:
        raise Refused(404, "not_found", f"There is no query {key} in the pool {pool.slug}.")
    return query


def _lease(pool: Pool, person: User, agent: Agent | None, key: int) -> Assignment:
    query = _query(pool, key)
    if agent is not None and not QueueItem.objects.filter(query=query, agent=agent).exists():
        raise Refused(404, "not_found", f"Nobody is asked about {agent.name} and the query {query.pk}.")
    return _of(queue.open_item(query, person, pool, agent), pool, person)


def _of(lease: Assignment, pool: Pool, person: User) -> Assignment:
    lease.person, lease.item.pool = person, pool
    return lease


def _choice(body: Mapping[str, Any], lease: Assignment, *, none: bool) -> one_query.Choice:
    """The choice that was sent. In an answer an empty `agents` means none of these; in a draft `none` says so."""
    shown = body["asked"] or ()
    pool_numbers = set(Agent.objects.filter(pool=lease.item.pool).values_list("number", flat=True))
    for field, numbers in (("agents", body["agents"]), ("asked", shown)):
        stray = sorted(set(numbers) - pool_numbers)
        if stray:
            raise Refused(400, "invalid", f"{field} names {stray[0]}, which is no agent of this pool.", field=field)
    return one_query.Choice(frozenset(body["agents"]), none, body["unsure"], frozenset(shown), body["note"])


# --- What is answered -----------------------------------------------------------------------------------------------


def _item(lease: Assignment) -> dict[str, Any]:
    """An item as the person may see it."""
    drawn = labeling_page.item(lease)
    query, choice = lease.item.query, drawn["choice"]
    offers = [offer for offer, *_told in drawn["offers"]]
    return {
        "query": query.pk,
        "text": query.text,
        "messages": query.messages,
        "origin": query.origin,
        "agent": lease.item.agent.number if lease.item.agent else None,
        "asked": sorted(row.agent.number for row in drawn["rows"]),
        "choice": {
            "agents": sorted(choice.required),
            "none": choice.none,
            "unsure": choice.unsure,
            "note": choice.note,
        },
        "base": drawn["base"],
        "version": drawn["version"],
        "state": lease.state,
        "leased_until": lease.leased_until if lease.state == Assignment.State.HELD else None,
        "suggested": sorted(row.agent.number for row in drawn["rows"] if row.suggested) if offers else None,
        "suggestions": [{**offer.as_json(), "scores": dict(offer.scores)} for offer in offers],
        "labels": one_query.visible_labels(query, lease.person),
    }


def _why_nothing(pool: Pool, person: User, agent: Agent | None) -> dict[str, Any]:
    """What the page says where there is nothing to do, as figures."""
    drawn = labeling_page.nothing(pool, person, agent)
    return {"held": drawn["holdings"], "skipped": drawn["skipped"], "for_others": drawn["open_for_others"]}


def _stale(stale: one_query.Stale, choice: one_query.Choice, base: int) -> Refused:
    return Refused(
        409, "stale", str(stale), hint="Send again with the base and version of theirs, or leave theirs as it is.",
        **one_query.both_versions(stale, choice, base),
    )  # fmt: skip
