"""Queries in files as people have them: spreadsheets, CSV with any separator or encoding, JSON, exports of other tools, pasted lines.

`datasets_app.files.looking` finds out how a file is to be read and proposes what its columns are; a person may correct both. What
they agreed on is a `Reading`, kept with the import, and `rows` reads the whole file by it, row by row, bad rows named.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, BinaryIO

from agents_app.files import reader
from agents_app.files.archives import MEMBER
from agents_app.files.formats import Reading, Record
from agents_app.files.limited import JOB, Limits, Position
from datasets_app.files import chats, label_columns, shapes
from datasets_app.files.shapes import Annotation, Prediction, Task
from datasets_app.files.values import NONE_WORDS, Unknown, Values
from datasets_app.queries import query_columns
from datasets_app.traces import exports
from datasets_app.traces.spans import BadSpan, Span
from datasets_app.traces.turns import Turn
from training_app.engine.data.examples import Agent, Row, RowError, normalise
from training_app.engine.data.file_rows import COLUMNS, MAX_ID, TURN_COLUMNS, BadRow, Roster, row_of, short
from training_app.engine.data.files import json_cell, own_row

#: How a file of one of our own formats is read.
OWN = {"jsonl": Reading("objects"), "csv": Reading("csv"), "txt": Reading("lines")}


@dataclass(frozen=True, slots=True)
class AnnotatorAnswer:
    """What one annotator of a file said: their name there, the agents, and those asked about where that is not all."""

    by: str
    required: frozenset[int]
    asked: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class Suggested:
    """What a model suggested, as a file has it."""

    source: str
    required: frozenset[int]
    scores: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class FileRow(Row):
    """A row with what people and models said of it by name; `remark` says why it has no label where its file seems to give one.
    `turn`: who answered it, from an export of traces."""

    answers: tuple[AnnotatorAnswer, ...] = ()
    suggested: tuple[Suggested, ...] = ()
    remark: str = ""
    turn: tuple[Turn, str, bool] | None = None


def own_rows(
    stream: BinaryIO, format: str, agents: Sequence[Agent], position: Position | None = None
) -> Iterator[Row | RowError]:
    """The queries of a file of our own format: "jsonl", "csv" or "txt". Raises Unreadable."""
    roster = Roster(agents)
    for record in reader.records(stream, OWN[format], position=position):
        if isinstance(record, RowError):
            yield record
            continue
        line, cells = record
        try:
            if isinstance(cells, list):
                yield row_of(line, {"text": cells[0]}, roster)
            else:
                yield _checked(own_row(line, cells, roster) if format == "csv" else row_of(line, cells, roster))
        except BadRow as error:
            yield error.at(line)


def rows(
    stream: BinaryIO,
    reading: Reading,
    agents: Sequence[Agent],
    *,
    limits: Limits = JOB,
    position: Position | None = None,
) -> Iterator[FileRow | RowError]:
    """A file's queries by what its columns were said to be; blank records are passed over. Raises Unreadable."""
    roster, values = Roster(agents), Values(agents, reading.values)
    for task_row in tasks(reader.records(stream, reading, limits=limits, position=position), reading):
        if isinstance(task_row, RowError):
            yield task_row
            continue
        line, task = task_row
        try:
            yield row(line, task, reading, values, roster)
        except BadRow as error:
            yield error.at(line)


def _checked(row: Row) -> Row:
    """The row, with what it says about a query's columns checked. Raises BadRow."""
    try:
        query_columns.of_row(row)
    except query_columns.WrongColumn as wrong:
        raise BadRow(str(wrong), wrong.column, short(wrong.value)) from None
    return row


def row(line: int, task: Task, reading: Reading, values: Values, roster: Roster) -> FileRow:
    """The row that a record makes. Raises BadRow, with the labels that are not understood as `excerpt`."""
    try:
        statements = [
            AnnotatorAnswer(answer.by, required, None if answer.about is None else _about(answer, values))
            for answer in task.answers
            if (required := understood(answer, reading, values)) is not None
        ]
        suggested = [_suggested(prediction, values) for prediction in task.predictions]
        asked = task.values.get("asked_agents")
        about = None if asked is None else values.of(asked)
    except Unknown as error:
        raise BadRow(f"not understood: {error}", "required_agents", short(task.values.get("text") or "")) from None
    columns = {key: value for key, value in task.values.items() if key not in ("asked_agents", MEMBER)}
    plain = _checked(row_of(line, columns, roster))
    alone = next((statement for statement in statements if not statement.by and statement.asked is None), None)
    if alone is not None and about is not None and not alone.required <= about:
        raise BadRow("an agent is required but not among asked_agents", "required_agents", short(plain.text))
    return FileRow(
        plain.line, plain.id, plain.text, alone.required if alone else None, about, plain.split, plain.extra, plain.conversation,
        tuple(statement for statement in statements if statement is not alone), tuple(suggested), task.left_out, task.turn,
    )  # fmt: skip


def understood(answer: Annotation, reading: Reading, values: Values) -> frozenset[int] | None:
    """The agents of an answer: none of them for an empty list, and for an empty cell where that was said. Raises Unknown."""
    if isinstance(answer.labels, list) and not answer.labels:
        return frozenset()
    if answer.labels is None or (isinstance(answer.labels, str) and not answer.labels.strip()):
        return frozenset() if reading.empty == "none" else None
    return values.of(answer.labels)


def _about(answer: Annotation, values: Values) -> frozenset[int]:
    about = [values.agents_of(label) for label in answer.about or ()]
    return frozenset[int]().union(*(agents for agents in about if agents is not None))


def _suggested(prediction: Prediction, values: Values) -> Suggested:
    scores = {}
    for label, score in prediction.scores.items():
        for agent in values.agents_of(label) or ():
            scores[agent] = max(0.0, min(1.0, score if score <= 1 else score / 100))
    return Suggested(prediction.source, values.of(prediction.labels) or frozenset(), scores)


# ---------------------------------------------------------------------------------------------------- records as tasks


def tasks(records: Iterable[Record | RowError], reading: Reading) -> Iterator[tuple[int, Task] | RowError]:
    """(line, what it says) of each record that is not blank, behind the header. Records of one text that follow each other, each with
    another label, are one query that needs all of them: so a table has them in which each row names one agent."""
    held: tuple[int, Task] | None = None
    for found in _single_tasks(records, reading):
        if held is not None and not isinstance(found, RowError) and (both := _labels_of_one(held[1], found[1])):
            held = (held[0], both)
            continue
        if held is not None:
            yield held
        held = None if isinstance(found, RowError) else found
        if isinstance(found, RowError):
            yield found
    if held is not None:
        yield held


def _labels_of_one(task: Task, other: Task) -> Task | None:
    """Two records as one where they are the same but for their ids and the agents that they name; None where they are not, or where it
    is said who labeled: people may disagree."""
    labels: list[str] = []
    if not isinstance(task.values.get("text"), str) or {**task.values, "id": None} != {**other.values, "id": None}:
        return None
    for one in (task, other):
        if len(one.answers) != 1 or one.predictions or one.answers[0].by or one.answers[0].about is not None:
            return None
        own = one.answers[0].labels
        parts = own if isinstance(own, list) else [own] if isinstance(own, str) else []
        if not parts or any(not isinstance(part, str) or normalise(part) in (*NONE_WORDS, "") for part in parts):
            return None
        labels += parts
    if len(set(map(normalise, labels))) < len(labels):
        return None
    return replace(task, answers=(replace(task.answers[0], labels=labels),))


def _single_tasks(records: Iterable[Record | RowError], reading: Reading) -> Iterator[tuple[int, Task] | RowError]:
    """`tasks`, each of one record."""
    names: list[str] | None = None
    is_table = reading.kind in ("table", "xlsx")
    skip = reading.skip if is_table else 0
    halves: dict[str, tuple[int, Task]] = {}
    spans: list[tuple[int, Span]] = []
    said = chats.Chats()
    for record in records:
        if isinstance(record, RowError):
            yield record
            continue
        line, cells = record
        if skip:
            skip -= 1
            continue
        if isinstance(cells, list) and reading.header and is_table and names is None:
            names = [str(cell).strip() for cell in cells]
            continue
        try:
            if reading.shape in exports.SHAPES:
                spans += [(line, span) for span in exports.spans_of(reading.shape, _by_name(cells, names))]
                continue
            task = _task(cells, names, reading)
            if task is not None and "speaker" in reading.columns:
                task = said.turn(task)
        except BadSpan as bad:
            yield RowError(line, str(bad), excerpt=short(cells))
            continue
        except BadRow as error:
            yield error.at(line)
            continue
        if task is None:
            continue
        if any(answer.about is not None for answer in task.answers):
            key = normalise(str(task.values.get("text")))
            halves[key] = (line, task) if key not in halves else (halves[key][0], _joined(halves[key][1], task))
        elif isinstance(task.values.get("messages"), list) and not reading.shape:
            yield from ((line, turn) for turn in chats.turns(task))
        else:
            yield line, task
    yield from halves.values()
    for turn, place, alone in exports.turns_of(spans):
        messages = [{"role": speaker, "content": text} for speaker, text in turn.messages]
        values = {"id": turn.trace[:MAX_ID], "messages": messages, "conversation_id": turn.conversation or None}
        yield turn.line, Task(values, turn=(turn, place, alone))


def _by_name(cells: list[Any] | dict[str, Any], names: list[str] | None) -> dict[str, Any]:
    return dict(zip(names or [], cells, strict=False)) if isinstance(cells, list) else cells


def _joined(task: Task, other: Task) -> Task:
    """Two records that each ask about one label of the same text, as one."""
    by: dict[str, Annotation] = {}
    for answer in (*task.answers, *other.answers):
        before = by.get(answer.by)
        if before is not None:
            about = tuple(dict.fromkeys((*(before.about or ()), *(answer.about or ()))))
            answer = Annotation(answer.by, list(dict.fromkeys([*before.labels, *answer.labels])), about)
        by[answer.by] = answer
    return replace(task, answers=tuple(by.values()), predictions=task.predictions + other.predictions)


def _task(cells: list[Any] | dict[str, Any], names: list[str] | None, reading: Reading) -> Task | None:
    """What a record says; None for a blank one. Raises BadRow."""
    if isinstance(cells, list):
        if not any(str(cell).strip() for cell in cells):
            return None
        if (
            reading.delimiter == "|" and reading.kind == "table"
        ):  # perhaps a table of Markdown, with space beside each line
            cells = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
            if _is_rule(cells):
                return None
        if names is not None and len(names) == 1 and len(cells) > 1:  # a list of texts, which hold commas
            cells = [reading.delimiter.join(map(str, cells))]
        if names is not None and any(str(cell).strip() for cell in cells[len(names) :]):
            joined = " · ".join(map(str, cells))
            raise BadRow(f"has {len(cells)} cells where the header has {len(names)}", excerpt=short(joined))
    if reading.shape:
        try:
            return shapes.task(reading.shape, _by_name(cells, names))
        except (AttributeError, KeyError, TypeError, ValueError):
            raise BadRow(f"is no record of {shapes.NAMES[reading.shape]} that is known", excerpt=short(cells)) from None
    by_name: dict[str, Any] = (
        {str(place): cell for place, cell in enumerate(cells)} if isinstance(cells, list) else flat(cells)
    )
    return _of_columns(by_name, names if isinstance(cells, list) else None, reading)


def _is_rule(cells: list[Any]) -> bool:
    """Whether a row is the line below the header of a table in Markdown."""
    filled = [str(cell) for cell in cells if cell != ""]
    return all(re.fullmatch(r":?-{2,}:?", cell) for cell in filled)


def flat(record: Mapping[str, Any], above: str = "", depth: int = 0) -> dict[str, Any]:
    """An object's values with those of the objects in it, by dotted keys: {"fields": {"text": …}} has "fields.text"."""
    cells: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, dict) and value and depth < 3 and key not in ("required_agents", "asked_agents"):
            if "choices" in value:
                cells[f"{above}{key}"] = value
            else:
                cells |= flat(value, f"{above}{key}.", depth + 1)
        else:
            cells[f"{above}{key}"] = value
    return cells


def _of_columns(by_name: dict[str, Any], names: list[str] | None, reading: Reading) -> Task:
    places = {ours: by_name.get(theirs) for ours, theirs in reading.columns.items()}
    entered = [column.name for column, entry in query_columns.entries() if not entry.row]
    values: dict[str, Any] = {
        ours: value
        for ours, value in places.items()
        if ours in (*COLUMNS, *TURN_COLUMNS, "speaker", *entered) and ours != "required_agents"
    }
    if isinstance(values.get("messages"), str):
        values["messages"] = json_cell(values["messages"], "messages")
    for ours in ("id", "split"):
        if isinstance(values.get(ours), float) and values[ours].is_integer():
            values[ours] = int(values[ours])
    if values.get("split") == "":
        values["split"] = None
    if isinstance(values.get("text"), int | float) and not isinstance(values["text"], bool):
        values["text"] = str(values["text"])
    answers: tuple[Annotation, ...] = ()
    if "required_agents" in reading.columns or reading.further:
        further = [(_name(key, names), how, by_name.get(key)) for key, how in reading.further.items()]
        labels = label_columns.together(places.get("required_agents"), further)
        answers = (Annotation(str(places.get("annotator") or "").strip(), labels),)
    predictions = _predictions(by_name.pop("suggestions", None), places)
    if reading.keep:
        read = {*reading.columns.values(), *reading.further}
        for key, value in by_name.items():
            name = _name(key, names)
            if key not in read and name and name not in COLUMNS and value not in (None, ""):
                values[name] = value
    return Task(values, answers, predictions)


def _name(key: str, names: Sequence[str] | None) -> str:
    """What a column is called in the file, "" for one behind the header's last."""
    return key if names is None else names[int(key)] if int(key) < len(names) else ""


def _predictions(listed: Any, fields: Mapping[str, Any]) -> tuple[Prediction, ...]:
    """What models said: in columns of their own, or under a record's `suggestions`, each with source, agents and scores."""
    predictions = []
    if fields.get("suggested_agents") not in (None, "", []):
        score = _number(fields.get("suggestion_score"))
        labels = fields["suggested_agents"]
        whole = {} if score is None else dict.fromkeys([labels] if isinstance(labels, str) else map(str, labels), score)
        predictions.append(Prediction(str(fields.get("suggestion_source") or "file"), labels, whole))
    for prediction in listed if isinstance(listed, list) else ():
        if isinstance(prediction, dict):
            scores = {
                str(name): number
                for name, score in (prediction.get("scores") or {}).items()
                if (number := _number(score)) is not None
            }
            labels = prediction.get(
                "agents", prediction.get("required_agents", [name for name, score in scores.items() if score >= 0.5])
            )
            predictions.append(Prediction(str(prediction.get("source") or "file"), labels, scores))
    return tuple(predictions)


def _number(value: Any) -> float | None:
    try:
        return float(str(value).strip().rstrip("%").replace(",", "."))
    except ValueError:
        return None
