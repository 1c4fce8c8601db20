"""Snapshots: immutable, hashed copies of a pool's gold rows and its roster, which runs train on."""

import gzip
import hashlib
import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max, Q
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit, pools
from agents_app.models import Pool
from datasets_app import gold, splits
from datasets_app.models import (
    ImportProblem,
    Label,
    Query,
    Snapshot,
    SnapshotContent,
    Split,
)
from training_app.engine.data import Agent, Example

BATCH = 1_000


class SnapshotError(Exception):
    """A snapshot that cannot be taken; the message says why and what to do."""


def take(pool: Pool, *, author: User | None = None, note: str = "", include_llm: bool = False) -> Snapshot:
    """Copy the pool's gold rows and its active agents; a pool that has not changed since gives the snapshot that it has.

    Gold queries without a split get one first, in the default ratios. A row speaks of the active agents only, and is left out
    where it was asked about none of them. With `include_llm`, what only an LLM has labeled joins the training rows, never
    validation or test. Raises SnapshotError when there is nothing to copy.
    """
    splits.assign(pool)
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
        known = Snapshot.objects.filter(pool=pool, digest=digest.hexdigest()).first()
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
                text=row["text"],
                required=frozenset(row["required"]),
                asked=None if asked == everyone else asked,
                split=row["split"],
            )


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
            values |= {"text": row["text"], "required_agents": row["required"], "asked_agents": row["asked"]}
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


def erase(query: Query, actor: User | None = None) -> None:
    """Take a query's text out of everything: the query, its labels' remarks, the import reports and every snapshot.

    Counts, labels and hashes stay: a snapshot still adds up to its digest, and an import of the same text does not bring it
    back. There is no undo.
    """
    with transaction.atomic():
        locked = Query.objects.select_for_update(of=("self",)).select_related("dataset__pool").get(pk=query.pk)
        if locked.erased_at is not None:
            return
        pool, text = locked.dataset.pool, locked.text
        for eraser in _erasers:
            eraser(locked, text)
        Label.objects.filter(query=locked).update(reason="")
        shown = " ".join(text.split())[:100]
        if shown:
            ImportProblem.objects.filter(upload__dataset__pool=pool, excerpt__contains=shown).update(excerpt="")
        for content in SnapshotContent.objects.filter(snapshot__pool=pool).iterator(chunk_size=1):
            without = _without(bytes(content.rows_gzip), locked.pk)
            if without is not None:
                SnapshotContent.objects.filter(pk=content.pk).update(rows_gzip=without)
        now = timezone.now()
        locked.text, locked.external_id, locked.extra = "", "", {}
        locked.erased_at, locked.deleted_at = now, locked.deleted_at or now
        locked.save(update_fields=("text", "external_id", "extra", "erased_at", "deleted_at", "updated_at"))
        audit.record("query.erased", actor=actor, target=f"query {locked.pk}", pool=pool)
    query.refresh_from_db()


def _without(packed: bytes, query_id: int) -> bytes | None:
    """The rows with one query's text and id blanked, or None where it is not among them."""
    found = False
    out = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=io.BytesIO(packed)) as lines,
        gzip.GzipFile(fileobj=out, mode="wb", mtime=0, compresslevel=6) as target,
    ):
        for line in lines:
            row = json.loads(line)
            if row["query"] == query_id:
                found = True
                line = _canonical(row | {"text": "", "id": ""}) + b"\n"
            target.write(line)
    return out.getvalue() if found else None


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
    return hashlib.sha256(_canonical([row["id"], row["text"], row["required"], row["asked"], row["split"]])).hexdigest()


def _rows(pool: Pool, active: frozenset[int], include_llm: bool) -> Iterator[dict[str, Any]]:
    """The rows of a new snapshot, by key of the query."""
    found = Query.objects.filter(dataset__pool=pool, deleted_at__isnull=True, erased_at__isnull=True)
    if include_llm:
        found = found.filter(Q(gold__isnull=False) | Q(labels__isnull=False)).distinct()
    else:
        found = found.filter(gold__isnull=False)
    values = found.order_by("pk").values_list(
        "pk", "external_id", "text", "group__split", "gold__required", "gold__asked"
    )
    merged = gold.merges([pool.pk])[pool.pk]
    pending = values.iterator(chunk_size=BATCH)
    while batch := list(islice(pending, BATCH)):
        labels: dict[int, list[Label]] = defaultdict(list)
        if include_llm:
            for label in Label.objects.current().filter(query__in=[values[0] for values in batch]).order_by("pk"):
                labels[label.query_id].append(label)
        for key, identifier, text, split, required, asked in batch:
            if include_llm and split in ("", Split.TRAIN):
                whole = gold.compose(labels[key], merged, include_llm=True)
                required, asked, split = whole.required, whole.asked, Split.TRAIN.value
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
            yield row | {"sha256": _row_hash(row)}
