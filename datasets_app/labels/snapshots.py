"""Snapshots: immutable, hashed copies of a pool's gold rows and its roster, which runs train on."""

import gzip
import hashlib
import io
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from agents_app import audit, pools
from agents_app.models import Pool
from agents_app.texts.columns import rewrite
from datasets_app.labels import gold, voices
from datasets_app.models import (
    Label,
    Query,
    Snapshot,
    SnapshotContent,
    Split,
    WrittenQuery,
)
from datasets_app.queries import splits
from routerweb.erasing import Lookup
from training_app.engine.data.conversations import as_json, from_json
from training_app.engine.data.examples import Agent, Example

BATCH = 1_000
ATTEMPTS = 3  # to store a snapshot, while others give splits
TURN = ("messages", "conversation")  # what a row has beside its text where it is a turn of a conversation


class SnapshotError(Exception):
    """A snapshot that cannot be taken; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A snapshot that is not stored yet, with the splits that it needs."""

    planned: splits.Plan
    roster: list[dict[str, Any]]
    digest: str
    content: bytes
    judges: Mapping[str, Mapping[str, int]]
    written: int = 0

    @property
    def sizes(self) -> dict[str, int]:
        """Split → rows."""
        return {split: sum(of.values()) for split, of in self.judges.items()}


def draft(pool: Pool, *, include_llm: bool | None = None) -> Draft:
    """What `take` would store. Nothing is written."""
    include_llm = splits.with_llm(pool, include_llm)
    planned = splits.plan(pool, include_llm=include_llm)
    llm = planned.llm_counts_in if include_llm else frozenset()
    roster = pools.roster(pool)
    entries = [_agent_values(agent) for agent in roster]
    digest = hashlib.sha256(_canonical(entries))
    content = io.BytesIO()
    judges: dict[str, Counter[str]] = {split: Counter() for split in Split.values}
    with gzip.GzipFile(fileobj=content, mode="wb", mtime=0, compresslevel=6) as packed:
        for row, judge in _rows(pool, frozenset(agent.id for agent in roster), planned.split_of(), llm):
            digest.update(bytes.fromhex(row["sha256"]))
            judges[row["split"]][judge] += 1
            packed.write(_canonical(row) + b"\n")
        written = 0
        for row in _written_rows(pool, frozenset(agent.id for agent in roster)):
            digest.update(bytes.fromhex(row["sha256"]))
            packed.write(_canonical(row) + b"\n")
            written += 1
    counted = {split: dict(of) for split, of in judges.items()}
    return Draft(planned, entries, digest.hexdigest(), content.getvalue(), counted, written)


def take(
    pool: Pool,
    *,
    author: User | None = None,
    note: str = "",
    include_llm: bool | None = None,
    least: Mapping[str, int] | None = None,
    may_be_empty: bool = False,
) -> Snapshot:
    """Copy the pool's gold rows and its active agents; a pool that has not changed since gives the snapshot that it has.

    Labeled queries without a split get one, in the default ratios. A row speaks of the active agents only, and is left out where it
    was asked about none of them. With `include_llm`, what only an LLM has labeled joins: in training always, in validation and test
    until gold is enough there. None leaves it to the pool, see `splits.with_llm`. `least`: split → the rows that it must have;
    `may_be_empty`: it may have none at all, for what does not learn from labels.

    Raises SnapshotError where there is nothing to copy or a split has too few rows; then nothing has changed.
    """
    for _attempt in range(ATTEMPTS):
        drafted = draft(pool, include_llm=include_llm)
        if not may_be_empty:
            _check(pool, drafted.sizes, least or {})
        try:
            return _store(pool, drafted, author, note)
        except _Overtaken:  # somebody gave some of the groups another split meanwhile
            continue
    raise SnapshotError(_("The splits of “%(pool)s” are being changed. Try again in a minute.") % {"pool": pool})


class _Overtaken(Exception):
    """The database is not any more as the draft found it."""


def _store(pool: Pool, drafted: Draft, author: User | None, note: str) -> Snapshot:
    """The draft as a snapshot, or the one that holds the same. Raises _Overtaken, and then nothing has changed."""
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
        carried_out = splits.carry_out(pool, drafted.planned)
        if sum(carried_out.values()) != sum(map(len, drafted.planned.groups.values())):
            raise _Overtaken
        stored = Snapshot.objects.filter(pool=pool, digest=drafted.digest, erased_rows=0).first()
        if stored is not None:
            return stored
        highest = Snapshot.objects.filter(pool=pool).aggregate(highest=Max("number"))["highest"] or 0
        snapshot = Snapshot.objects.create(
            pool=pool,
            number=highest + 1,
            digest=drafted.digest,
            roster=drafted.roster,
            rows=sum(drafted.sizes.values()),
            split_sizes=drafted.sizes,
            judges=drafted.judges,
            written=drafted.written,
            note=note[:200],
            author=author,
        )
        SnapshotContent.objects.create(snapshot=snapshot, rows_gzip=drafted.content)
        detail = {"rows": snapshot.rows, "digest": snapshot.digest}
        audit.record("snapshot.taken", actor=author, target=str(snapshot), pool=pool, detail=detail)
    return snapshot


def _check(pool: Pool, sizes: Mapping[str, int], least: Mapping[str, int]) -> None:
    """Raises SnapshotError where there are too few rows."""
    suggested = splits.labeled_by_llm_alone(pool).count() if not sum(sizes.values()) else 0
    if suggested:
        raise SnapshotError(
            ngettext(
                "The pool “%(pool)s” has no gold labels yet, only %(count)d label of an LLM. Include it, or check it.",
                "The pool “%(pool)s” has no gold labels yet, only %(count)d labels of an LLM. Include them, or check some.",
                suggested,
            )
            % {"pool": pool, "count": suggested}
        )
    if not sum(sizes.values()):
        raise SnapshotError(
            _("The pool “%(pool)s” has no gold labels yet. Label queries or import labeled ones first.")
            % {"pool": pool}
        )
    few = [
        _("%(split)s has %(have)d labeled queries and needs at least %(least)d")
        % {"split": Split(split).label, "have": sizes.get(split, 0), "least": count}
        for split, count in least.items()
        if sizes.get(split, 0) < count
    ]
    if few:
        raise SnapshotError(_("%(few)s. Label or import more.") % {"few": "; ".join(few)})


def examples(snapshot: Snapshot) -> Iterator[Example]:
    """The snapshot's rows for the engine, in order; erased ones are left out. `asked` is None where all agents were."""
    everyone = frozenset(agent["id"] for agent in snapshot.roster)
    llm_judges = snapshot.judged_by == "llm"
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
                judges=llm_judges or row.get("judge") != Label.Source.LLM,
            )


def written(snapshot: Snapshot) -> list[Example]:
    """The snapshot's written queries for the engine, in order. They teach a router beside the rows, and are none of them."""
    return [
        Example(
            id=f"w{row['written']}",
            text=row["text"],
            required=frozenset(row["required"]),
        )
        for row in (_stored(snapshot) if snapshot.written else ())
        if row.get("written") and row["text"]
    ]


def unlabeled(pool: Pool, before: datetime, limit: int) -> list[str]:
    """The newest texts, at most `limit`, that the pool had `before` and that nobody has labeled since. Those in a group of
    validation or test are left out. They are no part of a snapshot: a student may learn from them, and nothing is judged by them."""
    queries = (
        Query.objects.of(pool)
        .filter(state=Query.State.UNLABELED, created_at__lte=before, erased_at=None)
        .exclude(group__split__in=("val", "test"))
    )
    return [from_json(*columns) for columns in queries.order_by("-pk").values_list("text", "messages")[:limit]]


def rows(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """The rows of labeled queries as they are stored: query, id, text, required, asked, split, sha256."""
    return (row for row in _stored(snapshot) if not row.get("written"))


def _stored(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """All rows that are stored, those of written queries too."""
    packed = SnapshotContent.objects.values_list("rows_gzip", flat=True).get(snapshot=snapshot)
    yield from _unpacked(packed)


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
    for row in _stored(snapshot):
        if row["text"] and _row_hash(row) != row["sha256"]:
            return False
        digest.update(bytes.fromhex(row["sha256"]))
    return digest.hexdigest() == snapshot.digest


# ---------------------------------------------------------------------------------------------------- blanking


def holding(lookup: Lookup) -> list[int]:
    """The keys of the contents in a row of which it stands."""
    return _holding(lambda row: lookup.found_in(said_in(row)))


def _holding(is_meant: Callable[[dict[str, Any]], bool]) -> list[int]:
    contents = SnapshotContent.objects.order_by("pk").values_list("pk", "rows_gzip").iterator(chunk_size=1)
    return [key for key, packed in contents if any(is_meant(row) for row in _unpacked(packed))]


def blank_rows(is_gone: Callable[[dict[str, Any]], bool], keys: Collection[int] | None = None) -> None:
    """Blank the text, id and conversation of these rows in every snapshot, or in the contents with these keys. Their hashes stay."""
    for key in _holding(lambda row: _is_left(row) and is_gone(row)) if keys is None else keys:
        _blank_rows_of(SnapshotContent.objects.filter(pk=key), is_gone)


def _blank_rows_of(content: QuerySet[SnapshotContent], is_gone: Callable[[dict[str, Any]], bool]) -> None:
    blanked = 0

    def without(packed: bytes) -> bytes | None:
        nonlocal blanked
        blanked, out = 0, io.BytesIO()
        with gzip.GzipFile(fileobj=out, mode="wb", mtime=0, compresslevel=6) as target:
            for row in _unpacked(packed):
                if _is_left(row) and is_gone(row):
                    blanked += 1
                    row = {name: value for name, value in row.items() if name not in TURN} | {"text": "", "id": ""}
                target.write(_canonical(row) + b"\n")
        return out.getvalue() if blanked else None

    def count(_written: bytes) -> None:
        Snapshot.objects.filter(content__in=content).update(erased_rows=F("erased_rows") + blanked)

    rewrite(content, "rows_gzip", without, count)


def _is_left(row: dict[str, Any]) -> bool:
    """Whether a row is not blanked yet."""
    return any(said_in(row).values())


def _unpacked(packed: bytes | memoryview) -> Iterator[dict[str, Any]]:
    with gzip.GzipFile(fileobj=io.BytesIO(bytes(packed))) as lines:
        yield from map(json.loads, lines)


def said_in(row: dict[str, Any]) -> dict[str, Any]:
    """What a row says in somebody's words."""
    return {name: row.get(name) for name in ("text", "id", *TURN)}


def digest_again(snapshot: Snapshot) -> None:
    """Give a snapshot whose roster has changed the digest that it adds up to."""
    digest = hashlib.sha256(_canonical(snapshot.roster))
    for row in _stored(snapshot):
        digest.update(bytes.fromhex(row["sha256"]))
    Snapshot.objects.filter(pk=snapshot.pk).update(digest=digest.hexdigest())


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
    values = [row["id"], row["text"], row["required"], row["asked"], row["split"]]
    # What only turns and an LLM's rows have comes last, so that it changes no other row's hash.
    more = [row.get(key) for key in (*TURN, "judge", "written")]
    while more and not more[-1]:
        more.pop()
    return hashlib.sha256(_canonical([*values, *more])).hexdigest()


def _rows(
    pool: Pool, active: frozenset[int], split_of: Mapping[str, str], llm: frozenset[str]
) -> Iterator[tuple[dict[str, Any], str]]:
    """The rows of a new snapshot, by key of the query, each with who judged it. `split_of`: the splits that groups will get, by their
    keys. `llm`: the splits in which an LLM's labels count."""
    queries = Query.objects.of(pool).filter(erased_at__isnull=True)
    if llm:
        queries = queries.filter(Q(gold__isnull=False) | Exists(Label.objects.filter(query=OuterRef("pk"))))
    else:
        queries = queries.filter(gold__isnull=False)
    values = queries.order_by("pk").values_list(
        "pk",
        "external_id",
        "text",
        "messages",
        "conversation",
        "group__split",
        "group__key",
        "gold__required",
        "gold__asked",
    )
    merged = voices.merges([pool.pk])[pool.pk]
    pending = values.iterator(chunk_size=BATCH)
    while batch := list(islice(pending, BATCH)):
        keys = [values[0] for values in batch]
        labels: dict[int, list[Label]] = defaultdict(list)
        sources: dict[int, set[str]] = defaultdict(set)
        current = Label.objects.current().filter(query__in=keys)
        if llm:
            for label in current.order_by("pk"):
                labels[label.query_id].append(label)
                sources[label.query_id].add(label.source)
        else:
            for key, source in current.values_list("query_id", "source"):
                sources[key].add(source)
        for key, identifier, text, messages, conversation, fixed_split, group, required, asked in batch:
            split, judge = fixed_split or split_of.get(group, ""), _judge(sources[key])
            if split in llm and (judge == Label.Source.LLM or split == Split.TRAIN):
                whole = gold.compose(labels[key], merged, include_llm=True)
                required, asked = whole.required, whole.asked
            asked_active = active & frozenset(asked or ())
            if not asked_active or not split:  # without a split it became gold just now: the next snapshot has it
                continue
            row: dict[str, Any] = {
                "query": key,
                "id": identifier,
                "text": text,
                "required": sorted(asked_active & frozenset(required)),
                "asked": sorted(asked_active),
                "split": split,
            }
            row |= {k: v for k, v in zip(TURN, (messages, conversation), strict=True) if v}
            row |= {"judge": judge} if judge == Label.Source.LLM else {}
            yield row | {"sha256": _row_hash(row)}, judge


def _written_rows(pool: Pool, active: frozenset[int]) -> Iterator[dict[str, Any]]:
    """The rows of the written queries that nobody rejected and whose agents are all active, in their order. `written` is their number
    among these, so that equal data hashes equally everywhere."""
    values = WrittenQuery.objects.filter(pool=pool, rejected=False).order_by("pk").values_list("text", "agents")
    number = 0
    for text, agents in values.iterator(chunk_size=BATCH):
        if text and active.issuperset(agents):
            number += 1
            row: dict[str, Any] = {
                "query": None,
                "id": "",
                "text": text,
                "required": sorted(agents),
                "asked": sorted(active),
                "split": str(Split.TRAIN),
                "written": number,
            }
            yield row | {"sha256": _row_hash(row)}


def _judge(sources: Collection[str]) -> str:
    """Who says what a query needs, of the sources of its labels: people, a file ("import") or an LLM ("llm")."""
    if Label.Source.HUMAN in sources or Label.Source.ADJUDICATION in sources:
        return "people"
    return str(Label.Source.IMPORT if Label.Source.IMPORT in sources else Label.Source.LLM)
