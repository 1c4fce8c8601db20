"""What people say of queries stands in the audit trail; what a machine or a file says stands there once, by its job."""

from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

from django.core.management import call_command

from agents_app.models import AuditEntry, Pool
from datasets_app.labels import labels
from datasets_app.models import Import, Query


def entries() -> list[tuple[str, str, str]]:
    found = AuditEntry.objects.filter(action__startswith="label.").order_by("pk")
    return [(entry.action, entry.actor_name, entry.target) for entry in found]


def test_a_persons_label_its_adjudication_and_its_undo_are_kept(
    pool: Pool, query: Query, person: Callable[[str], Any]
) -> None:
    ana = person("ana")
    first = labels.record(labels.NewLabel(query.pk, source="human", author=ana, required=[1], asked=[0, 1, 2]))
    labels.withdraw(first, ana)
    labels.record(labels.NewLabel(query.pk, source="adjudication", author=ana, required=[], asked=[0, 1, 2]))
    name, target = ana.get_username(), f"query {query.pk}"
    assert entries() == [
        ("label.submitted", name, target), ("label.withdrawn", name, target), ("label.adjudicated", name, target),
    ]  # fmt: skip
    assert AuditEntry.objects.get(action="label.submitted").detail["required"] == [1]
    assert AuditEntry.objects.filter(action__startswith="label.", pool=pool).count() == 3
    assert query.text not in str(list(AuditEntry.objects.values_list("detail", flat=True)))


def test_a_file_that_a_command_reads_stands_there_with_its_import(pool: Pool, tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"text": "where is my parcel", "required_agents": [1]}\n')
    (tmp_path / "agents.jsonl").write_text('{"id": 0, "name": "Billing"}\n')
    call_command("import_queries", str(tmp_path / "train.jsonl"), pool=pool.slug, stdout=StringIO(), stderr=StringIO())
    call_command("load_pool", str(tmp_path), slug="other", stdout=StringIO(), stderr=StringIO())
    found = AuditEntry.objects.filter(action="import.started").order_by("pk")
    assert [(entry.actor_name, entry.target, entry.pool.slug) for entry in found if entry.pool] == [
        ("import_queries", "train.jsonl", pool.slug), ("load_pool", "train.jsonl", "other"),
    ]  # fmt: skip
    assert [entry.detail["import"] for entry in found] == list(
        Import.objects.order_by("pk").values_list("pk", flat=True)
    )


def test_imported_labels_leave_no_entry_each(query: Query) -> None:
    labels.record(labels.NewLabel(query.pk, source="import", required=[0], asked=[0]))
    labels.record_many([labels.NewLabel(query.pk, "llm", [0], [0])])
    assert entries() == []
