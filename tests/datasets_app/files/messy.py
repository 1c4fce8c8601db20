"""A clinic's queries as its people keep them, twelve times, and the exports of labeling tools; made here, of nobody's data."""

import io
import json
import zipfile
from collections.abc import Sequence
from typing import Any

import openpyxl

AGENTS = ("Appointments", "Billing", "Lab results", "Pharmacy")
#: text → the agents it needs, None for not labeled
QUERIES: dict[str, tuple[str, ...] | None] = {
    "I need to move my visit on Friday": ("Appointments",),
    "why was I charged twice for the blood test": ("Billing", "Lab results"),
    "Meine Überweisung – ist sie schon da?": ("Appointments",),
    "can I get my refill, and book a visit?": ("Pharmacy", "Appointments"),
    "what a lovely waiting room": (),
    "are my results in": ("Lab results",),
    "is ibuprofen safe with my pills; and with wine": ("Pharmacy",),
    "line one\nline two, please call": None,
}


def cell(agents: Sequence[str] | None, between: str = ";", none: str = "none") -> str:
    return "" if agents is None else between.join(agents) or none


def rows(between: str = ";", none: str = "none") -> list[tuple[str, str]]:
    return [(text, cell(agents, between, none)) for text, agents in QUERIES.items()]


def csv(delimiter: str, header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    def quoted(value: str) -> str:
        return '"' + value.replace('"', '""') + '"' if set(value) & set(delimiter + '"\n') else value

    return "".join(delimiter.join(map(quoted, line)) + "\r\n" for line in [header, *lines])


def workbook(title: bool, merged: bool) -> bytes:
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    if title:
        sheet.append(["Patient line, spring", "", ""])
        sheet.merge_cells("A1:C1")
        sheet.append([])
    sheet.append(["No.", "What did the patient ask?", "Handled by"])
    for number, (text, agents) in enumerate(rows(" / "), start=1):
        sheet.append([number, text, agents or None])
    if merged:
        sheet.append([98, "another about results", "Lab results"])
        sheet.append([99, "and one more about results", None])
        last = sheet.max_row
        sheet.merge_cells(f"C{last - 1}:C{last}")
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def book(*sheets: tuple[str, Sequence[Sequence[Any]], Sequence[str]]) -> bytes:
    """A workbook of sheets, each with a name, its rows and the ranges that are merged."""
    made = openpyxl.Workbook()
    made.remove(made.worksheets[0])
    for name, lines, merged in sheets:
        sheet = made.create_sheet(name)
        for line in lines:
            sheet.append(list(line))
        for cells in merged:
            sheet.merge_cells(cells)
    buffer = io.BytesIO()
    made.save(buffer)
    return buffer.getvalue()


def zipped(**files: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "."), content)
    return buffer.getvalue()


def tickets(**more: Any) -> list[dict[str, Any]]:
    return [
        {
            "id": 900 + n,
            "via": {"channel": "email"},
            "fields": {"subject": f"Ticket {n}", "body": text},
            "tags": list(agents),
        }
        for n, (text, agents) in enumerate(QUERIES.items())
        if agents
    ]


def files() -> dict[str, bytes]:
    """The twelve files by name. All of their labels but those of `ALIASES` are understood as they stand."""
    plain = csv(",", ("Question", "Team(s)"), rows(" / "))
    aliased = [(text, agents.replace("Lab results", "Labs")) for text, agents in rows()]
    return {
        "1 semicolon.csv": csv(";", ("Text", "Team(s)"), rows(", ")).encode("utf-8-sig"),
        "2 tabs utf-16.txt": csv("\t", ("Message", "Departments"), rows(" + ")).encode("utf-16"),
        "3 utf-16 without a mark.tsv": csv("\t", ("Message", "Department"), rows("|")).encode("utf-16-le"),
        "4 windows.csv": csv(";", ("Nachricht", "Zuständig"), rows(" & ")).encode("cp1252"),
        "5 title rows.csv": ("Patient line, spring\r\nexported by Ana\r\n\r\n" + plain).encode(),
        "6 title rows.xlsx": workbook(title=True, merged=False),
        "7 merged cells.xlsx": workbook(title=True, merged=True),
        "8 odd headers.csv": csv(
            "|", ("#", "???", "x"), [(str(n), *row) for n, row in enumerate(rows(" and "))]
        ).encode(),
        "9 aliases.csv": csv(",", ("text", "label"), aliased).encode(),
        "10 tickets.json": json.dumps({"count": 7, "tickets": tickets(), "next_page": None}, indent=2).encode(),
        "11 no header.csv": csv(";", rows()[0], rows()[1:]).encode(),
        "12 in a zip.zip": zipped(
            train__csv=plain.encode(), test__jsonl=b'{"Question": "and a test", "Team(s)": "Billing"}\n'
        ),
    }


#: Labels that are no agent's name, and whose they are.
ALIASES = {"labs": "Lab results"}

# ---------------------------------------------------------------------------------------------------- labeling tools


def choices(*labels: str, **more: Any) -> dict[str, Any]:
    return {
        "id": "x",
        "type": "choices",
        "from_name": "agents",
        "to_name": "text",
        "value": {"choices": list(labels)},
        **more,
    }


ANA = {"id": 1, "email": "ana@clinic.example", "first_name": "Ana", "last_name": ""}


def label_studio() -> list[dict[str, Any]]:
    """Five tasks: one person, two who agree, two who differ, "none", and one that was cancelled; one has a prediction."""

    def annotation(by: Any, *labels: str, cancelled: bool = False) -> dict[str, Any]:
        result = [] if cancelled else [choices(*labels)]
        return {"id": 1, "completed_by": by, "was_cancelled": cancelled, "result": result, "lead_time": 3.1}

    return [
        {"id": 1, "data": {"text": "one of Ana"}, "annotations": [annotation(ANA, "Billing", "Pharmacy")], "predictions": []},
        {"id": 2, "data": {"text": "both alike"}, "annotations": [annotation(ANA, "Billing"), annotation(2, "Billing")]},
        {"id": 3, "data": {"text": "both otherwise"}, "annotations": [annotation(ANA, "Billing"), annotation(2, "Pharmacy")]},
        {
            "id": 4, "data": {"text": "for nobody"}, "annotations": [annotation(ANA, "None of these")],
            "predictions": [{"model_version": "gpt-9", "score": 0.7, "result": [choices("Billing", score=0.8)]}],
        },
        {"id": 5, "data": {"text": "passed over"}, "annotations": [annotation(ANA, cancelled=True)], "predictions": []},
    ]  # fmt: skip


def label_studio_min() -> list[dict[str, Any]]:
    def one(number: int, text: str, by: Any, agents: Any) -> dict[str, Any]:
        return {
            "text": text, "id": number, "agents": agents, "annotator": by, "annotation_id": number, "lead_time": 2.0,
            "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
        }  # fmt: skip

    return [
        one(1, "one of Ana", "ana@clinic.example", {"choices": ["Billing", "Pharmacy"]}),
        one(2, "both alike", "ana@clinic.example", "Billing"),
        one(2, "both alike", 2, "Billing"),
        one(3, "both otherwise", "ana@clinic.example", "Billing"),
        one(3, "both otherwise", 2, "Pharmacy"),
        one(4, "for nobody", "ana@clinic.example", "None of these"),
    ]


def label_studio_csv() -> bytes:
    lines = []
    for one in label_studio_min():
        agents = one["agents"] if isinstance(one["agents"], str) else json.dumps(one["agents"])
        lines.append([str({**one, "agents": agents}[key]) for key in one])
    return csv(",", list(label_studio_min()[0]), lines).encode()


def argilla(flat: bool) -> list[dict[str, Any]]:
    def one(number: int, text: str, said: Sequence[tuple[str, Any, str]], suggested: Any = None) -> dict[str, Any]:
        if flat:
            found: dict[str, Any] = {
                "id": str(number), "status": "completed", "_server_id": "x", "text": text,
                "agents.responses": [value for _by, value, _status in said],
                "agents.responses.users": [by for by, _value, _status in said],
                "agents.responses.status": [status for _by, _value, status in said],
            }  # fmt: skip
            more = {"agents.suggestion": suggested, "agents.suggestion.score": 0.8, "agents.suggestion.agent": "gpt-9"}
            return found | (more if suggested else dict.fromkeys(more))
        return {
            "id": str(number), "fields": {"text": text}, "metadata": {}, "vectors": {}, "status": "completed", "_server_id": "x",
            "suggestions": {"agents": {"value": suggested, "score": 0.8, "agent": "gpt-9"}} if suggested else {},
            "responses": {"agents": [{"value": value, "user_id": by, "status": status} for by, value, status in said]} if said else {},
        }  # fmt: skip

    ana, ben = "ana@clinic.example", "annotator 2"
    return [
        one(1, "one of Ana", [(ana, ["Billing", "Pharmacy"], "submitted")]),
        one(2, "both alike", [(ana, ["Billing"], "submitted"), (ben, ["Billing"], "submitted")]),
        one(3, "both otherwise", [(ana, ["Billing"], "submitted"), (ben, ["Pharmacy"], "submitted")]),
        one(4, "for nobody", [(ana, ["none"], "submitted")], ["Billing"]),
        one(5, "passed over", [(ana, None, "discarded")]),
    ]


def doccano() -> list[dict[str, Any]]:
    return [
        {"id": 1, "text": "one of Ana", "label": ["Billing", "Pharmacy"], "Comments": []},
        {"id": 2, "text": "both alike", "label": ["Billing"], "Comments": []},
        {"id": 4, "text": "for nobody", "label": ["none"], "Comments": []},
        {"id": 5, "text": "passed over", "label": [], "Comments": []},
    ]


def prodigy() -> list[dict[str, Any]]:
    options = [{"id": name.upper(), "text": name} for name in (*AGENTS, "None")]

    def one(text: str, by: str, answer: str, *accept: str) -> dict[str, Any]:
        return {
            "text": text, "options": options, "accept": [name.upper() for name in accept], "answer": answer, "_input_hash": 1,
            "_task_hash": 2, "_annotator_id": by, "_timestamp": 1_700_000_000, "config": {"choice_style": "multiple"},
        }  # fmt: skip

    ana, ben = "ana@clinic.example", "annotator 2"
    return [
        one("one of Ana", ana, "accept", "Billing", "Pharmacy"),
        one("both alike", ana, "accept", "Billing"),
        one("both alike", ben, "accept", "Billing"),
        one("both otherwise", ana, "accept", "Billing"),
        one("both otherwise", ben, "accept", "Pharmacy"),
        one("for nobody", ana, "accept", "None"),
        one("passed over", ana, "ignore"),
    ]


def jsonl(records: Sequence[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(one) + "\n" for one in records).encode()


def exports() -> dict[str, bytes]:
    """Exports of tools by the name of the file."""
    return {
        "label-studio.json": json.dumps(label_studio()).encode(),
        "label-studio-min.json": json.dumps(label_studio_min()).encode(),
        "label-studio.csv": label_studio_csv(),
        "argilla.json": json.dumps(argilla(flat=False)).encode(),
        "argilla-flat.jsonl": jsonl(argilla(flat=True)),
        "doccano.jsonl": jsonl(doccano()),
        "doccano.zip": zipped(all__jsonl=jsonl(doccano())),
        "prodigy.jsonl": jsonl(prodigy()),
    }


def packed_folder() -> bytes:
    """A ddqn-router folder of two agents and 25 labeled queries in two splits, in an archive."""
    config = (
        "agents:\n  - {id: 0, name: Billing, description: invoices}\n  - {id: 1, name: Technical, description: bugs}\n"
    )
    files = {"config.yaml": config, "cache/label_cache.jsonl": '{"cache_key": "0", "required_agents": [1]}\n'}
    for split, count in (("train", 20), ("test", 5)):
        rows = [{"id": f"{split}{n}", "text": f"{split} query {n}", "required_agents": [n % 2]} for n in range(count)]
        files[f"data/{split}.jsonl"] = "".join(json.dumps(row) + "\n" for row in rows)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as packed:
        for name, content in files.items():
            packed.writestr(f"my-router/{name}", content)
    return stream.getvalue()
