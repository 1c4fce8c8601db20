"""A hotel's messages as its people keep them: labels in several columns or in marks, sheets beside sheets, dumps within dumps."""

import json

from tests.datasets_app.files.messy import book, csv, zipped

AGENTS = ("Front desk", "Housekeeping", "Restaurant", "Spa", "Concierge", "Maintenance")
CODES = dict(zip(AGENTS, ("FD", "HO", "RE", "SP", "CO", "MA"), strict=True))
#: text → the agents it needs, None for not labeled
MESSAGES: dict[str, tuple[str, ...] | None] = {
    "The shower in 412 is cold, and can we get two more towels?": ("Maintenance", "Housekeeping"),
    "Table for four at eight; window seat if possible": ("Restaurant",),
    "late check-out on Sunday – is that 30 € extra?": ("Front desk",),
    'Massage at 5pm "deep tissue", then dinner': ("Spa", "Restaurant"),
    "which museum is open on Mondays": ("Concierge",),
    "thank you for a lovely stay": (),
    "Room key stopped working and the TV too": ("Front desk", "Maintenance"),
    "pillows please": ("Housekeeping",),
    "no idea yet": None,
    "Bring ice to the pool": ("Restaurant",),
}


def cell(agents: tuple[str, ...] | None, between: str = ", ") -> str:
    return "" if agents is None else between.join(agents) or "none"


def rows(between: str = ", ") -> list[tuple[str, str]]:
    return [(text, cell(agents, between)) for text, agents in MESSAGES.items()]


def marks(yes: object, no: object) -> list[list[object]]:
    """One column for each agent, and one for none of them; nothing in a row that is not labeled."""
    return [
        [text, *((yes if name in agents else no) if agents is not None else "" for name in AGENTS), yes if agents == () else ""]
        for text, agents in MESSAGES.items()
    ]  # fmt: skip


def first_and_second() -> list[tuple[str, str, str]]:
    return [
        (text, cell(agents and agents[:1]), agents[1] if agents and len(agents) > 1 else "")
        for text, agents in MESSAGES.items()
    ]


def spelled(text: str) -> str:
    return text.replace("Front desk", "FRONT-DESK").replace("Spa", "spa ").replace("Housekeeping", "House keeping")


def files() -> dict[str, bytes]:
    """The files by name, every label of which is understood as it stands but those of "aliases"."""
    head = ["Message", "Team"]
    header = [None, "Nr.", "What the guest wrote", "Goes to"]
    numbered = [[None, n, text, agents or None] for n, (text, agents) in enumerate(rows(" & "))]
    tickets = [
        {
            "id": n, "requester": {"name": "Guest"}, "description": text,
            "handled": {"by": [{"name": name} for name in agents or ()] or agents},
        }
        for n, (text, agents) in enumerate(MESSAGES.items())
    ]  # fmt: skip
    keyed = {f"T-{n}": {"body": text, "teams": agents} for n, (text, agents) in enumerate(MESSAGES.items())}
    pairs = [
        (text, "" if agents is None else " ".join(map(CODES.get, agents)) or "-") for text, agents in MESSAGES.items()
    ]  # type: ignore[arg-type]
    dated = csv(";", ("Datum", "Gast schrieb", "Abteilung"), [("1.2.26", *row) for row in rows(" + ")])
    aliased = [
        (text, agents.replace("Front desk", "Reception").replace("Maintenance", "Technician"))
        for text, agents in rows(";")
    ]
    markdown = "".join(f"| {text} | {agents} |\n" for text, agents in rows())
    spelling = csv(",", ("text", "handled_by"), [(text, spelled(agents)) for text, agents in rows(";")])
    return {
        "1 named separator.csv": ("sep=;\r\n" + dated).encode("cp1252"),
        "2 big-endian.tsv": b"\xfe\xff" + csv("\t", ("Guest message", "Dept."), rows(" / ")).encode("utf-16-be"),
        "3 marks.csv": csv(",", ("Message", *AGENTS, "Nobody"), [[str(one) for one in row] for row in marks("x", "")]).encode(),
        "4 true and false.xlsx": book(("S", [["Message", *AGENTS, "Nobody"], *marks(True, False)], [])),
        "5 two columns.csv": csv(";", ("Message", "Team 1", "Team 2"), first_and_second()).encode(),
        "6 a team and more.csv": csv(",", ("Message", "Team", "Also needed"), first_and_second()).encode(),
        "7 cover sheet.xlsx": book(
            ("About", [["Hotel messages"], ["Made by the night shift"]], []),
            ("Messages", [[None, "Guest messages 2026", None, None], [None], header, *numbered], ["B1:D1"]),
        ),
        "8 sheets.xlsx": book(
            ("Jan", [head, *map(list, rows()[:4])], []), ("Feb", [["February"], head, *map(list, rows()[4:])], [])
        ),
        "9 spelling.csv": spelling.encode("utf-8-sig"),
        "10 aliases.csv": csv(",", ("text", "owner"), aliased).encode(),
        "11 dump in a dump.json": json.dumps({"data": {"tickets": tickets, "next": None}}).encode(),
        "12 by id.json": json.dumps(keyed, indent=1).encode(),
        "13 by id on one line.json": json.dumps(keyed).encode(),
        "14 markdown.txt": ("| Message | Team |\n| --- | :---: |\n" + markdown).encode(),
        "15 codes.csv": csv(",", ("utterance", "intent"), pairs).encode(),
        "16 a mixed archive.zip": zipped(
            **{
                "export/__MACOSX/._a__csv": b"\0\1",
                "export/jan__csv": csv(";", ("Message", "Team"), rows()[:5]).encode("cp1252"),
                "export/feb__csv": csv(",", ("Team", "Message"), [row[::-1] for row in rows()[5:]]).encode(),
                "export/readme__txt": b"Export of the night shift",
            }
        ),
    }  # fmt: skip


#: Labels that are no agent's name, and whose they are.
ALIASES = {"reception": "Front desk", "technician": "Maintenance"}
