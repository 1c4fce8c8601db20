"""Turns of traces on their way into a pool: received as spans, put together by a worker, stored as queries with who answered.

A request stores its spans, redacted, in one row and asks for a worker; the worker puts whole traces together. A file's turns come to
`store` directly. Whatever comes again adds nothing: a turn is known by its trace and its question.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F, Max
from django.utils import timezone

from agents_app import privacy
from agents_app.background_work import work
from agents_app.models import BackgroundJob, Pool, Privacy
from agents_app.redaction import Redactor
from datasets_app.models import Import, Query, SpanBatch, SpanProblem, TracedTurn
from datasets_app.queries import adding, query_columns
from datasets_app.traces import turns
from datasets_app.traces.names import Roster
from datasets_app.traces.spans import BadSpan, Span
from datasets_app.traces.turns import Turn
from routerweb import hooks
from training_app.engine.data import conversations
from training_app.engine.data.file_rows import BOUNDS

#: The dataset of queries that came in as traces, and their origin.
DATASET, ORIGIN = "Traffic", "traces"
WORK = "put_traces_together"
#: A trace whose first span has not come is put together so long after its last one.
SETTLED = timedelta(seconds=10)
#: Batches that one transaction takes, and those that may wait before requests are refused.
AT_ONCE, MOST_WAITING = 8, 2_000
TOO_OLD = "is older than the pool keeps traffic"


@dataclass(slots=True)
class Stored:
    """What became of turns: how many are new, what of them are new queries, and why others were left out, by how often."""

    turns: int = 0
    queries: int = 0
    problems: Counter[str] = field(default_factory=Counter)


# ---------------------------------------------------------------------------------------------------- spans arrive


def crowded(pool: Pool) -> bool:
    """Whether so many spans wait that no more are taken."""
    return SpanBatch.objects.filter(pool=pool).order_by("pk")[MOST_WAITING : MOST_WAITING + 1].exists()


def receive(pool: Pool, received: Iterable[Span | BadSpan]) -> Counter[str]:
    """Keep the good spans of one request for a worker, redacted; returns why others were left out, by how often."""
    redactor, since = privacy.redactor_of(pool.pk), oldest(pool)
    good, problems = [], Counter[str]()
    for span in received:
        if isinstance(span, BadSpan):
            problems[str(span)] += 1
        elif 0 < span.at < since:
            problems[TOO_OLD] += 1
        else:
            good.append((redacted(span, redactor) if redactor else span).as_json())
    with transaction.atomic():
        if good:
            SpanBatch.objects.create(pool=pool, received_at=timezone.now(), spans=good)
            waiting = BackgroundJob.objects.filter(work=WORK, status="queued", arguments__pool=pool.pk)
            if not waiting.exists():
                work.submit(WORK, pool=pool.pk)
        count_problems(pool, problems)
    return problems


def oldest(pool: Pool) -> float:
    """Since when the pool keeps traffic, in seconds since 1970; 0 where nobody has said."""
    days = Privacy.objects.filter(pool=pool).values_list("decision_days", flat=True).first()
    return 0.0 if days is None else (timezone.now() - timedelta(days=days)).timestamp()


def redacted(span: Span, redactor: Redactor) -> Span:
    """The span with what the pool redacts taken out of what anybody said in it."""
    span.messages = [[speaker, redactor.text(text)] for speaker, text in span.messages]
    span.answer = redactor.text(span.answer)
    span.conversation = _redacted_conversation(span.conversation, redactor)
    span.feedback = [redactor.value(entry) for entry in span.feedback]
    return span


def redacted_turn(turn: Turn, redactor: Redactor) -> Turn:
    """The same of what a file's turn says beside its messages, which are redacted as any query is."""
    conversation = _redacted_conversation(turn.conversation, redactor)
    return replace(
        turn, conversation=conversation, answer=redactor.text(turn.answer), comment=redactor.text(turn.comment)
    )


def _redacted_conversation(name: str, redactor: Redactor) -> str:
    return str(query_columns.redacted({"conversation": name}, redactor.text)["conversation"])


def count_problems(pool: Pool, problems: Mapping[str, int]) -> None:
    """Add to what is shown of spans that were left out."""
    for reason, count in sorted(problems.items()):
        defaults = {"count": 0, "last_at": timezone.now()}
        row, _new = SpanProblem.objects.get_or_create(pool=pool, reason=reason[:200], defaults=defaults)
        SpanProblem.objects.filter(pk=row.pk).update(count=F("count") + count, last_at=timezone.now())


# ---------------------------------------------------------------------------------------------------- put together


def work_of(running: work.Running) -> int:
    """A worker's share: the waiting spans of one pool."""
    pool = Pool.objects.filter(pk=running.arguments["pool"]).first()
    return 0 if pool is None else put_together(pool)


def put_all_together() -> int:
    """The spans of every pool that wait, for the clock: traces whose first span never came among them."""
    waiting = SpanBatch.objects.values_list("pool", flat=True).distinct()
    return sum(put_together(pool) for pool in Pool.objects.in_use().filter(pk__in=waiting))


def put_together(pool: Pool) -> int:
    """Store the turns of the traces that are whole, or have settled; returns how many turns are new."""
    waiting = SpanBatch.objects.filter(pool=pool)
    upto, last, count = waiting.aggregate(newest=Max("pk"))["newest"] or 0, 0, 0
    rest: list[SpanBatch] = []
    while batches := list(waiting.filter(pk__gt=last, pk__lte=upto).order_by("pk")[:AT_ONCE]):
        last = batches[-1].pk
        batches = [*rest, *batches]
        done, unfinished, since = _divided(batches)
        traces = [(spans, turns.of_trace(spans)) for spans in done]
        with transaction.atomic():
            keys = [batch.pk for batch in batches]
            if len(waiting.select_for_update().filter(pk__in=keys).values_list("pk", flat=True)) < len(keys):
                return count  # another worker has them
            late = [turns.beside(spans) for spans, of_trace in traces if not of_trace]
            stored = store(pool, [turn for _spans, of_trace in traces for turn in of_trace], late)
            count_problems(pool, stored.problems)
            count += stored.turns
            spans_left = [span.as_json() for span in unfinished]
            rest = [SpanBatch.objects.create(pool=pool, received_at=since, spans=spans_left)] if unfinished else []
            waiting.filter(pk__in=keys).delete()
    return count


def _divided(batches: Sequence[SpanBatch]) -> tuple[list[list[Span]], list[Span], datetime]:
    """(the spans of each trace that is whole or settled, those of others, since when these wait)."""
    settled = timezone.now() - SETTLED
    of_trace: dict[str, list[Span]] = defaultdict(list)
    newest: dict[str, datetime] = {}
    for batch in batches:
        for values in batch.spans:
            span = Span(*values)
            of_trace[span.trace].append(span)
            newest[span.trace] = batch.received_at
    done, unfinished, since = [], [], timezone.now()
    for trace, spans in of_trace.items():
        if newest[trace] < settled or any(not span.parent for span in spans):
            done.append(spans)
        else:
            unfinished += spans
            since = min(since, newest[trace])
    return done, unfinished, since


# ---------------------------------------------------------------------------------------------------- stored


def store(pool: Pool, new_turns: Sequence[Turn], late: Sequence[Turn] = ()) -> Stored:
    """Store turns as queries of the pool with who answered; `late` ones have no message and add to a turn that their trace has."""
    stored = Stored()
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
        _date(new_turns)
        places = [turns.place_of(turn) for turn in new_turns]
        alone = [turns.is_alone(turn) for turn in new_turns]
        rows = _of_conversations(pool, {turn.conversation for turn in new_turns if turn.conversation})
        turns.join(new_turns, {name: [_said(row) for row in of] for name, of in rows.items()})
        texts: list[tuple[Turn, str, str, bool]] = []
        for turn, place, is_alone in zip(new_turns, places, alone, strict=True):
            try:
                texts.append((turn, turns.text_of(turn, BOUNDS), place, is_alone))
            except conversations.BadConversation as bad:
                stored.problems[f"its conversation {bad.reason}"] += 1
        queries, new = adding.find_or_add(
            adding.dataset_of(pool, DATASET), [_new(turn, text) for turn, text, *_ in texts], ORIGIN
        )
        pairs = []
        for (turn, _text, place, is_alone), query in zip(texts, queries, strict=True):
            if query.erased or query.deleted:
                stored.problems["asks a query that was deleted here"] += 1
            else:
                pairs.append(Traced(turn, query.pk, place, is_alone))
        stored.queries, stored.turns = len(new), len(record(pool, pairs))
        stored.problems["belongs to no user's message"] += _add_late(pool, late)
        _join_again(pool, new_turns, rows)
    stored.problems = +stored.problems
    return stored


@dataclass(frozen=True, slots=True)
class Traced:
    """A turn with the query that it asks; `place` and `alone` as its trace has it, before other turns joined it."""

    turn: Turn
    query: int
    place: str
    alone: bool = False


def record(pool: Pool, pairs: Sequence[Traced], upload: Import | None = None) -> dict[tuple[str, str], TracedTurn]:
    """Keep who answered these turns; a turn that is there gets what is new of it. Returns those that were not, by trace and place."""
    _date([pair.turn for pair in pairs])
    roster = Roster(pool)
    traces = {pair.turn.trace for pair in pairs}
    rows = {(row.trace, row.place): row for row in TracedTurn.objects.filter(pool=pool, trace__in=traces)}
    fresh: dict[tuple[str, str], TracedTurn] = {}
    changed: dict[int, TracedTurn] = {}
    for traced in pairs:
        key = (traced.turn.trace, traced.place)
        row = rows.get(key) or fresh.get(key)
        if row is None:
            fresh[key] = _row(pool, traced, roster, upload)
        elif _add(row, traced.turn, roster) and row.pk is not None:
            changed[row.pk] = row
    TracedTurn.objects.bulk_create(fresh.values(), batch_size=1_000)
    TracedTurn.objects.bulk_update(changed.values(), CHANGES, batch_size=500)
    hooks.turns_rated(pool, [pair.turn for pair in pairs if pair.turn.decision and pair.turn.success is not None])
    return fresh


#: What a late span may change of a turn.
CHANGES = ("names", "agents", "success", "answer")


def _row(pool: Pool, traced: Traced, roster: Roster, upload: Import | None) -> TracedTurn:
    turn = traced.turn
    return TracedTurn(
        pool=pool, query_id=traced.query, upload=upload, trace=turn.trace, place=traced.place, source=turn.source[:120],
        conversation=turn.conversation, joined=traced.alone, answer=turn.answer, names=turn.names, agents=roster.of(turn.names),
        success=turn.success, at=datetime.fromtimestamp(turn.at, UTC),
    )  # fmt: skip


def _add(row: TracedTurn, turn: Turn, roster: Roster) -> bool:
    """Add what a turn says beyond its row; whether there was anything."""
    before = (list(row.names), row.success, row.answer)
    row.names = [*row.names, *(name for name in turn.names if name not in row.names)][: turns.MOST_NAMES]
    row.agents = roster.of(row.names)
    row.answer = row.answer or turn.answer
    if turn.success is not None:
        row.success = turn.success if row.success is None else row.success and turn.success
    return before != (row.names, row.success, row.answer)


def _add_late(pool: Pool, late: Sequence[Turn]) -> int:
    """Add to turns that came before; returns how many have none."""
    rows: dict[str, list[TracedTurn]] = defaultdict(list)
    for row in TracedTurn.objects.filter(pool=pool, trace__in={turn.trace for turn in late}):
        rows[row.trace].append(row)
    roster = Roster(pool)
    changed = [
        rows[turn.trace][0] for turn in late if len(rows[turn.trace]) == 1 and _add(rows[turn.trace][0], turn, roster)
    ]
    TracedTurn.objects.bulk_update({row.pk: row for row in changed}.values(), CHANGES, batch_size=500)
    return sum(not rows[turn.trace] for turn in late)


def _new(turn: Turn, text: str) -> adding.NewQuery:
    return adding.NewQuery(text, {"id": turn.trace, "conversation": turn.conversation})


def _date(new_turns: Sequence[Turn]) -> None:
    """Turns without a time that can be right came now, one after the other."""
    now = timezone.now().timestamp()
    for number, turn in enumerate(new_turns):
        # To the microsecond, as databases have it: one that comes again is at the same time.
        turn.at = datetime.fromtimestamp(turn.at or now + number / 1e6, UTC).timestamp()


def prune() -> int:
    """Delete what is known of turns that came longer ago than their pool keeps traffic; their queries stay. For the clock."""
    privacy.delete_old(
        SpanBatch.objects.all(), "received_at", default=settings.DECISION_DAYS
    )  # of pools that are put away
    return privacy.delete_old(TracedTurn.objects.all(), "created_at", default=settings.DECISION_DAYS)


# ---------------------------------------------------------------------------------------------------- conversations


def _of_conversations(pool: Pool, names: Iterable[str]) -> dict[str, list[TracedTurn]]:
    rows: dict[str, list[TracedTurn]] = defaultdict(list)
    for row in (
        TracedTurn.objects.filter(pool=pool, conversation__in=sorted(names)).select_related("query").order_by("at")
    ):
        rows[row.conversation].append(row)
    return rows


def _said(row: TracedTurn) -> turns.EarlierTurn:
    return turns.EarlierTurn(row.trace, row.at.timestamp(), row.query.text, row.answer)


def _join_again(pool: Pool, new_turns: Sequence[Turn], rows: Mapping[str, Sequence[TracedTurn]]) -> None:
    """Give turns that came alone, and are stored, those before them that came later. A query that nobody has worked on goes with the
    history that it lacked."""
    first = {turn.conversation: turn.at for turn in sorted(new_turns, key=lambda turn_: -turn_.at)}
    late = [
        row
        for name, of in rows.items()
        for row in of
        if row.joined and row.at.timestamp() > first.get(name, row.at.timestamp())
    ]
    if not late:
        return
    earlier = _of_conversations(pool, {row.conversation for row in late})
    texts = []
    for row in late:
        messages = turns.history(map(_said, earlier[row.conversation]), _said(row))
        turn = Turn(row.trace, 0.0, [*messages, ["user", row.query.text]], row.conversation)
        texts.append(_new(turn, turns.text_of(turn, BOUNDS)))
    queries, _new_ones = adding.find_or_add(adding.dataset_of(pool, DATASET), texts, ORIGIN)
    before = {row.query_id for row in late}
    for row, query in zip(late, queries, strict=True):
        row.query_id = query.pk
    TracedTurn.objects.bulk_update(late, ["query"], batch_size=500)
    unused = Query.objects.filter(
        pk__in=before, origin=ORIGIN, state=Query.State.UNLABELED, deleted_at=None, traced_turns=None
    )
    unused.filter(labels=None, drafts=None, queue_items__assignments=None, queue_items=None).delete()
