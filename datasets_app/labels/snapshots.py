"""Snapshots: immutable, hashed copies of a pool's gold rows and its roster, which runs train on."""

import gzip
import hashlib
import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F, Max, Q
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit, pools
from agents_app.models import Pool
from datasets_app.labels import gold, voices
from datasets_app.models import (
    Label,
    Query,
    Snapshot,
    SnapshotContent,
    Split,
    SplitGroup,
)
from datasets_app.queries import splits, traces
from training_app.engine.data.conversations import as_json, from_json
from training_app.engine.data.examples import Agent, Example, of_one_conversation

BATCH = 1_000
TURN = ("messages", "conversation")  # what a row has beside its text where it is a turn of a conversation


class SnapshotError(Exception):
    """A snapshot that cannot be taken; the message says why and what to do."""


def take(pool: Pool, *, author: User | None = None, note: str = "", include_llm: bool = False) -> Snapshot:
    """Copy the pool's gold rows and its active agents; a pool that has not changed since gives the snapshot that it has.

    Gold queries without a split get one first, in the default ratios. A row speaks of the active agents only, and is left out
    where it was asked about none of them. With `include_llm`, what only an LLM has labeled joins the training rows, never
    validation or test; a group that has no split yet is in train from then on. Raises SnapshotError when there is nothing to copy.
    """
    splits.assign(pool)
    if include_llm:
        spoken = Query.objects.of(pool).filter(labels__superseded_at__isnull=True)
        spoken = spoken.filter(
            labels__source=Label.Source.LLM, labels__provenance__fallback__isnull=True, group__split=""
        )
        splits.give_where(SplitGroup.objects.filter(pk__in=list(spoken.values_list("group", flat=True))), Split.TRAIN)
    roster = pools.roster(pool)
    entries = [_agent_values(agent) for agent in roster]
    digest = hashlib.sha256(_canonical(entries))
    content = io.BytesIO()
    sizes = dict.fromkeys(Split.values, 0)
    with gzip.GzipFile(fileobj=content, mode="wb", mtime=0, compresslevel=6) as packed:
        for row in _rows(pool, frozenset(agent.id for agent in roster), include_llm):
            digest.update(bytes.fromhex(row["sha256"]))
            sizes[row["split"]] += 1
            packed.write(_canonical(row) + b"\n")
    total = sum(sizes.values())
    if not total:
        raise SnapshotError(
            _("The pool “%(pool)s” has no gold labels yet. Label queries or import labeled ones first.")
            % {"pool": pool}
        )
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
        known = Snapshot.objects.filter(pool=pool, digest=digest.hexdigest(), erased_rows=0).first()
        if known is not None:
            return known
        highest = Snapshot.objects.filter(pool=pool).aggregate(highest=Max("number"))["highest"] or 0
        snapshot = Snapshot.objects.create(
            pool=pool,
            number=highest + 1,
            digest=digest.hexdigest(),
            roster=entries,
            rows=total,
            split_sizes=sizes,
            note=note[:200],
            author=author,
        )
        SnapshotContent.objects.create(snapshot=snapshot, rows_gzip=content.getvalue())
        audit.record(
            "snapshot.taken",
            actor=author,
            target=str(snapshot),
            pool=pool,
            detail={"rows": total, "digest": snapshot.digest},
        )
    return snapshot


def examples(snapshot: Snapshot) -> Iterator[Example]:
    """The snapshot's rows for the engine, in order; erased ones are left out. `asked` is None where all agents were."""
    everyone = frozenset(agent["id"] for agent in snapshot.roster)
    for row in rows(snapshot):
        if row["text"]:
            asked = frozenset(row["asked"])
            yield Example(
                id=row["id"] or f"q{row['query']}",
                text=from_json(row["text"], row.get("messages")),
                required=frozenset(row["required"]),
                asked=None if asked == everyone else asked,
                split=row["split"],
                group=row.get("conversation", ""),
            )


def unlabeled(pool: Pool, before: datetime, most: int) -> list[str]:
    """The newest texts, at most `most`, that the pool had `before` and that nobody has labeled since. Those in a group of
    validation or test are left out. They are no part of a snapshot: a student may learn from them, and nothing is judged by them."""
    queries = (
        Query.objects.of(pool)
        .filter(state=Query.State.UNLABELED, created_at__lte=before, erased_at=None)
        .exclude(group__split__in=("val", "test"))
    )
    return [from_json(*said) for said in queries.order_by("-pk").values_list("text", "messages")[:most]]


def rows(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """The rows as they are stored: query, id, text, required, asked, split, sha256."""
    packed = SnapshotContent.objects.values_list("rows_gzip", flat=True).get(snapshot=snapshot)
    with gzip.GzipFile(fileobj=io.BytesIO(bytes(packed))) as lines:
        for line in lines:
            yield json.loads(line)


def jsonl(snapshot: Snapshot) -> Iterator[bytes]:
    """The rows as a file, in the format that an import reads; erased ones are left out."""
    for row in rows(snapshot):
        if row["text"]:
            values = {"id": row["id"]} if row["id"] else {}
            if "messages" in row or "conversation" in row:
                values["messages"] = as_json(from_json(row["text"], row.get("messages")))
                values |= {"conversation_id": row["conversation"]} if "conversation" in row else {}
            else:
                values["text"] = row["text"]
            values |= {"required_agents": row["required"], "asked_agents": row["asked"]}
            yield (json.dumps(values | {"split": row["split"]}, ensure_ascii=False) + "\n").encode()


def agents(snapshot: Snapshot) -> tuple[Agent, ...]:
    """The roster as it was, in the order of the ids."""
    return tuple(
        Agent(
            id=values["id"],
            name=values["name"],
            description=values["description"],
            keywords=tuple(values["keywords"]),
            code=values["code"],
            cost=values["cost"],
        )
        for values in snapshot.roster
    )


def verify(snapshot: Snapshot) -> bool:
    """Whether the stored rows still add up to the digest, each unerased row to its own hash included."""
    digest = hashlib.sha256(_canonical(snapshot.roster))
    for row in rows(snapshot):
        if row["text"] and _row_hash(row) != row["sha256"]:
            return False
        digest.update(bytes.fromhex(row["sha256"]))
    return digest.hexdigest() == snapshot.digest


# ---------------------------------------------------------------------------------------------------- erasing

Eraser = Callable[[Query, str], None]
_erasers: list[Eraser] = []


def on_erase(eraser: Eraser) -> Eraser:
    """Have `eraser(query, its text)` called within the transaction when a query is erased: for what later rooms keep of it."""
    if eraser not in _erasers:
        _erasers.append(eraser)
    return eraser


def erase(query: Query, actor: User | None = None) -> list[traces.Trace]:
    """Take a query's text out of everything, wherever it stands in this form but for case and space: the queries of that text in any
    dataset, their labels' remarks, import reports and files, snapshots, decisions, comments, the audit trail's details. With a turn
    all turns of its conversation go. Returns where it still stands: what people wrote for everybody, as guidelines, is theirs to
    change.

    Counts, labels and hashes stay: a snapshot still adds up to its digest, and an import of the same text does not bring it
    back. There is no undo.
    """
    with transaction.atomic():
        same = Query.objects.filter(of_the_same(query), erased_at=None).order_by("pk")
        locked = list(same.select_for_update(of=("self",), no_key=True).select_related("dataset__pool"))
        if not any(one.pk == query.pk for one in locked):
            return []
        said = next(one.said for one in locked if one.pk == query.pk)
        # A turn as short as "yes" is said in many conversations: elsewhere it is another query's.
        texts = list(dict.fromkeys(one.text for one in locked if not one.messages or len(one.text) >= traces.MIN))
        now = timezone.now()
        for one in locked:
            for eraser in _erasers:
                eraser(one, one.said)
        keys = {one.pk for one in locked}
        Label.objects.filter(query__in=keys).update(reason="")
        for content in SnapshotContent.objects.iterator(chunk_size=1):
            without, rows_without = _without(bytes(content.rows_gzip), keys, texts)
            if rows_without:
                SnapshotContent.objects.filter(pk=content.pk).update(rows_gzip=without)
                Snapshot.objects.filter(pk=content.snapshot_id).update(erased_rows=F("erased_rows") + rows_without)
        for one in locked:
            one.text, one.external_id, one.extra, one.messages, one.conversation = "", "", {}, None, ""
            one.erased_at, one.deleted_at = now, one.deleted_at or now
            one.save(update_fields=(*BLANKED, "erased_at", "deleted_at", "updated_at"))
        for text in texts:
            traces.forget(text)
        for one in locked:
            audit.record("query.erased", actor=actor, target=f"query {one.pk}", pool=one.dataset.pool)
    query.refresh_from_db()
    return traces.of(str(said)) if str(said) in texts else []


def of_the_same(query: Query) -> Q:
    """The queries that are erased with one: those that read the same, and the turns of its conversation."""
    same = Q(pk=query.pk) | Q(text_hash=query.text_hash)
    if query.conversation:
        same |= Q(dataset__pool=query.dataset.pool_id, conversation=query.conversation)
    if query.messages:
        others = Query.objects.filter(group=query.group_id, erased_at=None).exclude(pk=query.pk)
        turns = others.values_list("pk", "text", "messages").iterator(chunk_size=BATCH)
        same |= Q(pk__in=[pk for pk, text, before in turns if of_one_conversation(query.said, from_json(text, before))])
    return same


#: What erasing empties; how many messages were said before stays, as the place of a turn in its conversation.
BLANKED = ("text", "external_id", "extra", "messages", "conversation")


def _without(packed: bytes, query_ids: set[int], texts: Sequence[str]) -> tuple[bytes, int]:
    """The rows with these queries' text and id blanked, and those in which one of `texts` was said before; and how many of them were
    among the rows and not blank yet."""
    phrases = [traces.Phrase(text) for text in texts if len(text) >= traces.MIN]
    found = 0
    out = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=io.BytesIO(packed)) as lines,
        gzip.GzipFile(fileobj=out, mode="wb", mtime=0, compresslevel=6) as target,
    ):
        for line in lines:
            row = json.loads(line)
            said = row.get("messages", ())
            gone = row["query"] in query_ids or any(p.is_all_of(m["content"]) for m in said for p in phrases)
            if gone and (row["text"] or row["id"]):
                found += 1
                blank: dict[str, Any] = {"text": "", "id": ""}
                line = _canonical({k: v for k, v in row.items() if k not in TURN} | blank) + b"\n"
            target.write(line)
    return out.getvalue(), found


# ---------------------------------------------------------------------------------------------------- rows


def _canonical(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def _agent_values(agent: Agent) -> dict[str, Any]:
    return {
        "id": agent.id,
        "name": agent.name,
        "description": agent.description,
        "keywords": list(agent.keywords),
        "code": agent.code,
        "cost": agent.cost,
    }


def _row_hash(row: dict[str, Any]) -> str:
    """SHA-256 of what the row says; the query's key is no part of it, so that equal data hashes equally everywhere."""
    said = [row["id"], row["text"], row["required"], row["asked"], row["split"]]
    # What only turns have comes last, and plain texts hash as they did before there were any.
    more = [row.get(key) for key in TURN]
    return hashlib.sha256(_canonical([*said, *(more if any(more) else [])])).hexdigest()


def _rows(pool: Pool, active: frozenset[int], include_llm: bool) -> Iterator[dict[str, Any]]:
    """The rows of a new snapshot, by key of the query."""
    found = Query.objects.of(pool).filter(erased_at__isnull=True)
    if include_llm:
        found = found.filter(Q(gold__isnull=False) | Q(labels__isnull=False)).distinct()
    else:
        found = found.filter(gold__isnull=False)
    values = found.order_by("pk").values_list(
        "pk", "external_id", "text", "messages", "conversation", "group__split", "gold__required", "gold__asked"
    )
    merged = voices.merges([pool.pk])[pool.pk]
    pending = values.iterator(chunk_size=BATCH)
    while batch := list(islice(pending, BATCH)):
        labels: dict[int, list[Label]] = defaultdict(list)
        if include_llm:
            for label in Label.objects.current().filter(query__in=[values[0] for values in batch]).order_by("pk"):
                labels[label.query_id].append(label)
        for key, identifier, text, messages, conversation, split, required, asked in batch:
            if include_llm and split == Split.TRAIN:
                whole = gold.compose(labels[key], merged, include_llm=True)
                required, asked = whole.required, whole.asked
            said = active & frozenset(asked or ())
            if not said or not split:  # without a split it became gold just now: the next snapshot has it
                continue
            row: dict[str, Any] = {
                "query": key,
                "id": identifier,
                "text": text,
                "required": sorted(said & frozenset(required)),
                "asked": sorted(said),
                "split": split,
            }
            row |= {k: v for k, v in zip(TURN, (messages, conversation), strict=True) if v}
            yield row | {"sha256": _row_hash(row)}
