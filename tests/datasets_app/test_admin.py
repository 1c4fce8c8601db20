"""The admin of this room: every list and page opens, filters find, history cannot be changed, and rows cost no queries."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.sites import site
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from agents_app.models import Pool
from datasets_app.labels import erased_queries, labels, snapshots
from datasets_app.models import (
    Dataset,
    Gold,
    Import,
    ImportProblem,
    Label,
    Query,
    Snapshot,
    SplitGroup,
)

ALL = [0, 1, 2, 3]
HISTORY = (Query, Label, Gold, Import, ImportProblem, Snapshot, SplitGroup)


@pytest.fixture
def root(client: Client, db: None) -> Client:
    client.force_login(User.objects.create_superuser("root", "root@example.com", "secret"))
    return client


def address(model: Any, page: str = "changelist", *args: Any) -> str:
    return reverse(f"admin:datasets_app_{model._meta.model_name}_{page}", args=args)


def fill(dataset: Dataset, add_query: Callable[..., Query], count: int, start: int = 0) -> None:
    made = [add_query(f"query number {n}") for n in range(start, start + count)]
    labels.record_many([labels.NewLabel(query.pk, "import", [query.pk % 4, (query.pk + 1) % 4], ALL) for query in made])
    for n in range(start, start + count):
        upload = Import.objects.create(dataset=dataset, file_name=f"{n}.csv", format="csv")
        ImportProblem.objects.create(upload=upload, line=1, reason="x")
        Snapshot.objects.create(
            pool=dataset.pool, number=n + 1, digest=f"{n:064}", roster=[], rows=1, split_sizes={"train": 1}
        )


@pytest.mark.parametrize("model", [*HISTORY, Dataset])
def test_lists_and_pages_open_and_take_no_query_per_row(
    root: Client, dataset: Dataset, add_query: Callable[..., Query], model: Any
) -> None:
    def asked() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert root.get(address(model)).status_code == 200
        return len(captured)

    fill(dataset, add_query, 2)
    asked()
    few = asked()
    fill(dataset, add_query, 20, start=2)
    assert asked() == few
    assert root.get(address(model, "change", model.objects.first().pk)).status_code == 200


@pytest.mark.parametrize("model", HISTORY)
def test_history_is_read_only(
    root: Client, dataset: Dataset, add_query: Callable[..., Query], model: Any, rf: Any
) -> None:
    fill(dataset, add_query, 1)
    row = model.objects.get()
    assert root.post(address(model, "change", row.pk), {"text": "changed"}).status_code == 403
    assert root.get(address(model, "add")).status_code == 403
    assert root.post(address(model, "delete", row.pk), {"post": "yes"}).status_code == 403
    assert model.objects.filter(pk=row.pk).exists()
    request = rf.get("/")
    request.user = User.objects.get(username="root")
    assert "delete_selected" not in site._registry[model].get_actions(request)


def test_a_query_shows_its_labels_and_their_history(root: Client, query: Query, person: Callable[..., User]) -> None:
    ana = person("ana")
    labels.record(
        labels.NewLabel(query.pk, source="human", author=ana, required=[0], asked=ALL, reason="first thought")
    )
    labels.record(
        labels.NewLabel(query.pk, source="human", author=ana, required=[1], asked=[1, 2], reason="second thought")
    )
    page = root.get(address(Query, "change", query.pk)).content.decode()
    assert page.index("second thought") < page.index("first thought")
    assert 'title="Account"' in page


@pytest.fixture
def four(add_query: Callable[..., Query], dataset: Dataset, pool: Pool) -> dict[str, Query]:
    """Four queries that differ in everything that is filtered by."""
    other = Dataset.objects.create(pool=pool, name="Chat")
    found = {
        "gold": add_query("a refund please", "train"),
        "llm": add_query("an LLM labeled this", "test"),
        "bare": add_query("nobody labeled this", in_dataset=other),
        "gone": add_query("deleted"),
    }
    labels.record(labels.NewLabel(found["gold"].pk, source="import", required=[0], asked=ALL))
    labels.record(labels.NewLabel(found["llm"].pk, source="llm", required=[1], asked=ALL))
    Query.objects.filter(pk=found["gone"].pk).update(deleted_at=timezone.now())
    Query.objects.filter(pk=found["bare"].pk).update(external_id="T-77")
    return found


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, {"gold", "llm", "bare"}),
        ({"state__exact": "gold"}, {"gold"}),
        ({"source": "llm"}, {"llm"}),
        ({"source": "nonsense"}, {"gold", "llm", "bare"}),
        ({"agent": "BILLING"}, {"gold"}),
        ({"agent": "x"}, {"gold", "llm", "bare"}),
        ({"split": "test"}, {"llm"}),
        ({"split": "none"}, {"bare"}),
        ({"dataset__id__exact": "CHAT"}, {"bare"}),
        ({"deleted": "yes"}, {"gone"}),
        ({"deleted": "all"}, {"gold", "llm", "bare", "gone"}),
        ({"q": "REFUND"}, {"gold"}),
        ({"q": "labeled this"}, {"llm", "bare"}),
        ({"q": "T-77"}, {"bare"}),
    ],
)
def test_filters_and_search(
    root: Client, four: dict[str, Query], pool: Pool, asked: dict[str, str], expected: set[str]
) -> None:
    keys = {
        "BILLING": pool.agents.get(name="Billing").pk,
        "CHAT": pool.datasets.get(name="Chat").pk,
    }
    answer = root.get(address(Query), {name: keys.get(value, value) for name, value in asked.items()})
    names = {query.pk: name for name, query in four.items()}
    assert {names[query.pk] for query in answer.context["cl"].result_list} == expected


@pytest.mark.parametrize(("asked", "count"), [({}, 2), ({"current": "yes"}, 1), ({"current": "no"}, 1)])
def test_labels_filter_by_being_current(root: Client, query: Query, asked: dict[str, str], count: int) -> None:
    labels.record(labels.NewLabel(query.pk, source="import", required=[0], asked=ALL))
    labels.record(labels.NewLabel(query.pk, source="import", required=[1], asked=ALL))
    assert len(root.get(address(Label), asked).context["cl"].result_list) == count


def act(client: Client, action: str, queries: list[Query], follow: bool = True) -> Any:
    chosen = {"action": action, "_selected_action": [query.pk for query in queries]}
    return client.post(address(Query), chosen, follow=follow)


def test_assigning_a_split_fills_and_never_changes(root: Client, four: dict[str, Query]) -> None:
    page = act(root, "to_val", [four["gold"], four["bare"]]).content.decode()
    assert "1 group of equal texts is now in Validation." in page
    assert "1 group keeps the split that it has" in page
    assert Query.objects.get(pk=four["gold"].pk).group.split == "train"
    assert Query.objects.get(pk=four["bare"].pk).group.split == "val"


def test_exporting_the_selected(root: Client, four: dict[str, Query]) -> None:
    answer = act(root, "export_selected", [four["gold"], four["bare"]], follow=False)
    assert answer["Content-Disposition"] == 'attachment; filename="queries.jsonl"'
    lines = answer.getvalue().splitlines()
    assert len(lines) == 2
    assert b"a refund please" in lines[0]


def test_taking_a_snapshot(root: Client, four: dict[str, Query]) -> None:
    page = act(root, "take_snapshot", [four["bare"]]).content.decode()
    assert "support-s1 holds all 2 labeled queries of the pool." in page
    assert Snapshot.objects.get().author == User.objects.get(username="root")


def test_taking_a_snapshot_of_nothing_says_why(root: Client, query: Query) -> None:
    assert "no gold labels yet" in act(root, "take_snapshot", [query]).content.decode()


@pytest.mark.parametrize(("role", "may"), [("labeler", False), ("reviewer", True), ("ops", True)])
def test_actions_are_for_reviewers_and_ops(
    rf: Any, person: Callable[..., User], query: Query, role: str, may: bool
) -> None:
    request = rf.get("/")
    request.user = person("somebody", role)
    actions = site._registry[Query].get_actions(request)
    assert ("to_train" in actions) is may
    assert ("export_selected" in actions) is may


def test_a_dataset_may_be_renamed_and_not_deleted(root: Client, dataset: Dataset) -> None:
    assert root.post(address(Dataset, "change", dataset.pk), {"name": "Renamed"}).status_code == 302
    dataset.refresh_from_db()
    assert dataset.name == "Renamed"
    assert root.post(address(Dataset, "delete", dataset.pk), {"post": "yes"}).status_code == 403


def test_a_snapshot_links_to_its_rows(root: Client, query: Query, pool: Pool) -> None:
    labels.record(labels.NewLabel(query.pk, source="import", required=[0], asked=ALL))
    snapshot = snapshots.take(pool)
    target = reverse("snapshot_download", args=["support", snapshot.number])
    assert target in root.get(address(Snapshot)).content.decode()
    assert target in root.get(address(Snapshot, "change", snapshot.pk)).content.decode()


def test_an_erased_query_says_so(root: Client, query: Query) -> None:
    erased_queries.erase(query)
    assert "(erased)" in root.get(address(Query), {"deleted": "yes"}).content.decode()


def test_json_reads_like_a_text_and_names_the_agents(root: Client, pool: Pool, query: Query) -> None:
    made = {"via": "import", "line": 7}
    label = labels.record(
        labels.NewLabel(query.pk, source="import", required=[0], asked=ALL, scores={"0": 0.91234}, provenance=made)
    )
    for row in (label, Gold.objects.get()):
        html = root.get(address(type(row), "change", row.pk)).content.decode()
        main = html[html.index('id="main"') :]
        assert "<dt>Billing</dt>" in main
        for raw in ("[0", "&quot;via&quot;", "{&quot;", "{&#x27;", "<pre"):
            assert raw not in main
        assert str(query.pk) in html[: html.index("</title>")], "what it is called says which query it speaks of"
    html = root.get(address(Label, "change", label.pk)).content.decode()
    assert "<dt>Billing</dt> <dd>0.9123</dd>" in html
    assert "<dt>line</dt> <dd>7</dd>" in html


def test_the_history_of_changes_has_no_brackets(root: Client, query: Query, person: Callable[..., User]) -> None:
    labels.record(labels.NewLabel(query.pk, source="human", author=person("ana"), required=[0, 1], asked=ALL))
    html = root.get(address(Query, "history", query.pk)).content.decode()
    assert "required: 0, 1" in html
    assert "[0" not in html[html.index('id="main"') :]
