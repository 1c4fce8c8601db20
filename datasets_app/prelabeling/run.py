"""One worker's pass over a pre-labeling job: threads ask, this thread alone writes.

An answer is stored, with its tokens, the moment it arrives; the labels that follow from it are written in bulk a little later. A
thread makes its next call only once its last answer is stored. So whatever kills the worker, what was stored is never asked for again,
and at most one call a thread is lost. Those calls are made again under the same Idempotency-Key: a server that honours it charges
nothing more, one that ignores it charges for them once more.
"""

import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from agents_app import llm as site_llm
from agents_app import pools
from agents_app.background_work import jobs
from datasets_app.labels import disagreement, labels
from datasets_app.models import Label, LlmAnswer, PrelabelItem, PrelabelJob
from datasets_app.prelabeling import jobs as prelabel
from datasets_app.prelabeling import prompts
from datasets_app.prelabeling.calls import Call, Calls, Question, StoredAnswers
from routerweb.observing import tracing
from training_app.engine import llm
from training_app.engine.data.examples import Agent

log = logging.getLogger(__name__)

ROUNDS_AHEAD = 4  # calls that wait to be made, for each thread
WRITE_EVERY = 0.4  # seconds between two writings of labels, so that many share a transaction
TURN_SECONDS = 2_700  # then the job goes back to the queue: below the cluster's time limit
Status, ItemStatus = PrelabelJob.Status, PrelabelItem.Status
ClientFactory = Callable[[Callable[[], bool]], llm.Client]


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of one call: suggestions in the questions' order, or the error. `stored` once nothing of it can be lost."""

    call: Call
    suggestions: llm.Suggestions | None = None
    error: Exception | None = None
    stored: threading.Event = field(default_factory=threading.Event)


class _Lost(Exception):
    """Somebody else has the job now, or its wish is to stop: nothing more is asked."""


def run(
    job_id: int, *, api_key: str | None = None, progress: Callable[[PrelabelJob], None] | None = None
) -> PrelabelJob | None:
    """Claim and do a job; returns it as it ended, None where it was not queued. `progress` is called after every write."""
    job = prelabel.claim(job_id)
    if job is None:
        return None

    connection = site_llm.connection()  # here, as the threads that ask never touch the database

    def client(stop: Callable[[], bool]) -> llm.Client:
        limits = llm.CallLimits(stop=stop)
        return prelabel.client_for(job, api_key, connection=connection, temperature=job.temperature, limits=limits)

    turn = _Turn(job, client, progress)
    try:
        return turn.go()
    except Exception as error:  # a job that fails for any reason is marked so, with that reason
        jobs.raise_if_stopped()
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
        self.calls = Calls(job, self.agents, self.instruction, self._write_stored)
        self.stopping = threading.Event()
        self.work: queue.Queue[Call | None] = queue.Queue()
        self.replies: queue.Queue[Reply] = queue.Queue()
        self.arrived: list[Reply] = []  # not stored yet
        self.out = 0  # calls whose replies are not stored yet
        self.unlabeled: StoredAnswers = []  # answers that are stored, and whose labels are not yet written
        self.tokens = job.tokens_in, job.tokens_out  # of all turns
        self.failures = 0  # calls in a row that the server did not answer
        self.asked_again: set[str] = (
            set()
        )  # questions whose answer could not be read once, and that are asked alone once more
        self.labeled_at = self.beat_at = 0.0

    def go(self) -> PrelabelJob:
        clients = [
            self.make_client(self.stopping.is_set) for _ in range(self.job.concurrency)
        ]  # what fails here ends the turn
        threads = [
            threading.Thread(target=tracing.going_on(self._ask), args=(client,), daemon=True) for client in clients
        ]
        for thread in threads:
            thread.start()
        until = time.monotonic() + TURN_SECONDS
        status, reason = Status.DONE, ""
        try:
            for pending in (self.calls.waiting(), self.calls.again()):
                self._keep_to_budget()
                while status == Status.DONE and (self._top_up(pending) or self.out or self.unlabeled):
                    self._collect()
                    self._store()
                    self._keep_to_budget()
                    self._top_up(pending)  # so that no thread waits while this one writes labels
                    if not self.out or time.monotonic() - self.labeled_at >= WRITE_EVERY:
                        self._label_stored()
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
        self._dismiss()
        for thread in threads:
            thread.join()
        while not self.replies.empty():
            self.arrived.append(self.replies.get())
        self.arrived = [reply for reply in self.arrived if reply.suggestions is not None]
        with contextlib.suppress(_Lost):
            self._store()
            self._label_stored()
        if status == Status.PAUSED and not self.job.items.filter(status=ItemStatus.WAITING).exists():
            status, reason = Status.DONE, ""  # the last answers came while it was to pause, or spent the budget
        return self.end(status, reason)

    def end(self, status: str, reason: str = "") -> PrelabelJob:
        """Write how the turn ended, if the job is still this worker's."""
        self._dismiss()
        mine = jobs.owned(PrelabelJob, self.job.pk, self.job.attempt)
        ended = None if status == Status.QUEUED else Now()
        if mine.update(status=status, error=reason, wish="", finished_at=ended) and status == Status.QUEUED:
            prelabel.enqueue(self.job)
        self.job.refresh_from_db()
        return self.job

    def _dismiss(self) -> None:
        """Have every thread end once its call is over."""
        self.stopping.set()
        for _thread in range(self.job.concurrency):
            self.work.put(None)

    def _keep_to_budget(self) -> None:
        """Pause where the budget is spent. The calls that are under way are paid for beyond it: one a thread at most."""
        self.job.tokens_in, self.job.tokens_out = self.tokens
        if self.job.left == 0:
            raise _Lost(Status.PAUSED, str(_("The budget is spent. Raise it to ask about the other queries.")))

    # ----------------------------------------------------------------------------------------- what is asked

    def _top_up(self, pending: Iterator[Call]) -> bool:
        """Have work waiting for several rounds of the threads; False once there is no more."""
        while self.work.qsize() < ROUNDS_AHEAD * self.job.concurrency:
            call = next(pending, None)
            if call is None:
                return False
            self._put(call)
        return True

    def _put(self, call: Call) -> None:
        self.out += 1
        self.work.put(call)

    def _ask(self, client: llm.Client) -> None:
        """A thread: asks, hands over what came, and waits until that is stored; it never touches the database."""
        with client:
            while (call := self.work.get()) is not None:
                if self.stopping.is_set():
                    continue
                try:
                    suggestions = client.suggest(
                        [question.text for question in call.questions],
                        self.agents,
                        prompt=self.instruction,
                        min_agents=self.limits[0],
                        max_agents=self.limits[1],
                        key=call.key,
                    )
                    reply = Reply(call, suggestions)
                except Exception as error:  # also what nobody foresaw: the thread must not die with its call
                    if isinstance(error, llm.BadKey):
                        self.stopping.set()  # the others would be refused too
                    reply = Reply(call, error=error)
                self.replies.put(reply)
                while not reply.stored.wait(0.2) and not self.stopping.is_set():
                    pass

    # ---------------------------------------------------------------------------------------- what is written

    def _collect(self) -> None:
        """Take the replies that are there; wait for one no longer than labels may wait to be written."""
        seconds = self.labeled_at + WRITE_EVERY - time.monotonic()
        with contextlib.suppress(queue.Empty):
            if self.out and seconds > 0:
                self.arrived.append(self.replies.get(timeout=seconds))
            while True:
                self.arrived.append(self.replies.get_nowait())

    def _store(self) -> None:
        """Store answers and tokens, and mark what could not be read, in one transaction; raise what ends the job."""
        replies = self.arrived
        if not replies:
            return
        usage = llm.Usage()
        good: list[tuple[Question, llm.Suggestion]] = []
        bad: list[tuple[Question, Exception | str]] = []
        again: list[Question] = []
        over: list[Question] = []
        fatal: Exception | None = None
        for reply in replies:
            questions = reply.call.questions
            if reply.suggestions is None:
                error = reply.error or llm.LLMError("")
                if isinstance(error, llm.Stopped):
                    continue
                self.failures += 1
                if isinstance(error, llm.BadKey) or self.failures >= max(3, self.job.concurrency):
                    fatal = error if isinstance(error, llm.LLMError) else llm.LLMError(str(error))
                    if not isinstance(error, llm.NoAnswer):
                        over += questions
                    continue
                bad += [(question, error) for question in questions]
                continue
            self.failures = 0
            usage += reply.suggestions.usage
            for question, suggestion in zip(questions, reply.suggestions.items, strict=True):
                if suggestion.required is not None:
                    good.append((question, suggestion))
                elif question.key not in self.asked_again:
                    self.asked_again.add(question.key)
                    again.append(question)
                else:
                    bad.append((question, suggestion.error))
        with transaction.atomic():
            answers = self._keep(good)  # also for a job that is another worker's by now: they are paid for
            mine = self._still_mine(
                calls=F("calls") + usage.calls,
                tokens_in=F("tokens_in") + usage.prompt_tokens,
                tokens_out=F("tokens_out") + usage.completion_tokens,
            )
            if mine:
                self._store_bad(bad)
                self._mark(over, ItemStatus.WAITING)  # going on asks these again, in calls of their own
                self.tokens = self.tokens[0] + usage.prompt_tokens, self.tokens[1] + usage.completion_tokens
                alone = self.calls.begin(again)  # what could not be read is asked once more, alone
        self.arrived = []
        self.out -= len(replies)
        for reply in replies:
            reply.stored.set()
        if not mine:
            raise _Lost(Status.FAILED, "")
        self.unlabeled += answers
        for call in alone:
            self._put(call)
        if fatal:
            raise fatal

    def _still_mine(self, **changes: object) -> bool:
        """Write to the job's row, with a sign of life, if the job is still this worker's."""
        try:
            jobs.beat(PrelabelJob, self.job.pk, self.job.attempt, **changes)
        except jobs.AttemptLost:
            return False
        return True

    def _keep(self, good: Sequence[tuple[Question, llm.Suggestion]]) -> StoredAnswers:
        answers = [
            LlmAnswer(
                key=question.key,
                pool=self.job.pool,
                model=self.job.model,
                required=sorted(suggestion.required or ()),
                scores={str(agent): sure for agent, sure in suggestion.confidence.items()},
            )
            for question, suggestion in good
        ]
        LlmAnswer.objects.bulk_create(answers, ignore_conflicts=True)
        return [(question, answer) for (question, _found), answer in zip(good, answers, strict=True)]

    def _label_stored(self) -> None:
        """Write the labels of all answers that are stored, in one transaction."""
        if self.unlabeled:
            with transaction.atomic():
                if not self._still_mine():
                    raise _Lost(Status.FAILED, "")
                self._label(self.unlabeled)
                self._mark([question for question, _answer in self.unlabeled], ItemStatus.ANSWERED)
            self.unlabeled = []
            if self.progress:
                self.progress(self.job)
        self.labeled_at = time.monotonic()

    def _write_stored(self, answers: StoredAnswers, own_answers: bool) -> None:
        with transaction.atomic():
            self._label(answers, cached=not own_answers)
            self._mark(
                [question for question, _answer in answers], ItemStatus.ANSWERED if own_answers else ItemStatus.CACHED
            )

    def _label(self, answered: Sequence[tuple[Question, LlmAnswer]], cached: bool = False) -> None:
        agent_ids = [agent.id for agent in self.agents]
        provenance = self._provenance() | ({"cached": True} if cached else {})
        self._record(
            labels.NewLabel(
                query_id=query,
                source=Label.Source.LLM,
                required=set(answer.required) & set(agent_ids),
                asked=agent_ids,
                scores={int(agent): sure for agent, sure in answer.scores.items()},
                provenance=provenance,
            )
            for question, answer in answered
            for _item, query in question.items
        )

    def _record(self, statements: Iterator[labels.NewLabel]) -> None:
        while batch := list(islice(statements, 1_000)):
            labels.record_many(batch)
            disagreement.measure([item.query_id for item in batch])

    def _store_bad(self, bad: Sequence[tuple[Question, Exception | str]]) -> None:
        """Mark what could not be read; where the job says so, suggest something else, marked as what it is."""
        keys = [query for question, _error in bad for _item, query in question.items]
        standing = set(
            Label.objects.current().filter(query__in=keys, source=Label.Source.LLM).values_list("query", flat=True)
        )
        agent_ids = [agent.id for agent in self.agents]
        provenance = self._provenance() | {"fallback": self.job.fallback}
        statements = []
        for question, reason in bad:
            error = str(reason)
            instead = prelabel.fallback(self.job.fallback, question.text, self.agents)
            if instead is None:
                self._mark([question], ItemStatus.FAILED, error, keep_call=isinstance(reason, llm.NoAnswer))
                continue
            self._mark([question], ItemStatus.FALLBACK, error)
            statements += [
                labels.NewLabel(
                    query_id=query,
                    source=Label.Source.LLM,
                    required=instead,
                    asked=agent_ids,
                    provenance=provenance | {"error": error[:200]},
                )
                for _item, query in question.items
                if query not in standing
            ]
        self._record(iter(statements))

    def _mark(self, questions: Sequence[Question], status: str, error: str = "", *, keep_call: bool = False) -> None:
        """Set the items' state. Their call is over, unless it may have been charged without an answer: then it is made again."""
        keys = [item for question in questions for item, _query in question.items]
        over = {} if keep_call else {"call": None}
        PrelabelItem.objects.filter(pk__in=keys).update(status=status, error=error[:300], **over)

    def _provenance(self) -> dict[str, object]:
        return {"model": self.job.model, "prompt": str(self.job.prompt), "job": self.job.pk}

    def _heartbeat(self) -> None:
        """Say that the worker lives, and obey what was wished for meanwhile."""
        if time.monotonic() - self.beat_at < min(1.0, settings.HEARTBEAT_SECONDS):
            return
        self.beat_at = time.monotonic()
        if not self._still_mine():
            raise _Lost(Status.FAILED, "")
        mine = jobs.owned(PrelabelJob, self.job.pk, self.job.attempt)
        wish = mine.values_list("wish", flat=True).first()
        if wish:
            raise _Lost(Status.PAUSED if wish == "pause" else Status.CANCELLED, "")


def environment_key() -> str:
    """The key that a command uses: the environment's."""
    return os.environ.get("LLM_API_KEY", "") or str(settings.LLM_API_KEY)
