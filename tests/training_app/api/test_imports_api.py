"""Files by the API: checked, imported, undone; labels that are not understood stop it until somebody says what they mean."""

import base64
from typing import Any

import pytest

from agents_app import pools
from agents_app.models import Pool
from datasets_app import tasks
from datasets_app.models import Import, Label, LabelValue, Query
from tests.datasets_app.files.messy import book, packed_folder
from tests.training_app.served import Application, application

pytestmark = pytest.mark.django_db
CSV = "Message;Team(s)\nwhere is my parcel;Shipping\ntwice charged;Billing / Shipping\nhello;none\nthe lab;Parcels\n"


@pytest.fixture
def pool(db: None) -> Pool:
    made = pools.create_pool("Support", "support", actor=None)
    for name in ("Billing", "Shipping"):
        pools.add_agent(made, name)
    return made


@pytest.fixture
def app(pool: Pool) -> Application:
    return application(pool, scopes=("ops",))


def send(app: Application, **body: Any) -> Any:
    return app.post("/api/imports/", {"file_name": "tickets.csv", "content": CSV, **body})


def test_labels_that_are_not_understood_stop_it_and_are_named(app: Application) -> None:
    answer = send(app)
    assert answer.status_code == 409
    error = answer.json()["error"]
    assert (error["code"], [one["value"] for one in error["findings"]]) == ("not_understood", ["Parcels"])
    assert error["findings"][0]["line"] == 5
    assert (Import.objects.count(), Query.objects.count(), LabelValue.objects.count()) == (0, 0, 0)
    checked = send(app, check_only=True).json()
    assert (checked["upload"], checked["check"]["labels"], checked["check"]["kept"]) == (None, 4, 3)
    assert Import.objects.count() == 0


def test_what_they_mean_is_said_in_the_call_and_all_of_it_is_undone(app: Application, pool: Pool) -> None:
    answer = send(app, map={"Parcels": "Shipping"}, dataset="Tickets", split="train")
    assert answer.status_code == 201, answer.content
    upload = answer.json()["upload"]
    assert (upload["status"], upload["dataset"]) == ("queued", "Tickets")
    assert tasks.read_upload(upload["id"]) == "done"
    done = app.get(f"/api/imports/{upload['id']}/").json()
    assert (done["status"], done["queries_added"], done["labels_added"], done["left_out"]) == ("done", 4, 4, 0)
    labels = dict(Label.objects.values_list("query__text", "required"))
    assert labels == {"where is my parcel": [1], "twice charged": [0, 1], "hello": [], "the lab": [1]}
    assert set(Query.objects.values_list("group__split", flat=True)) == {"train"}
    assert app.post(f"/api/imports/{upload['id']}/undo/", {}).json() == {"queries": 4, "labels": 4, "kept": 0}
    assert (Query.objects.count(), LabelValue.objects.count(), pool.datasets.count()) == (0, 0, 0)
    assert app.get(f"/api/imports/{upload['id']}/").status_code == 404


def test_suggestions_come_with_scores_and_source(app: Application) -> None:
    content = '{"text": "one", "suggestions": [{"source": "gpt-9", "scores": {"Billing": 0.9, "Shipping": 0.2}}]}'
    upload = send(app, file_name="suggestions.jsonl", content=content).json()["upload"]
    assert tasks.read_upload(upload["id"]) == "done"
    label = Label.objects.get()
    assert (label.source, label.required, label.scores) == ("llm", [0], {"0": 0.9, "1": 0.2})
    assert label.provenance["model"] == "gpt-9"


@pytest.mark.at_length
def test_a_workbook_comes_in_base64(app: Application) -> None:
    content = book(("S", [["Message", "Team"], ["parcel", "Shipping"], ["bill", "Billing"]], []))
    packed = base64.b64encode(content).decode()
    answer = send(app, file_name="a.xlsx", content="", content_base64=packed)
    assert answer.json()["check"]["kept"] == 2


@pytest.mark.parametrize(
    ("body", "status", "code", "field"),
    [
        ({"content": ""}, 400, "missing", "content"),
        ({"content_base64": "eA=="}, 400, "invalid", "content"),
        ({"content": "", "content_base64": "%"}, 400, "invalid", "content_base64"),
        ({"map": {"Parcels": "Nobody knows"}}, 400, "invalid", "map"),
        ({"map": ["Parcels"]}, 400, "invalid", "map"),
        ({"content": "<html></html>"}, 400, "invalid", "content"),
        ({"split": "later"}, 400, "invalid", "split"),
    ],
)
def test_what_is_wrong_is_named(app: Application, body: dict[str, Any], status: int, code: str, field: str) -> None:
    answer = send(app, **body)
    assert answer.status_code == status, answer.content
    assert (answer.json()["error"]["code"], answer.json()["error"]["field"]) == (code, field)
    assert Import.objects.count() == 0


def test_one_call_under_one_key_is_one_import(app: Application) -> None:
    for _again in range(2):
        answer = app.post(
            "/api/imports/",
            {"file_name": "a.csv", "content": CSV, "leave_out": True},
            headers={"Authorization": f"Bearer {app.secret}", "Idempotency-Key": "a"},
        )
        assert answer.status_code == 201
    assert Import.objects.count() == 1


def test_an_import_of_another_pool_is_not_there(app: Application) -> None:
    upload = send(app, leave_out=True).json()["upload"]
    other = pools.create_pool("Other", "other", actor=None)
    stranger = application(other, scopes=("ops",))
    assert stranger.get(f"/api/imports/{upload['id']}/").status_code == 404
    assert stranger.post(f"/api/imports/{upload['id']}/undo/", {}).status_code == 404
    assert app.post(f"/api/imports/{upload['id']}/undo/", {}).json()["error"]["code"] == "cannot_undo"


@pytest.mark.at_length
def test_a_packed_ddqn_router_folder_brings_its_agents() -> None:
    pool = pools.create_pool("Moved", "moved", actor=None)
    app = application(pool, scopes=("ops",))
    body = {
        "pool": "moved",
        "file_name": "my.zip",
        "content": "",
        "content_base64": base64.b64encode(packed_folder()).decode(),
    }
    checked = app.post("/api/imports/", {**body, "check_only": True})
    assert checked.json()["check"]["kept"] == 25, checked.content
    assert not pool.agents.exists()
    answer = app.post("/api/imports/", body)
    assert answer.status_code == 201, answer.content
    tasks.read_upload(Import.objects.get().pk)
    assert [agent.name for agent in pool.agents.all()] == ["Billing", "Technical"]
    assert Query.objects.filter(state="gold").count() == 25
