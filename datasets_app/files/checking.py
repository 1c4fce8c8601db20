"""What an import would do, before anything is stored: which labels are kept, which are not understood, and what they may mean."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from agents_app.files import reader
from agents_app.files.formats import Reading
from agents_app.files.limited import PAGE, Limits
from datasets_app.files import tables
from datasets_app.files.shapes import Task
from datasets_app.files.values import Unknown, Values
from training_app.engine.data.examples import Agent, RowError, normalise
from training_app.engine.data.file_rows import BadRow, Roster, short

#: So many records are checked while a person waits; of a longer file, its beginning.
MOST = 20_000
#: So many of each kind of example are kept.
EXAMPLES = 50
#: From so many rows on that all fail alike, somebody is asked before anything is stored.
ALIKE = 3


@dataclass(frozen=True, slots=True)
class Strange:
    """A label that no agent is called by: how many rows have it, the first of them, and the agent that may be meant."""

    value: str
    count: int
    line: int
    text: str
    guess: Agent | None

    @property
    def key(self) -> str:
        """How a reading's `values` name it."""
        return normalise(self.value)


@dataclass(frozen=True, slots=True)
class NotKept:
    """A row that has a label which is not understood, or that cannot be read: its line, text, what stands there and why."""

    line: int
    text: str
    label: str
    why: str


@dataclass(slots=True)
class Check:
    """What was found. `labels` of the rows that can be read say something, `kept` of them are understood; `whole`: the file was read
    to its end."""

    rows: int = 0
    labels: int = 0
    kept: int = 0
    unlabeled: int = 0
    empty: int = 0
    suggestions: int = 0
    bad: int = 0
    left_out: int = 0
    whole: bool = True
    people: Counter[str] = field(default_factory=Counter)
    strange: list[Strange] = field(default_factory=list)
    examples: list[NotKept] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def lost(self) -> int:
        """How many labels are not understood."""
        return self.labels - self.kept

    @property
    def pattern(self) -> str:
        """The one reason for which rows fail, where all that fail do for the same: somebody should decide then. "" else."""
        failed = sum(self.reasons.values())
        return (
            next(iter(self.reasons)) if len(self.reasons) == 1 and failed >= ALIKE and 10 * failed >= self.rows else ""
        )


def check(
    stream: BinaryIO, reading: Reading, agents: Sequence[Agent], *, limits: Limits = PAGE, max_rows: int = MOST
) -> Check:
    """Read a file as an import would, and store nothing. Raises Unreadable."""
    result, values, roster = Check(), Values(agents, reading.values), Roster(agents)
    unknown: dict[str, list[Any]] = {}
    for read in tables.tasks(reader.records(stream, reading, limits=limits), reading):
        if result.rows >= max_rows:
            result.whole = False
            break
        result.rows += 1
        if isinstance(read, RowError):
            _fails(result, read)
            continue
        line, task = read
        try:
            tables.row(line, task, reading, values, roster)
        except BadRow as error:
            if not error.reason.startswith("not understood"):
                _fails(result, error.at(line))
                continue
            result.reasons["not understood"] += 1
        _labels(result, line, task, reading, values, unknown)
    result.strange = [
        Strange(value, count, line, text, values.guess(value))
        for value, count, line, text in sorted(unknown.values(), key=lambda seen: -seen[1])
    ]
    return result


def _fails(check: Check, error: RowError) -> None:
    check.bad += 1
    check.reasons[re.sub(r"\d[\d,.]*|“.*?”", "…", error.reason)] += 1
    if len(check.examples) < EXAMPLES:
        check.examples.append(NotKept(error.line, error.excerpt, error.field, error.reason))


def _labels(
    check: Check, line: int, task: Task, reading: Reading, values: Values, unknown: dict[str, list[Any]]
) -> None:
    text = short(task.values.get("text") or "")
    check.suggestions += len(task.predictions)
    check.left_out += bool(task.left_out)
    spoke = False
    for answer in task.answers:
        if answer.labels in (None, "") or (isinstance(answer.labels, str) and not answer.labels.strip()):
            check.empty += 1
            if reading.empty == "none":
                check.labels += 1
                check.kept += 1
                spoke = True
            continue
        try:
            understood = tables.understood(answer, reading, values)
        except Unknown as error:
            spoke = True
            check.labels += 1
            _unknown(check, line, text, error, unknown)
            continue
        if understood is None:
            continue
        spoke = True
        check.labels += 1
        check.kept += 1
        if answer.by:
            check.people[answer.by] += 1
    for prediction in task.predictions:
        try:
            values.of(prediction.labels)
        except Unknown as error:
            _unknown(check, line, text, error, unknown)
    check.unlabeled += not spoke


def _unknown(check: Check, line: int, text: str, error: Unknown, unknown: dict[str, list[Any]]) -> None:
    for part in error.parts:
        unknown.setdefault(normalise(part), [part, 0, line, text])[1] += 1
    if len(check.examples) < EXAMPLES:
        check.examples.append(NotKept(line, text, ", ".join(error.parts), "names no agent of this pool"))
