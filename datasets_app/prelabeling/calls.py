"""Which calls a pre-labeling job makes: questions, gathered into calls that keep their number until their answer is stored.

A call's number is kept with its items before it is sent. A worker that goes on after another was killed makes the same calls again, of
the same questions in the same order, under the same Idempotency-Key: a server that honours it answers without charging twice.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from django.db import connection, transaction
from django.utils.translation import gettext as _

from datasets_app.models import LlmAnswer, PrelabelItem, PrelabelJob
from datasets_app.prelabeling import prompts
from training_app.engine.data.conversations import from_json
from training_app.engine.data.examples import Agent

BATCH = 500
ItemStatus = PrelabelItem.Status


@dataclass(slots=True)
class Question:
    """One text to ask about, once, for every item of the job that has it."""

    key: str
    text: str
    items: list[tuple[int, int]] = field(default_factory=list)  # (item key, query key)


@dataclass(frozen=True, slots=True)
class Call:
    """Questions that are asked together, and the Idempotency-Key of their call."""

    key: str
    questions: Sequence[Question]


StoredAnswers = list[tuple[Question, LlmAnswer]]
#: Takes questions whose answer is stored already, and whether this very job had asked for it.
WriteStored = Callable[[StoredAnswers, bool], None]


class Calls:
    """The calls of one job as one worker makes them."""

    def __init__(self, job: PrelabelJob, agents: Sequence[Agent], instruction: str, write_stored: WriteStored) -> None:
        self.job, self.write_stored = job, write_stored
        roster, limits = prompts.roster_digest(agents), (job.minimum, job.maximum or None)
        self._key = lambda text: prompts.answer_key(text, job.model, instruction, roster, limits)

    def waiting(self) -> Iterator[Call]:
        """Calls for all that waits: first those that a worker had begun, then the others in the order of the queries. What was
        answered before is written and not asked."""
        keys_begun: set[str] = set()
        yield from self._begun(keys_begun)
        for questions in self._pieces(keys_begun):
            yield from self.begin(questions, self.job.batch_size)

    def again(self) -> Iterator[Call]:
        """What is left once everything was answered or marked: texts that stand in two pieces of the job, known by now."""
        waiting = self.job.items.filter(status=ItemStatus.WAITING).order_by("pk")
        for item, query, last, messages in list(
            waiting.values_list("pk", "query_id", "query__text", "query__messages")
        ):
            text = from_json(last, messages)
            question = Question(self._key(text), text, [(item, query)])
            if not self._known([question], False):
                yield from self.begin([question])

    def begin(self, questions: Sequence[Question], size: int = 1) -> list[Call]:
        """New calls of at most `size` questions, whose numbers are kept before anything is sent."""
        groups = [(uuid4(), questions[i : i + size]) for i in range(0, len(questions), size)]
        _keep_numbers(
            (number, item) for number, group in groups for question in group for item, _query in question.items
        )
        return [_call(number, group) for number, group in groups]

    def _begun(self, keys_begun: set[str]) -> Iterator[Call]:
        """The calls whose answer nobody stored, as they were."""
        begun = self.job.items.filter(status=ItemStatus.WAITING, call__isnull=False).order_by("pk")
        numbers = list(dict.fromkeys(begun.values_list("call", flat=True)))
        step = max(1, BATCH // self.job.batch_size)
        for at in range(0, len(numbers), step):
            groups: dict[UUID, list[Any]] = defaultdict(list)
            for row in begun.filter(call__in=numbers[at : at + step]).values_list(*ROW, "call"):
                groups[row[-1]].append(row[:-1])
            for number, rows in groups.items():
                questions = self._questions(rows)
                answers = self._known(questions, True)
                unanswered = [
                    question for question in questions if question.key not in answers and question.key not in keys_begun
                ]
                keys_begun.update(question.key for question in unanswered)
                if unanswered:
                    yield _call(number, unanswered)

    def _pieces(self, keys_begun: set[str]) -> Iterator[list[Question]]:
        """The questions of items that no call has named, in pieces that are whole calls but for the last."""
        last = 0
        ready: list[Question] = []
        while True:
            waiting = self.job.items.filter(status=ItemStatus.WAITING, call__isnull=True, pk__gt=last).order_by("pk")
            rows = list(waiting.values_list(*ROW)[:BATCH])
            if not rows:
                break
            last = rows[-1][0]
            questions = self._questions(rows)
            answers = self._known(questions, False)
            ready += [
                question for question in questions if question.key not in answers and question.key not in keys_begun
            ]
            keys_begun.update(question.key for question in ready)
            whole = len(ready) - len(ready) % self.job.batch_size
            yield ready[:whole]
            ready = ready[whole:]
        yield ready

    def _questions(self, rows: Sequence[Any]) -> list[Question]:
        """One question a text; items of deleted queries are marked."""
        gone = [item for item, _query, text, _messages, deleted in rows if deleted or not text]
        if gone:
            PrelabelItem.objects.filter(pk__in=gone).update(status=ItemStatus.FAILED, error=_("deleted"), call=None)
        questions: dict[str, Question] = {}
        for item, query, last, messages, deleted in rows:
            text = from_json(last, messages)
            if text and not deleted:
                key = self._key(text)
                questions.setdefault(key, Question(key, text)).items.append((item, query))
        return list(questions.values())

    def _known(self, questions: Sequence[Question], own_answers: bool) -> set[str]:
        """Have written what is answered already; returns those questions' keys."""
        stored = LlmAnswer.objects.in_bulk([question.key for question in questions], field_name="key")
        answers = [(question, stored[question.key]) for question in questions if question.key in stored]
        if answers:
            self.write_stored(answers, own_answers)
        return set(stored)


ROW = ("pk", "query_id", "query__text", "query__messages", "query__deleted_at")


def _keep_numbers(numbers: Iterable[tuple[UUID, int]]) -> None:
    """Write each item's call. Thousands at a time: `bulk_update` would build an expression for every one of them."""
    field, quote = PrelabelItem._meta.get_field("call"), connection.ops.quote_name
    rows = [(field.get_db_prep_save(number, connection), item) for number, item in numbers]
    table = quote(PrelabelItem._meta.db_table)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany(f"UPDATE {table} SET {quote('call')} = %s WHERE id = %s", rows)  # noqa: S608 - our own names


def _call(number: UUID, questions: Sequence[Question]) -> Call:
    return Call(prompts.digest([str(number), *(question.key for question in questions)]), questions)
