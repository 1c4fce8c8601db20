"""What people say of queries stands in the audit trail; what a machine or a file says stands there once, by its job."""

from collections.abc import Callable
from typing import Any

from agents_app.models import AuditEntry, Pool
from datasets_app import labels
from datasets_app.models import Query


def entries() -> list[tuple[str, str, str]]:
    found = AuditEntry.objects.filter(action__startswith="label.").order_by("pk")
    return [(entry.action, entry.actor_name, entry.target) for entry in found]


def test_a_persons_label_its_adjudication_and_its_undo_are_kept(
    pool: Pool, query: Query, person: Callable[[str], Any]
) -> None:
    ana = person("ana")
    first = labels.record(query, source="human", author=ana, required=[1], asked=[0, 1, 2])
    labels.withdraw(first, ana)
    labels.record(query, source="adjudication", author=ana, required=[], asked=[0, 1, 2])
    name, target = ana.get_username(), f"query {query.pk}"
    assert entries() == [
        ("label.submitted", name, target), ("label.withdrawn", name, target), ("label.adjudicated", name, target),
    ]  # fmt: skip
    assert AuditEntry.objects.get(action="label.submitted").detail["required"] == [1]
    assert AuditEntry.objects.filter(action__startswith="label.", pool=pool).count() == 3
    assert query.text not in str(list(AuditEntry.objects.values_list("detail", flat=True)))


def test_imported_labels_leave_no_entry_each(query: Query) -> None:
    labels.record(query, source="import", required=[0], asked=[0])
    labels.record_many([labels.NewLabel(query.pk, "llm", [0], [0])])
    assert entries() == []
