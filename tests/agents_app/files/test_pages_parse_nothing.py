"""No page parses what somebody uploads: where the parsers of this process fail, the pages take files as before."""

import csv
import io
import zipfile
from typing import Any, NoReturn

import openpyxl
import pytest
import yaml
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from agents_app.files import rosters
from agents_app.files.formats import Unreadable
from agents_app.models import Agent
from agents_app.pools import create_pool
from datasets_app.models import Import
from tests.agents_app.files.books import book

pytestmark = [pytest.mark.django_db, pytest.mark.any_database]
QUERIES = "text,label\nrefund me,Billing\nwhere is it,Shipping\n"


def zipped(name: str, content: str) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(name, content)
    return made.getvalue()


FILES = {
    "queries.xlsx": book(("text", "label"), ("refund me", "Billing")),
    "queries.csv": QUERIES.encode(),
    "queries.zip": zipped("queries.csv", QUERIES),
}
AGENTS = {
    "agents.xlsx": book(("name", "description"), ("Returns", "parcels that go back")),
    "agents.yaml": b"- name: Returns\n  description: parcels that go back\n",
    "agents.csv": b"name;description\nReturns;parcels that go back\n",
}


@pytest.fixture
def parsers_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parsers of tables, archives and YAML fail in this process."""

    def fail(*_arguments: Any, **_more: Any) -> NoReturn:
        raise AssertionError("a file is parsed in a web process")

    for module, name in (
        (openpyxl, "load_workbook"), (zipfile, "ZipFile"), (csv, "reader"), (csv, "DictReader"),
        (yaml, "safe_load"), (yaml, "parse"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, fail)


@pytest.mark.at_length
@pytest.mark.usefixtures("parsers_fail")
@pytest.mark.parametrize("name", FILES)
def test_a_file_of_queries(admin_client: Client, name: str) -> None:
    create_pool("Support")
    sent = {"file": SimpleUploadedFile(name, FILES[name]), "dataset": "Tickets"}
    assert admin_client.post("/p/support/import/", sent).status_code == 302
    upload = Import.objects.get()
    assert admin_client.get(f"/p/support/import/{upload.pk}/columns/", follow=True).status_code == 200


@pytest.mark.usefixtures("parsers_fail")
@pytest.mark.parametrize("name", AGENTS)
def test_a_file_of_agents(admin_client: Client, name: str) -> None:
    create_pool("Support")
    sent = {"file": SimpleUploadedFile(name, AGENTS[name])}
    assert admin_client.post("/p/support/agents/add/several/", sent).status_code == 302
    assert Agent.objects.get().description == "parcels that go back"


def test_yaml_with_references_is_refused() -> None:
    bomb = b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
    for read in (rosters.yaml_value, lambda stream: rosters.agents(stream, "agents.yaml")):
        with pytest.raises(Unreadable, match="References"):
            list(read(io.BytesIO(bomb)))
