"""One worker's pass over a pre-labeling job: threads ask, this thread alone writes.

Answers are stored as they arrive, those of a moment together, under the key of what was asked, with their tokens: what was stored is
never paid for again, whatever kills the worker. The calls that were on their way at that moment, one a thread at most, can be, and so
can answers that waited to be written together.
"""

import contextlib
import logging
import os
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import pools
from datasets_app import disagreement, labels, prelabel, prompts
from datasets_app.models import Label, LlmAnswer, PrelabelItem, PrelabelJob
from training_app.engine import llm
from training_app.engine.data import Agent

log = logging.getLogger(__name__)

BATCH = 500
ROUNDS_AHEAD = 4  # batches that wait to be asked, for each thread
WRITE_EVERY = 0.4  # seconds between two transactions, so that many answers share one
TURN_SECONDS = 2_700  # then the job goes back to the queue: below the cluster's time limit
Status, ItemStatus = PrelabelJob.Status, PrelabelItem.Status
ClientFactory = Callable[[Callable[[], bool]], llm.Client]


@dataclass(slots=True)
class Question:
    """One text to ask about, once, for every item of the job that has it."""

    key: str
    text: str
    items: list[tuple[int, int]] = field(default_factory=list)  # (item key, query key)
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of one call: suggestions in the questions' order, or the error."""

    questions: Sequence[Question]
    found: llm.Suggestions | None = None
    error: Exception | None = None


class _Lost(Exception):
    """Somebody else has the job now, or its wish is to stop: nothing more is asked."""


def run(
    job_id: int, *, api_key: str | None = None, progress: Callable[[PrelabelJob], None] | None = None
) -> PrelabelJob | None:
    """Claim and do a job; returns it as it ended, None where it was not queued. `progress` is called after every write."""
    job = prelabel.claim(job_id)
    if job is None:
        return None
    secret = prelabel.key_for(job) if api_key is None else api_key

    def client(stop: Callable[[], bool]) -> llm.Client:
        return llm.Client(job.base_url, job.model, secret, temperature=job.temperature, stop=stop)

    turn = _Turn(job, client, progress)
    try:
        return turn.go()
    except Exception as error:  # a job that fails for any reason is marked so, with that reason
        log.exception("pre-labeling job %s failed", job.pk)
        turn.end(Status.FAILED, f"{type(error).__name__}: {error}"[:400])
        raise


class _Turn:
    """The state of one pass: who is asked what, and what is yet to be written."""

    def __init__(self, job: PrelabelJob, client: ClientFactory, progress: Callable[[PrelabelJob], None] | None) -> None:
        self.job, self.make_client, self.progress = job, client, progress
        self.agents: tuple[Agent, ...] = pools.roster(job.pool, retired=False)
        self.limits = (job.minimum, job.maximum or None)
        self.instruction = prompts.render(job.prompt.text, job.pool, self.agents, job.minimum, job.maximum or None)
        self.roster = prompts.roster_digest(self.agents)
        self.stopping = threading.Event()
        self.work: queue.Queue[list[Question] | None] = queue.Queue()
        self.replies: queue.Queue[Reply] = queue.Queue()
        self.out = 0  # batches that are asked and not yet written
        self.failures = 0  # calls in a row that the server did not answer
        self.beat_at = 0.0

    def go(self) -> PrelabelJob:
        threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(self.job.concurrency)]
        for thread in threads:
            thread.start()
        until = time.monotonic() + TURN_SECONDS
        status, reason = Status.DONE, ""
        try:
            for pending in (self._batches(), self._again()):
                while status == Status.DONE and (self._top_up(pending) or self.out):
                    if self.out:
                        replies = self._collect()
                        self._top_up(pending)  # so that no thread waits while this one writes
                        self._write(replies)
                    self._heartbeat()
                    if time.monotonic() > until:
                        status = Status.QUEUED
        except _Lost as lost:
            status, reason = lost.args
        except llm.BadKey as error:
            status, reason = Status.FAILED, str(error)
        except llm.LLMError as error:
            status, reason = Status.FAILED, str(error)
        except KeyboardInterrupt:
            status = Status.PAUSED
        self.stopping.set()
        for _number in threads:
            self.work.put(None)
        for thread in threads:
            thread.join()
        leftover = []
        while not self.replies.empty():
            leftover.append(self.replies.get())
        with contextlib.suppress(_Lost):
            self._write([reply for reply in leftover if reply.found is not None])
        return self.end(status, reason)

    def end(self, status: str, reason: str = "") -> PrelabelJob:
        """Write how the turn ended, if the job is still this worker's."""
        self.stopping.set()
        mine = PrelabelJob.objects.filter(pk=self.job.pk, attempt=self.job.attempt, status=Status.RUNNING)
        ended = None if status == Status.QUEUED else timezone.now()
        if mine.update(status=status, error=reason, wish="", finished_at=ended) and status == Status.QUEUED:
            prelabel.enqueue(self.job)
        self.job.refresh_from_db()
        return self.job

    # ----------------------------------------------------------------------------------------- what is asked

    def _batches(self) -> Iterator[list[Question]]:
        """Batches of questions, in the order of the queries; what was answered before is written and not asked."""
        last = 0
        ready: list[Question] = []
        asked: dict[str, Question] = {}
        while True:
            waiting = self.job.items.filter(status=ItemStatus.WAITING, pk__gt=last).order_by("pk")
            rows = list(waiting.values_list("pk", "query_id", "query__text", "query__deleted_at")[:BATCH])
            if not rows:
                break
            last = rows[-1][0]
            gone = [item for item, _query, text, deleted in rows if deleted or not text]
            if gone:
                PrelabelItem.objects.filter(pk__in=gone).update(status=ItemStatus.FAILED, error=_("deleted"))
            questions: dict[str, Question] = {}
            for item, query, text, deleted in rows:
                if deleted or not text:
                    continue
                key = prompts.answer_key(text, self.job.model, self.instruction, self.roster, self.limits)
                questions.setdefault(key, Question(key, text)).items.append((item, query))
            known = {answer.key: answer for answer in LlmAnswer.objects.filter(key__in=list(questions))}
            self._write_known([(questions[key], answer) for key, answer in known.items()])
            ready += [question for key, question in questions.items() if key not in known and key not in asked]
            asked |= {question.key: question for question in ready}
            while len(ready) >= self.job.batch_size:
                yield ready[: self.job.batch_size]
                ready = ready[self.job.batch_size :]
        if ready:
            yield ready

    def _again(self) -> Iterator[list[Question]]:
        """What is left once everything was answered or marked: texts that stand in two pieces of `_batches`, known by now."""
        left = self.job.items.filter(status=ItemStatus.WAITING).order_by("pk")
        for item, query, text in list(left.values_list("pk", "query_id", "query__text")):
            key = prompts.answer_key(text, self.job.model, self.instruction, self.roster, self.limits)
            known = LlmAnswer.objects.filter(key=key).first()
            question = Question(key, text, [(item, query)], alone=True)
            if known:
                self._write_known([(question, known)])
            else:
                yield [question]

    def _top_up(self, pending: Iterator[list[Question]]) -> bool:
        """Have work waiting for several rounds of the threads; False once there is no more."""
        while self.work.qsize() < ROUNDS_AHEAD * self.job.concurrency:
            batch = next(pending, None)
            if batch is None:
                return False
            self._put(batch)
        return True

    def _put(self, batch: list[Question]) -> None:
        self.out += 1
        self.work.put(batch)

    def _ask(self) -> None:
        """A thread: asks and hands over what came; it never touches the database."""
        with self.make_client(self.stopping.is_set) as client:
            while (batch := self.work.get()) is not None:
                if self.stopping.is_set():
                    continue
                try:
                    found = client.suggest(
                        [question.text for question in batch],
                        self.agents,
                        prompt=self.instruction,
                        min_agents=self.limits[0],
                        max_agents=self.limits[1],
                    )
                    self.replies.put(Reply(batch, found))
                except Exception as error:  # also what nobody foresaw: the thread must not die with its batch
                    if isinstance(error, llm.BadKey):
                        self.stopping.set()  # the others would be refused too
                    self.replies.put(Reply(batch, error=error))

    # ---------------------------------------------------------------------------------------- what is written

    def _collect(self) -> list[Reply]:
        """The replies of the next moment; at least an empty list."""
        found: list[Reply] = []
        end = time.monotonic() + WRITE_EVERY
        while (left := end - time.monotonic()) > 0:
            try:
                found.append(self.replies.get(timeout=left))
            except queue.Empty:
                break
            if len(found) >= self.out:
                break
        return found

    def _write(self, replies: Sequence[Reply]) -> None:
        """Store answers, tokens and states in one transaction; raise what ends the job."""
        self.out -= len(replies)
        usage = llm.Usage()
        good: list[tuple[Question, llm.Suggestion]] = []
        bad: list[tuple[Question, str]] = []
        again: list[Question] = []
        fatal: Exception | None = None
        for reply in replies:
            if reply.found is None:
                error = reply.error
                if isinstance(error, llm.Stopped):
                    continue
                self.failures += 1
                if isinstance(error, llm.BadKey) or self.failures >= max(3, self.job.concurrency):
                    fatal = error if isinstance(error, llm.LLMError) else llm.LLMError(str(error))
                    continue  # these stay as they are: going on asks them again
                bad += [(question, str(error)) for question in reply.questions]
                continue
            self.failures = 0
            usage += reply.found.usage
            for question, suggestion in zip(reply.questions, reply.found.items, strict=True):
                if suggestion.required is not None:
                    good.append((question, suggestion))
                elif len(reply.questions) > 1:
                    again.append(question)
                else:
                    bad.append((question, suggestion.error))
        if replies:
            with transaction.atomic():
                mine = PrelabelJob.objects.filter(pk=self.job.pk, attempt=self.job.attempt, status=Status.RUNNING)
                if not mine.update(
                    calls=F("calls") + usage.calls,
                    tokens_in=F("tokens_in") + usage.prompt_tokens,
                    tokens_out=F("tokens_out") + usage.completion_tokens,
                    heartbeat_at=timezone.now(),
                ):
                    raise _Lost(Status.FAILED, "")
                self._store_good(good)
                self._store_bad(bad)
            if self.progress:
                self.progress(self.job)
        for question in again:  # a batch that was answered in part: what is missing is asked alone
            if not self.stopping.is_set():
                self._put([question])
        if fatal:
            raise fatal

    def _store_good(self, good: Sequence[tuple[Question, llm.Suggestion]]) -> None:
        answers = [
            LlmAnswer(
                key=question.key,
                pool=self.job.pool,
                model=self.job.model,
                required=sorted(found.required or ()),
                scores={str(agent): sure for agent, sure in found.confidence.items()},
            )
            for question, found in good
        ]
        LlmAnswer.objects.bulk_create(answers, ignore_conflicts=True)
        self._label([(question, answer) for (question, _found), answer in zip(good, answers, strict=True)])
        self._mark([question for question, _found in good], ItemStatus.ANSWERED)

    def _write_known(self, known: Sequence[tuple[Question, LlmAnswer]]) -> None:
        if known:
            with transaction.atomic():
                self._label(known, cached=True)
                self._mark([question for question, _answer in known], ItemStatus.CACHED)

    def _label(self, answered: Sequence[tuple[Question, LlmAnswer]], cached: bool = False) -> None:
        asked = [agent.id for agent in self.agents]
        made = self._provenance() | ({"cached": True} if cached else {})
        self._record(
            labels.NewLabel(
                query_id=query,
                source=Label.Source.LLM,
                required=set(answer.required) & set(asked),
                asked=asked,
                scores={int(agent): sure for agent, sure in answer.scores.items()},
                provenance=made,
            )
            for question, answer in answered
            for _item, query in question.items
        )

    def _record(self, statements: Iterator[labels.NewLabel]) -> None:
        while batch := list(islice(statements, 1_000)):
            labels.record_many(batch)
            disagreement.measure([one.query_id for one in batch])

    def _store_bad(self, bad: Sequence[tuple[Question, str]]) -> None:
        """Mark what could not be read; where the job says so, suggest something else, marked as what it is."""
        keys = [query for question, _error in bad for _item, query in question.items]
        standing = set(
            Label.objects.current().filter(query__in=keys, source=Label.Source.LLM).values_list("query", flat=True)
        )
        asked = [agent.id for agent in self.agents]
        made = self._provenance() | {"fallback": self.job.fallback}
        statements = []
        by_error: dict[str, list[Question]] = defaultdict(list)
        for question, error in bad:
            instead = prelabel.fallback(self.job.fallback, question.text, self.agents)
            if instead is None:
                by_error[error].append(question)
                continue
            self._mark([question], ItemStatus.FALLBACK, error)
            statements += [
                labels.NewLabel(
                    query_id=query,
                    source=Label.Source.LLM,
                    required=instead,
                    asked=asked,
                    provenance=made | {"error": error[:200]},
                )
                for _item, query in question.items
                if query not in standing
            ]
        self._record(iter(statements))
        for error, questions in by_error.items():
            self._mark(questions, ItemStatus.FAILED, error)

    def _mark(self, questions: Sequence[Question], status: str, error: str = "") -> None:
        keys = [item for question in questions for item, _query in question.items]
        PrelabelItem.objects.filter(pk__in=keys).update(status=status, error=error[:300])

    def _provenance(self) -> dict[str, object]:
        return {"model": self.job.model, "prompt": str(self.job.prompt), "job": self.job.pk}

    def _heartbeat(self) -> None:
        """Say that the worker lives, and obey what was wished for meanwhile."""
        if time.monotonic() - self.beat_at < min(1.0, settings.HEARTBEAT_SECONDS):
            return
        self.beat_at = time.monotonic()
        mine = PrelabelJob.objects.filter(pk=self.job.pk, attempt=self.job.attempt, status=Status.RUNNING)
        if not mine.update(heartbeat_at=timezone.now()):
            raise _Lost(Status.FAILED, "")
        wish = mine.values_list("wish", flat=True).first()
        if wish:
            raise _Lost(Status.PAUSED if wish == "pause" else Status.CANCELLED, "")


def environment_key() -> str:
    """The key that a command uses: the environment's."""
    return os.environ.get("LLM_API_KEY", "") or str(settings.LLM_API_KEY)
