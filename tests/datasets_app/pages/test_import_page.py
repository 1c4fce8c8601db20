"""The page between a file and its import: what its labels mean is asked, remembered and undone."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from agents_app import pools
from agents_app.background_work import jobs
from agents_app.models import Pool
from datasets_app import tasks
from datasets_app.models import Gold, Import, LabelValue, Query
from tests.datasets_app.files import messy

LABELED = [
    ("my results please", "Labs"),
    ("again my results", "Labs / Pharmacy"),
    ("a refill", "Pharmacy"),
    ("hi", "none"),
    ("late", ""),
]
CONTENT = messy.csv(";", ("Question", "Team(s)"), LABELED).encode()


@pytest.fixture(autouse=True)
def no_queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(jobs, "send", lambda _kind, _key: None)
    return


@pytest.fixture
def ops(client: Client, clinic: Pool, person: Callable[..., User]) -> Client:
    client.force_login(person("olga", "ops"))
    return client


def send(client: Client, content: bytes, name: str = "patients.csv") -> str:
    """Upload a file; the address of the page that asks about it."""
    client.post(reverse("import", args=["clinic"]), {"dataset": "Line", "file": SimpleUploadedFile(name, content)})
    return reverse("import_columns", args=["clinic", Import.objects.get(status="choosing").pk])


def fields(page: Any) -> dict[str, str]:
    """What the page's form would send as it stands."""
    import re

    found = {}
    for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page.text):
        found[name] = value.replace("&quot;", '"').replace("&amp;", "&")
    for name, body in re.findall(r'<select name="([^"]+)".*?>(.*?)</select>', page.text, re.DOTALL):
        chosen = re.search(r'<option value="([^"]*)" selected', body)
        found[name] = chosen[1] if chosen else ""
    if "header" not in found:
        found["header"] = "on"
    found.pop("csrfmiddlewaretoken", None)
    return found


def gold() -> dict[str, list[int]]:
    return {one.query.text: one.required for one in Gold.objects.select_related("query")}


def test_values_without_a_guess_are_to_be_chosen(ops: Client, clinic: Pool) -> None:
    page = ops.get(send(ops, b"Message;Team(s)\nare they in;Labs\nwhat a mess;Zz\nmy pills;Pharmacy\n"))
    assert (
        "1 of 3 labels will be kept, the other 2 by the meanings below: check them, and choose the missing one."
        in page.text
    )


@pytest.mark.at_length
def test_the_page_says_what_would_be_kept_and_guesses_what_is_meant(ops: Client, clinic: Pool) -> None:
    address = send(ops, CONTENT)
    page = ops.get(address)
    assert "labels in <bdi>“Team(s)”</bdi>" in page.text
    assert "2 of 4 labels will be kept, the other 2 by the meanings below" in page.text
    assert Query.objects.count() == 0
    labs = clinic.agents.get(name="Lab results")
    form = fields(page)
    assert (form["value-0"], form["means-0"]) == ("Labs", str(labs.number))
    ops.post(address, form)
    assert tasks.read_upload(Import.objects.get().pk) == "done"
    pharmacy = clinic.agents.get(name="Pharmacy").number
    assert gold() == {
        "my results please": [labs.number],
        "again my results": sorted((labs.number, pharmacy)),
        "a refill": [pharmacy],
        "hi": [],
    }
    assert Query.objects.get(text="late").state == "unlabeled"


@pytest.mark.at_length
def test_a_file_that_was_imported_before_says_so(ops: Client, clinic: Pool) -> None:
    content = b"Message;Team(s)\nmy pills;Pharmacy\n"
    first = send(ops, content)
    assert "was imported" not in ops.get(first).text
    ops.post(first, fields(ops.get(first)))
    tasks.read_upload(Import.objects.get().pk)
    again = ops.get(send(ops, content, "copy.csv")).text
    assert "The same file was imported" in again
    assert reverse("import_detail", args=["clinic", Import.objects.order_by("pk")[0].pk]) in again
    Import.objects.filter(status="choosing").delete()
    assert "was imported" not in ops.get(send(ops, content + b"hi;Pharmacy\n")).text


@pytest.mark.at_length
def test_what_was_said_once_is_remembered(ops: Client, clinic: Pool) -> None:
    address = send(ops, CONTENT)
    ops.post(address, fields(ops.get(address)))
    assert LabelValue.objects.get().value == "labs"
    tasks.read_upload(Import.objects.get().pk)
    again = send(ops, messy.csv(",", ("text", "label"), [("one more", "LABS")]).encode())
    page = ops.get(again)
    assert "1 of 1 labels will be kept" in page.text
    assert "value-0" not in fields(page)


@pytest.mark.at_length
def test_what_nobody_has_decided_stops_the_import(ops: Client, clinic: Pool) -> None:
    address = send(ops, messy.csv(",", ("text", "label"), [("x", "Surgery"), ("y", "Billing")]).encode())
    page = ops.get(address)
    assert "1 of 2 labels will be kept, 1 is not understood." in page.text
    form = fields(page)
    assert (form["value-0"], form["means-0"]) == ("Surgery", "")
    answer = ops.post(address, form)
    assert answer.status_code == 422
    assert "Choose what “Surgery” means" in answer.text
    assert Import.objects.get().status == "choosing"
    ops.post(address, {**form, "others": "leave"})
    tasks.read_upload(Import.objects.get().pk)
    assert gold() == {"y": [1]}
    assert Query.objects.get(text="x").state == "unlabeled"


@pytest.mark.at_length
def test_values_beyond_the_first_page_are_asked_about_once_those_are_decided(ops: Client, clinic: Pool) -> None:
    spelled = [f"Pharmacy{letter * 2}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    spelled += [f"Billing{letter * 2}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    address = send(ops, messy.csv(";", ("Question", "Team"), [(f"my {one}", one) for one in spelled]).encode())
    page = ops.get(address)
    assert "12 more values are not understood: they come after these. Is this the column" in page.text
    page = ops.post(address, fields(page))
    assert page.status_code == 422
    sent = fields(page)
    assert {sent[f"value-{place}"] for place in range(52)} == set(spelled), "nothing that was decided is lost"
    assert {sent[f"value-{place}"] for place in range(12)} == set(spelled[40:]), "and what is asked anew stands on top"
    assert ops.post(address, sent).status_code == 302
    tasks.read_upload(Import.objects.get().pk)
    assert Gold.objects.count() == 52


def test_an_unknown_agent_is_made_there_and_goes_with_the_import(ops: Client, clinic: Pool) -> None:
    address = send(ops, messy.csv(",", ("text", "label"), [("x", "Surgery"), ("y", "Billing")]).encode())
    form = fields(ops.get(address))
    ops.post(address, {**form, "means-0": "new"})
    upload = Import.objects.get()
    tasks.read_upload(upload.pk)
    surgery = clinic.agents.get(name="Surgery")
    assert gold()["x"] == [surgery.number]
    answer = ops.post(reverse("import_undo", args=["clinic", upload.pk]), follow=True)
    assert "2 queries and 2 labels are gone" in answer.text
    clinic.refresh_from_db()
    assert not clinic.agents.filter(name="Surgery").exists()
    assert (clinic.next_agent_number, Query.objects.count(), LabelValue.objects.count()) == (4, 0, 0)
    assert not clinic.datasets.exists()


@pytest.mark.at_length
def test_a_reviewer_makes_no_agents(client: Client, clinic: Pool, person: Callable[..., User]) -> None:
    client.force_login(person("rita", "reviewer"))
    address = send(client, messy.csv(",", ("text", "label"), [("x", "Surgery"), ("y", "Billing")]).encode())
    form = fields(client.get(address))
    assert 'value="new"' not in client.get(address).text
    client.post(address, {**form, "means-0": "new"})
    assert not clinic.agents.filter(name="Surgery").exists()


@pytest.mark.at_length
@pytest.mark.parametrize(("empty", "wanted"), [("unlabeled", "unlabeled"), ("none", "gold")])
def test_an_empty_cell_means_what_was_chosen(ops: Client, clinic: Pool, empty: str, wanted: str) -> None:
    address = send(ops, CONTENT)
    form = fields(ops.get(address))
    ops.post(address, {**form, "empty": empty})
    tasks.read_upload(Import.objects.get().pk)
    assert Query.objects.get(text="late").state == wanted


def test_our_own_file_with_unknown_agents_is_asked_about_too(ops: Client, clinic: Pool) -> None:
    rows = b"".join(b'{"text": "q%d", "required_agents": ["Labs"]}\n' % n for n in range(5))
    page = ops.get(send(ops, rows, "own.jsonl"))
    assert "0 of 5 labels will be kept, the other 5 by the meanings below" in page.text


@pytest.mark.at_length
def test_an_export_names_its_tool(ops: Client, clinic: Pool) -> None:
    page = ops.get(send(ops, messy.exports()["label-studio.json"], "export.json"))
    assert "An export of Label Studio" in page.text
    assert "1 was cancelled" in page.text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("agents.csv", b"Team;What they do;Owner\nSurgery;Operations and wounds;Ana\nDiet;What to eat;Ben\n"),
        (
            "card.json",
            b'{"name": "Surgery", "url": "https://a.example", "version": "1", "description": "Operations", "skills": []}',
        ),
        ("tools.json", b'{"tools": [{"name": "Surgery", "description": "Operations", "inputSchema": {}}]}'),
        (
            "api.json",
            b'{"openapi": "3.1.0", "info": {"title": "Surgery"}, "paths": {"/operate": {"post": {"summary": "Operate"}}}}',
        ),
    ],
)
def test_a_file_of_agents_leads_to_adding_them(ops: Client, clinic: Pool, name: str, content: bytes) -> None:
    answer = ops.post(f"/p/{clinic.slug}/import/", {"file": SimpleUploadedFile(name, content), "dataset": "Queries"})
    assert "This file describes agents" in answer.content.decode()
    assert ("Not read, as agents have nothing like it: Owner." in answer.text) == (name == "agents.csv")
    assert answer.context["form"].initial["agents"].startswith("Surgery")
    assert Import.objects.count() == 0
    before = clinic.agents.count()
    ops.post(f"/p/{clinic.slug}/agents/add/several/", answer.context["form"].initial)
    assert clinic.agents.count() - before == (2 if name.endswith("csv") else 1)


def test_queries_with_names_are_no_agents(ops: Client, clinic: Pool) -> None:
    content = b"Name,Message,Description\nAna,are my results in,a patient\n"
    answer = ops.post(f"/p/{clinic.slug}/import/", {"file": SimpleUploadedFile("q.csv", content), "dataset": "Queries"})
    assert answer.status_code == 302


@pytest.mark.at_length
def test_a_packed_ddqn_router_folder_brings_agents_labels_and_splits(
    client: Client, person: Callable[..., User]
) -> None:
    pool = pools.create_pool("Clinic", "clinic", actor=None)
    client.force_login(person("olga", "ops"))
    address = send(client, messy.packed_folder(), "my-router.zip")
    page = client.get(address)
    assert "25 of 25 labels will be kept" in page.text
    client.post(address, fields(page))
    tasks.read_upload(Import.objects.get().pk)
    assert list(pool.agents.order_by("number").values_list("number", "name")) == [(0, "Billing"), (1, "Technical")]
    assert Query.objects.filter(dataset__pool=pool, state="gold").count() == 25
    assert Query.objects.filter(group__split="test").count() == 5
