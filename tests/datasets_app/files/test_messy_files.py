"""Files as teams have them: every row goes in or is listed, no label is lost unsaid, and one call undoes all of it."""

import io
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth.models import User

from agents_app import pools
from agents_app.files.formats import Reading
from agents_app.models import Pool
from datasets_app.files import checking, imports, looking, undoing
from datasets_app.files.values import Unknown, Values
from datasets_app.labeling import queue
from datasets_app.models import Dataset, Gold, Import, Label, Query
from datasets_app.queries import adding
from tests.datasets_app.files import messy
from tests.datasets_app.files.messy import AGENTS, ALIASES, QUERIES
from training_app.engine.data.examples import Agent

pytestmark = pytest.mark.django_db
FILES, EXPORTS = messy.files(), messy.exports()


@pytest.fixture
def clinic(db: None) -> Dataset:
    pool = pools.create_pool("Clinic", "clinic")
    for name in AGENTS:
        pools.add_agent(pool, name)
    return adding.dataset_of(pool, "Tickets")


def looked_at(dataset: Dataset, name: str, content: bytes) -> looking.Look:
    return looking.look(io.BytesIO(content), name, pools.roster(dataset.pool, retired=True))


def take(dataset: Dataset, content: bytes, reading: Reading) -> Import:
    upload = imports.read_file(dataset, io.BytesIO(content), "", reading=reading)
    queue.fill(dataset.pool)
    return upload


def read(dataset: Dataset, name: str, content: bytes) -> Import:
    return take(dataset, content, looked_at(dataset, name, content).reading)


def said(dataset: Dataset) -> dict[str, Any]:
    """text → the names of the agents its gold has, None where it has none."""
    names = {agent.number: agent.name for agent in dataset.pool.agents.all()}
    gold = {one.query_id: one for one in Gold.objects.select_related("query")}
    return {
        query.text.replace("\r\n", "\n"): tuple(names[number] for number in gold[query.pk].required)
        if query.pk in gold
        else None
        for query in Query.objects.filter(dataset=dataset)
    }


def everything() -> dict[str, list[dict[str, Any]]]:
    """Every row of every table but the trail of what was done, and without when it was last written."""
    left = {"AuditEntry", "Stamp", "ContentType", "Permission", "OrmQ", "Session"}
    times = {"updated_at", "composed_at", "changed_at"}
    return {
        model._meta.label: [
            {key: value for key, value in row.items() if key not in times}
            for row in model._base_manager.order_by("pk").values()
        ]
        for model in apps.get_models(include_auto_created=True)
        if model.__name__ not in left
    }


@pytest.mark.parametrize("name", FILES)
def test_every_row_of_a_messy_file_goes_in_with_its_label(clinic: Dataset, name: str) -> None:
    looked = looked_at(clinic, name, FILES[name])
    reading = looked.reading
    lab = clinic.pool.agents.get(name="Lab results").number
    if "aliases" in name:
        reading = Reading.of({**reading.as_json(), "values": {value: [lab] for value in ALIASES}})
    upload = take(clinic, FILES[name], reading)
    assert upload.rejected == 0, list(upload.problems.values_list("line", "reason", "excerpt"))
    found = said(clinic)
    wanted = {text: None if agents is None else tuple(sorted(agents)) for text, agents in QUERIES.items()}
    if "tickets" in name:
        wanted = {text: agents for text, agents in wanted.items() if agents}
    assert {text: found.get(text, "missing") for text in wanted} == wanted
    if "merged" in name:
        assert found["and one more about results"] == ("Lab results",)
    if "zip" in name:
        assert found["and a test"] == ("Billing",)
        assert Query.objects.get(text="and a test").group.split == "test"


@pytest.mark.parametrize("name", FILES)
def test_an_import_that_is_undone_leaves_the_database_as_it_was(clinic: Dataset, name: str) -> None:
    queue.fill(clinic.pool)
    take(clinic, b"text,label\nare my results in,Billing\nwas here before,Pharmacy\n", read_by("text", "label"))
    before = everything()
    upload = read(clinic, name, FILES[name])
    assert everything() != before
    undone = undoing.undo(upload, None)
    assert undone.kept == 0
    assert everything() == before


def read_by(*names: str) -> Reading:
    return Reading("table", columns={"text": "0", "required_agents": "1"})


@pytest.mark.at_length
@pytest.mark.parametrize("name", FILES)
def test_what_is_not_understood_is_said_before_anything_is_stored(clinic: Dataset, name: str) -> None:
    looked = looked_at(clinic, name, FILES[name])
    agents = pools.roster(clinic.pool, retired=True)
    checked = checking.check(io.BytesIO(FILES[name]), looked.reading, agents)
    assert Query.objects.count() == 0
    if "aliases" not in name:
        assert (checked.lost, checked.strange, checked.bad) == (0, [], 0)
        assert checked.labels >= 6
        return
    assert (checked.labels, checked.kept) == (7, 5)
    (strange,) = checked.strange
    assert (strange.value, strange.count) == ("Labs", 2)
    assert strange.guess is not None
    assert strange.guess.name == "Lab results"
    assert {(one.text, one.label) for one in checked.examples} == {
        ("why was I charged twice for the blood test", "Labs"),
        ("are my results in", "Labs"),
    }


def test_parts_of_a_cell_that_are_like_names_are_asked_about_one_by_one(clinic: Dataset) -> None:
    """Of "Labs/Pharmacist" no part is a name: the whole of it must not stand for one of the two."""
    pools.add_agent(clinic.pool, "Wards & Rooms", keywords=("bed",))
    cells = ("Labs/Pharmacist", "labs", "LABS", "Labs, Ward", "Bed", "Ward/Room")
    content = messy.csv(";", ("text", "label"), [(f"query {n}", cell) for n, cell in enumerate(cells)]).encode()
    reading = Reading("table", delimiter=";", columns={"text": "0", "required_agents": "1"})
    checked = checking.check(io.BytesIO(content), reading, pools.roster(clinic.pool))
    assert [(one.value, one.count, one.guess.name) for one in checked.strange if one.guess] == [
        ("Labs", 4, "Lab results"),
        ("Pharmacist", 1, "Pharmacy"),
        ("Ward", 1, "Wards & Rooms"),
        ("Bed", 1, "Wards & Rooms"),
        ("Ward/Room", 1, "Wards & Rooms"),
    ]


@pytest.mark.parametrize(
    ("cell", "names"),
    [
        ("Lab results / In / Out / Pharmacy", {"Lab results", "In / Out", "Pharmacy"}),
        ("Wards & Rooms + In / Out + Pharmacy", {"Wards & Rooms", "In / Out", "Pharmacy"}),
        ("In / Out, Wards & Rooms", {"In / Out", "Wards & Rooms"}),
    ],
)
def test_a_name_that_holds_a_separator_stays_whole(clinic: Dataset, cell: str, names: set[str]) -> None:
    pools.add_agent(clinic.pool, "Wards & Rooms")
    pools.add_agent(clinic.pool, "In / Out")
    agents = pools.roster(clinic.pool)
    meant = Values(agents, {}).of(cell)
    assert {agent.name for agent in agents if agent.id in (meant or ())} == names


def test_a_strange_part_beside_a_name_that_holds_a_separator_is_asked_about(clinic: Dataset) -> None:
    pools.add_agent(clinic.pool, "In / Out")
    with pytest.raises(Unknown, match="Warehouse"):
        Values(pools.roster(clinic.pool), {}).of("Pharmacy, In / Out, Warehouse")


def test_no_label_is_kept_of_a_row_that_is_left_out(clinic: Dataset) -> None:
    content = messy.csv(",", ("text", "label"), [("", "Pharmacy"), ("where are my pills", "Pharmacy")]).encode()
    checked = checking.check(io.BytesIO(content), read_by(), pools.roster(clinic.pool))
    assert (checked.rows, checked.bad, checked.labels, checked.kept) == (2, 1, 1, 1)


def test_rows_that_all_fail_alike_are_a_pattern(clinic: Dataset) -> None:
    content = messy.csv(",", ("text", "label"), [(f"query {n}", "Surgery") for n in range(10)]).encode()
    agents = pools.roster(clinic.pool)
    checked = checking.check(io.BytesIO(content), read_by(), agents)
    assert checked.pattern
    assert (checked.labels, checked.kept, checked.strange[0].guess) == (10, 0, None)


# ---------------------------------------------------------------------------------------------------- labeling tools


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_comes_with_its_answers_people_and_suggestions(clinic: Dataset, name: str) -> None:
    ana = User.objects.create_user("ana@clinic.example", "ana@clinic.example")
    looked = looked_at(clinic, name, EXPORTS[name])
    assert looked.reading.shape
    upload = take(clinic, EXPORTS[name], looked.reading)
    assert upload.rejected == 0, list(upload.problems.values_list("line", "reason", "excerpt"))
    found = said(clinic)
    assert found["one of Ana"] == ("Billing", "Pharmacy")
    assert found["both alike"] == ("Billing",)
    assert found["for nobody"] == ()
    if "doccano" in name:  # it says nothing of who labeled, in a file of all
        assert set(Label.objects.values_list("source", flat=True)) == {"import"}
        assert found["passed over"] is None
        return
    assert Query.objects.get(text="both otherwise").state == "disagreement"
    authors = Label.objects.filter(query__text="both alike").values_list("author__username", flat=True)
    assert set(authors) == {"ana@clinic.example", "annotator 2"}
    assert Label.objects.filter(author=ana, source="human").count() == 4
    assert not User.objects.get(username="annotator 2").is_active
    if "passed over" in found:
        assert found["passed over"] is None
        assert upload.problems.filter(excerpt__contains="passed over", rejected=False).exists()
    if name in ("label-studio.json", "argilla.json", "argilla-flat.jsonl"):
        assert upload.suggestions_added == 1
        guess = Label.objects.get(source="llm")
        billing = clinic.pool.agents.get(name="Billing").number
        assert (guess.query.text, guess.required, guess.scores) == ("for nobody", [billing], {str(billing): 0.8})
        assert guess.provenance["model"] == "gpt-9"


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_that_is_undone_takes_its_people_along(clinic: Dataset, name: str) -> None:
    queue.fill(clinic.pool)
    before = everything()
    upload = read(clinic, name, EXPORTS[name])
    undoing.undo(upload, None)
    assert everything() == before


def test_what_people_have_done_since_stays(clinic: Dataset) -> None:
    upload = take(clinic, b"text,label\nworked on,Billing\nnot worked on,Billing\n", read_by())
    ana = User.objects.create_user("ana@clinic.example")
    from datasets_app.labels import labels

    query = Query.objects.get(text="worked on")
    numbers = [agent.number for agent in clinic.pool.agents.all()]
    labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[3], asked=numbers))
    undone = undoing.undo(upload, None)
    assert (undone.queries, undone.labels, undone.kept) == (1, 2, 1)
    assert said(clinic) == {"worked on": ("Pharmacy",)}


def test_suggestions_with_scores_come_from_any_file(clinic: Dataset) -> None:
    content = (
        b'{"text": "one", "suggestions": [{"source": "gpt-9", "scores": {"Billing": 0.9, "Pharmacy": 0.2}}]}\n'
        b'{"text": "two", "suggestions": [{"source": "gpt-9", "agents": [], "scores": {"Billing": 0.1}}]}\n'
    )
    upload = read(clinic, "suggestions.jsonl", content)
    assert (upload.suggestions_added, upload.labels_added) == (2, 0)
    one, two = Label.objects.order_by("pk")
    assert (one.source, one.required, two.required) == ("llm", [1], [])
    assert one.scores == {"1": 0.9, "3": 0.2}
    table = b"text,prediction,score,model\nthree,Billing,0.7,gpt-9\n"
    read(clinic, "suggestions.csv", table)
    assert Label.objects.get(query__text="three").scores == {"1": 0.7}


def test_answers_about_single_labels_are_joined(clinic: Dataset) -> None:
    def one(label: str, answer: str) -> dict[str, Any]:
        return {
            "text": "hi",
            "label": label,
            "answer": answer,
            "_input_hash": 1,
            "_task_hash": 2,
            "_annotator_id": "ana",
        }

    content = messy.jsonl([one("Billing", "accept"), one("Pharmacy", "reject"), one("Lab results", "ignore")])
    read(clinic, "textcat.jsonl", content)
    label = Label.objects.get()
    assert (label.required, label.asked) == ([1], [1, 3])


def test_the_pool_of_a_team_is_not_needed_to_know_a_tool(clinic: Dataset) -> None:
    assert isinstance(clinic.pool, Pool)
    assert {looked_at(clinic, name, content).reading.shape.split("_")[0] for name, content in EXPORTS.items()} == {
        "label", "argilla", "doccano", "prodigy"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Zaehlerstand", "Zählerstand"),
        ("STOERUNG GAS & WASSER", "Störung Gas & Wasser"),
        ("Stoerung Gas & Wasser, Zaehlerstand", "Störung Gas & Wasser + Zählerstand"),
        ("Zählerstand", "Zaehlerstand"),
        ("Strasse", "Straße"),
    ],
)
def test_umlauts_may_be_written_out(written: str, name: str) -> None:
    names = name.split(" + ")
    agents = [Agent(n, one) for n, one in enumerate([*names, "Störung Strom"])]
    assert Values(agents, {}).of(written) == frozenset(range(len(names)))
