"""The HTTP API of the labeling queue: take an item, draft, submit, skip, give back, undo, with the scope `label`.

A key labels as one person, and sees what that person would see on the labeling page: no suggestion on a blind item, nobody else's
label before their own is submitted. Every address calls what the page calls.
"""

import uuid
from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import User

from agents_app.access import Role, roles_of
from agents_app.models import Agent, ApiKey, Pool
from datasets_app import labeling, labeling_page, queue
from datasets_app.models import Assignment, Label, Query, QueueItem
from training_app import serving
from training_app.addresses import Table
from training_app.calls import Call, asked_of, body_of, pool_of
from training_app.replies import Refused, Reply, reply
from training_app.serving import Caller

KEY_CHARACTERS = 50
LISTED = 200  # queries that one call may name


# --- Taking and reading ---------------------------------------------------------------------------------------------


def take(call: Call, caller: Caller) -> Reply:
    """POST /api/label/next/: lease the next item, or the `query` of one's choice; `item` is null where there is nothing to do."""
    body = body_of(call)
    pool, person = _pool(body.get("pool"), caller), _person(caller)
    agent = _about(pool, body.get("agent"))
    if body.get("query") is not None:
        leases = [_lease(pool, person, agent, body["query"])]
    else:
        leases = queue.take(pool, person, beside=_numbers(body, "beside") or (), agent=agent)
    found: dict[str, Any] = {"item": item_json(_of(leases[0], pool, person)) if leases else None}
    if not leases:
        found["why"] = _why_nothing(pool, person, agent)
    return reply({**found, **labeling_page.counts(pool, person, agent)})


def read(call: Call, caller: Caller, query_id: str) -> Reply:
    """GET /api/label/ID/: an item that was taken, as it stands now."""
    asked = asked_of(call)
    pool, person = _pool(asked.get("pool"), caller), _person(caller)
    agent = _about(pool, asked.get("agent"))
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
    return reply({"item": item_json(_of(lease, pool, person)), **labeling_page.counts(pool, person, agent)})


def heartbeat(call: Call, caller: Caller) -> Reply:
    """POST /api/label/heartbeat/: renew the leases on `queries`; answers with those that are still held."""
    body = body_of(call)
    pool, person = _pool(body.get("pool"), caller), _person(caller)
    return reply({"held": sorted(queue.heartbeat(pool, person, _numbers(body, "queries") or ()))})


def release(call: Call, caller: Caller) -> Reply:
    """POST /api/label/release/: give items back unanswered, those in `queries` or all that are held; drafts stay."""
    body = body_of(call)
    pool, person = _pool(body.get("pool"), caller), _person(caller)
    return reply({"released": queue.release(pool, person, _numbers(body, "queries"))})


# --- Answering ------------------------------------------------------------------------------------------------------


def draft(call: Call, caller: Caller, query_id: str) -> Reply:
    """POST /api/label/ID/draft/: keep what is chosen so far; 409 where another window has written since."""
    body = body_of(call)
    lease = _lease_of(body, caller, query_id)
    choice = _choice(body, lease, answer=False)
    base, version = _number(body, "base"), _number(body, "version")
    # Without a writer of its own every call is a stranger to the last, and the version alone decides.
    writer = _text(body, "writer", 40) or f"key {uuid.uuid4().hex}"
    try:
        kept = labeling.save_draft(lease, choice, base=base, version=version, writer=writer, step=_number(body, "step"))
    except labeling.Stale as stale:
        raise _stale(stale, choice, base) from None
    queue.heartbeat(lease.item.pool, lease.person, [lease.item.query_id])
    return reply({"query": lease.item.query_id, "version": kept.version})


def submit(call: Call, caller: Caller, query_id: str) -> Reply:
    """POST /api/label/ID/submit/: make the choice the person's label. 201; with a key that was sent before 200 and nothing changes;
    409 where another label of theirs stands."""
    body = body_of(call)
    lease = _lease_of(body, caller, query_id)
    key, base = _text(body, "key", KEY_CHARACTERS), _number(body, "base")
    if not key:
        raise Refused(
            400, "missing", "key is missing: a text of your own that names this submit, so that it may be sent again.",
            field="key",
        )  # fmt: skip
    choice = _choice(body, lease, answer=True)
    try:
        sent, new = labeling.submit(
            lease, choice, key=f"{lease.person_id}:{key}", base=base, seconds=_number(body, "seconds"), api_key=caller.name
        )  # fmt: skip
    except labeling.ChoiceError as error:
        raise Refused(400, "invalid", str(error), field="agents") from None
    except labeling.Stale as stale:
        raise _stale(stale, choice, base) from None
    found = {
        "query": lease.item.query_id,
        "new": new,
        "undone": sent.undone_at is not None,
        "label": label_json(sent.label),
    }
    return reply(found | labeling_page.counts(lease.item.pool, lease.person, lease.item.agent), 201 if new else 200)


def skip(call: Call, caller: Caller, query_id: str) -> Reply:
    """POST /api/label/ID/skip/: hand the item on with a `reason`; others are asked."""
    body = body_of(call)
    lease = _lease_of(body, caller, query_id)
    reason = _text(body, "reason", 200)
    if not reason:
        raise Refused(400, "missing", "reason is missing: say why it is skipped.", field="reason")
    labeling.skip(lease, reason)
    counts = labeling_page.counts(lease.item.pool, lease.person, lease.item.agent)
    return reply({"query": lease.item.query_id, "skipped": True, **counts})


def undo(call: Call, caller: Caller) -> Reply:
    """POST /api/label/undo/: take back the last submit or skip, or that of `query`; the item is held again."""
    body = body_of(call)
    pool, person = _pool(body.get("pool"), caller), _person(caller)
    agent = _about(pool, body.get("agent"))
    query = _query(pool, body["query"]) if body.get("query") is not None else None
    undone = labeling.undo(pool, person, query, agent)
    found = {"undone": undone.what if undone else None, "query": undone.query.pk if undone else None}
    return reply(found | labeling_page.counts(pool, person, agent))


# --- What is answered -----------------------------------------------------------------------------------------------


def item_json(lease: Assignment) -> dict[str, Any]:
    """An item as the person may see it."""
    drawn = labeling_page.item(lease)
    query, choice = lease.item.query, drawn["choice"]
    offers = [offer for offer, _source in drawn["offers"]]
    return {
        "query": query.pk,
        "text": query.text,
        "origin": query.origin,
        "agent": lease.item.agent.number if lease.item.agent else None,
        "asked": sorted(row.agent.number for row in drawn["rows"]),
        "choice": {"agents": sorted(choice.required), "none": choice.none, "unsure": choice.unsure},
        "base": drawn["base"],
        "version": drawn["version"],
        "state": lease.state,
        "leased_until": lease.leased_until.isoformat() if lease.state == Assignment.State.HELD else None,
        "suggested": sorted(row.agent.number for row in drawn["rows"] if row.suggested) if offers else None,
        "suggestions": [{**offer.as_json(), "scores": dict(offer.scores)} for offer in offers],
        "labels": [label_json(label) for label in labeling.visible_labels(query, lease.person)],
    }


def label_json(label: Label) -> dict[str, Any]:
    """A label as a program sees it."""
    return {
        "id": label.pk,
        "source": label.source,
        "author": label.author.get_username() if label.author else None,
        "agents": label.required,
        "asked": label.asked,
        "unsure": label.unsure,
        "reason": label.reason,
        "at": label.created_at.isoformat(),
        "current": label.superseded_at is None,
    }


def _why_nothing(pool: Pool, person: User, agent: Agent | None) -> dict[str, Any]:
    """What the page says where there is nothing to do, as figures."""
    drawn = labeling_page.nothing(pool, person, agent)
    held = [
        {"person": one.person.get_username(), "items": one.items, "free_at": one.free_at.isoformat()}
        for one in drawn["holdings"]
    ]
    return {"held": held, "skipped": drawn["skipped"], "for_others": drawn["open_for_others"]}


def _stale(stale: labeling.Stale, choice: labeling.Choice, base: int) -> Refused:
    return Refused(
        409, "stale", str(stale), hint="Send again with the base and version of theirs, or leave theirs as it is.",
        **labeling.both_versions(stale, choice, base),
    )  # fmt: skip


# --- What a call holds ----------------------------------------------------------------------------------------------


def _person(caller: Caller) -> User:
    """Whom the key labels as; refused where that is nobody, or somebody who may not label any more."""
    person = User.objects.filter(pk__in=ApiKey.objects.filter(pk=caller.pk).values("person")).first()
    if person is None:
        raise Refused(
            403,
            "no_person",
            "This API key labels as nobody.",
            hint="Make one with the person whose labels they will be.",
        )
    if Role.LABELER not in roles_of(person):
        raise Refused(403, "person_refused", f"This API key labels as {person.get_username()}, who may not label.")
    return person


def _pool(slug: Any, caller: Caller) -> Pool:
    return Pool.objects.get(pk=pool_of(slug, caller, serving.served()).pk)


def _about(pool: Pool, number: Any) -> Agent | None:
    """The agent of the queue of one question; None for the queue of whole sets."""
    if number is None:
        return None
    found = Agent.objects.active().filter(pool=pool, number=_whole(number)).first() if _whole(number) >= 0 else None
    if found is None:
        raise Refused(400, "invalid", "agent must be the id of an active agent of this pool.", field="agent")
    return found


def _query(pool: Pool, key: Any) -> Query:
    found = Query.objects.filter(pk=_whole(key), dataset__pool=pool, deleted_at__isnull=True).first()
    if found is None:
        raise Refused(404, "not_found", f"There is no query {str(key)[:20]} in the pool {pool.slug}.")
    return found


def _lease_of(body: Mapping[str, Any], caller: Caller, query_id: str) -> Assignment:
    pool, person = _pool(body.get("pool"), caller), _person(caller)
    return _lease(pool, person, _about(pool, body.get("agent")), query_id)


def _lease(pool: Pool, person: User, agent: Agent | None, key: Any) -> Assignment:
    query = _query(pool, key)
    if agent is not None and not QueueItem.objects.filter(query=query, agent=agent).exists():
        raise Refused(404, "not_found", f"Nobody is asked about {agent.name} and the query {query.pk}.")
    return _of(queue.open_item(query, person, pool, agent), pool, person)


def _of(lease: Assignment, pool: Pool, person: User) -> Assignment:
    lease.person, lease.item.pool = person, pool
    return lease


def _choice(body: Mapping[str, Any], lease: Assignment, *, answer: bool) -> labeling.Choice:
    """The choice that was sent. In an answer an empty `agents` means none of these; in a draft `none` says so."""
    required = _numbers(body, "agents")
    if required is None:
        raise Refused(400, "missing", "agents is missing: a list of ids, [] for none of these.", field="agents")
    asked = _numbers(body, "asked") or ()
    known = set(Agent.objects.filter(pool=lease.item.pool).values_list("number", flat=True))
    for field, numbers in (("agents", required), ("asked", asked)):
        stray = sorted(set(numbers) - known)
        if stray:
            raise Refused(400, "invalid", f"{field} names {stray[0]}, which is no agent of this pool.", field=field)
    if answer and not asked:
        raise Refused(
            400,
            "missing",
            "asked is missing: the ids of the agents that were shown, as the item has them.",
            field="asked",
        )
    none = not required if answer else _flag(body, "none")
    return labeling.Choice(frozenset(required), none, _flag(body, "unsure"), frozenset(asked))


def _whole(value: Any) -> int:
    """A number in a JSON body or an address; −1 for anything else."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 18:
        return int(value)
    return value if type(value) is int and 0 <= value < 2**63 else -1


def _numbers(body: Mapping[str, Any], field: str) -> list[int] | None:
    value = body.get(field)
    if value is None:
        return None
    if not isinstance(value, list) or any(type(one) is not int or not 0 <= one < 2**63 for one in value):
        raise Refused(400, "invalid", f"{field} must be a list of ids.", field=field)
    if len(value) > LISTED:
        raise Refused(400, "too_many", f"{field} has {len(value)} ids; at most {LISTED} are taken.", field=field)
    return value


def _number(body: Mapping[str, Any], field: str) -> int:
    value = body.get(field)
    if value is None:
        return 0
    if type(value) is not int or not 0 <= value < 2**31:
        raise Refused(400, "invalid", f"{field} must be a number from 0.", field=field)
    return value


def _flag(body: Mapping[str, Any], field: str) -> bool:
    value = body.get(field, False)
    if not isinstance(value, bool):
        raise Refused(400, "invalid", f"{field} must be true or false.", field=field)
    return value


def _text(body: Mapping[str, Any], field: str, most: int) -> str:
    value = body.get(field, "")
    if not isinstance(value, str) or "\0" in value:
        raise Refused(400, "invalid", f"{field} must be a text.", field=field)
    if len(value.strip()) > most:
        raise Refused(400, "too_long", f"{field} has {len(value)} characters; at most {most} are taken.", field=field)
    return value.strip()


ENDPOINTS: Table = {
    "/api/label/next/": {"POST": take},
    "/api/label/undo/": {"POST": undo},
    "/api/label/heartbeat/": {"POST": heartbeat},
    "/api/label/release/": {"POST": release},
    "/api/label/{query_id}/": {"GET": read},
    "/api/label/{query_id}/draft/": {"POST": draft},
    "/api/label/{query_id}/submit/": {"POST": submit},
    "/api/label/{query_id}/skip/": {"POST": skip},
}
