"""Labels that stand in several columns, in marks or on several sheets: none is lost unsaid."""

import io

import pytest

from agents_app import pools
from agents_app.files.formats import Reading
from datasets_app.files import checking, looking, undoing
from datasets_app.labeling import queue
from datasets_app.models import Dataset, Query
from datasets_app.queries import adding
from tests.datasets_app.files import hotel
from tests.datasets_app.files.messy import book, csv
from tests.datasets_app.files.test_messy_files import everything, said, take

pytestmark = pytest.mark.django_db
FILES = hotel.files()


@pytest.fixture
def house(db: None) -> Dataset:
    pool = pools.create_pool("Hotel", "hotel")
    for name in hotel.AGENTS:
        pools.add_agent(pool, name)
    queue.fill(pool)
    return adding.dataset_of(pool, "Messages")


def look(house: Dataset, name: str, content: bytes) -> looking.Look:
    return looking.look(io.BytesIO(content), name, pools.roster(house.pool))


@pytest.mark.parametrize("name", FILES)
def test_every_row_comes_with_all_of_its_agents_and_goes_without_a_trace(house: Dataset, name: str) -> None:
    before = everything()
    looked = look(house, name, FILES[name])
    reading = looked.reading
    assert looked.unread == ()
    if "aliases" in name:
        checked = checking.check(io.BytesIO(FILES[name]), reading, pools.roster(house.pool))
        assert (checked.labels, checked.kept) == (9, 6)
        assert {one.value.lower() for one in checked.strange} == set(hotel.ALIASES), "each alias is asked about alone"
        ids = {value: [house.pool.agents.get(name=agent).number] for value, agent in hotel.ALIASES.items()}
        reading = Reading.of({**reading.as_json(), "values": ids})
    upload = take(house, FILES[name], reading)
    assert upload.rejected == 0, list(upload.problems.values_list("line", "reason", "excerpt"))
    order = {agent: place for place, agent in enumerate(hotel.AGENTS)}
    wanted = {
        text: None if agents is None else tuple(sorted(agents, key=order.__getitem__))
        for text, agents in hotel.MESSAGES.items()
    }
    assert said(house) == wanted
    undoing.undo(upload, None)
    assert everything() == before


def test_a_sheet_with_other_columns_is_named(house: Dataset) -> None:
    sheets = ("Jan", [["Message", "Team"], ["pillows", "Housekeeping"], ["towels", "Housekeeping"]], [])
    content = book(sheets, ("Rates", [["Room", "Price"], [412, 99]], []))
    upload = take(house, content, look(house, "book.xlsx", content).reading)
    assert (upload.queries_added, upload.rejected) == (2, 1)
    assert "“Rates”" in upload.problems.get().reason


def test_two_peoples_answers_are_no_sum_and_the_second_is_named(house: Dataset) -> None:
    lines = [("one", "Spa", "Spa"), ("two", "Spa", "Restaurant"), ("three", "Concierge", "Concierge")]
    looked = look(house, "two.csv", csv(",", ("Message", "Ana", "Ben"), lines).encode())
    assert looked.reading.further == {}
    assert looked.unread == ("Ben",)


def test_a_mark_that_says_no_is_an_answer_and_an_empty_cell_is_none(house: Dataset) -> None:
    content = csv(",", ("Message", "Spa"), [("one", "no"), ("two", ""), ("three", "x")]).encode()
    looked = look(house, "marks.csv", content)
    assert looked.reading.further == {"1": "mark"}
    take(house, content, looked.reading)
    assert said(house) == {"one": (), "two": None, "three": ("Spa",)}
    assert Query.objects.count() == 3


@pytest.mark.parametrize(
    "content", ['{"text": "hi", "messages": [{"role": "user"}]}', '{"a": {"x": 1}, "b": {"y": 2}}']
)
def test_one_record_stays_one(house: Dataset, content: str) -> None:
    assert look(house, "one.json", content.encode()).reading.kind in ("objects", "object")
    assert len(look(house, "one.json", content.encode()).body) == 1


SPOKEN = (
    "password reset does not work", "where is my parcel", "refund for the kettle and password again", "send the invoice once more",
    "invoice", "hello there", "cancel the appointment at 77", "the invoice shows 3 items instead of one", "refund of a double charge",
    "my parcel went to a neighbour", "an earlier appointment please", "new password mail never comes",
)  # fmt: skip


@pytest.mark.parametrize(
    "header",
    [
        ("Ticket no", "Customer message", "Channel"),  # no name that we know; "chat", which is one, stands in the cells
        ("Nr", "What they wrote", "Came by"),
        ("T", "Conversation of the day", "Form"),
    ],
)
@pytest.mark.parametrize("team", [False, True])
def test_queries_that_speak_of_what_agents_are_called_by_are_no_labels(
    db: None, header: tuple[str, ...], team: bool
) -> None:
    pool = pools.create_pool("Shop", "shop")
    agents = ("Refund", "Password", "Invoice", "Appointment")
    for name in agents:
        pools.add_agent(pool, name)
    rows = [(f"T-{100 + n}", text, ("chat", "email")[n % 2]) for n, text in enumerate(SPOKEN)]
    if team:
        header = (*header, "Queue of last year")
        rows = [(*row, agents[n % 4] if n % 5 else "") for n, row in enumerate(rows)]
    shop = adding.dataset_of(pool, "Tickets")
    content = csv(";", header, rows).encode("utf-16")
    reading = look(shop, "tickets.csv", content).reading
    assert reading.columns["text"] == "1"
    assert reading.columns.get("required_agents") == ("3" if team else None)
    assert take(shop, content, reading).rejected == 0
    assert set(Query.objects.values_list("text", flat=True)) == set(SPOKEN)


def test_a_header_that_stands_on_every_page_is_one(house: Dataset) -> None:
    page = [("Message", "Team"), ("pillows please", "Housekeeping"), ("a table for two", "Restaurant")]
    reading = look(house, "printed.csv", csv(";", page[0], [*page[1:], *page]).encode()).reading
    assert (reading.skip, reading.header, reading.columns) == (0, True, {"required_agents": "1", "text": "0"})
