"""Statistics: the figures of a small pool, counted by hand."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from agents_app.models import Agent, Pool
from datasets_app.figures import statistics
from datasets_app.labels import labels
from datasets_app.models import Dataset, Query

ALL = [0, 1, 2, 3]


def test_the_figures_of_a_small_pool(pool: Pool, add_query: Callable[..., Query], person: Callable[..., User]) -> None:
    chat = Dataset.objects.create(pool=pool, name="Chat")
    labels.record(labels.NewLabel(add_query("a", "train").pk, source="import", required=[], asked=ALL))
    labels.record(labels.NewLabel(add_query("b", "train").pk, source="import", required=[0, 1], asked=ALL))
    labels.record(
        labels.NewLabel(add_query("c", "test").pk, source="human", author=person("ana"), required=[1], asked=[0, 1])
    )
    labels.record(
        labels.NewLabel(add_query("d", in_dataset=chat).pk, source="import", required=[0, 1, 2, 3], asked=ALL)
    )
    labels.record(labels.NewLabel(add_query("e").pk, source="llm", required=[0], asked=ALL))
    add_query("f")
    gone = add_query("gone")
    labels.record(labels.NewLabel(gone.pk, source="import", required=[2], asked=ALL))
    Query.objects.filter(pk=gone.pk).update(deleted_at=timezone.now())
    Agent.objects.filter(number=3).update(state="retired")

    found = statistics.describe(pool)
    assert (found.queries, found.gold, found.partly_asked) == (6, 4, 1)
    assert found.states == {"gold": 4, "labeled": 1, "unlabeled": 1}
    assert found.datasets == {"Chat": 1, "Tickets": 5}
    assert found.sources == {"import": 3, "human": 1, "llm": 1}
    assert found.splits == {"train": 2, "test": 1, "": 1}
    assert {bucket: dict(counts) for bucket, counts in found.sizes.items() if counts} == {
        "0": {"train": 1},
        "1": {"test": 1},
        "2–3": {"train": 1},
        "4–6": {"": 1},
    }
    assert found.mean_size == pytest.approx(7 / 4)
    agents = {row.agent.name: (row.asked, dict(row.required), row.retired) for row in found.agents}
    assert agents == {
        "Billing": (4, {"train": 1, "": 1}, False),
        "Account": (4, {"train": 1, "test": 1, "": 1}, False),
        "Technical": (3, {"": 1}, False),
        "Shipping": (3, {"": 1}, True),
    }


def test_an_empty_pool_has_figures_too(pool: Pool) -> None:
    found = statistics.describe(pool)
    assert (found.queries, found.gold, found.mean_size) == (0, 0, 0.0)


@pytest.mark.parametrize(
    ("size", "bucket"), [(0, "0"), (1, "1"), (2, "2–3"), (3, "2–3"), (4, "4–6"), (6, "4–6"), (7, "7+"), (40, "7+")]
)
def test_size_buckets(size: int, bucket: str) -> None:
    assert statistics.size_bucket(size) == bucket


def test_the_number_of_database_queries_is_fixed(
    pool: Pool, add_query: Callable[..., Query], django_assert_num_queries: Any
) -> None:
    made = [add_query(f"query number {n}") for n in range(20)]
    labels.record_many([labels.NewLabel(query.pk, "import", [0], ALL) for query in made])
    with django_assert_num_queries(6):
        statistics.describe(pool)
