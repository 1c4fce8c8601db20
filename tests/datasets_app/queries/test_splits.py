"""Splits: a group has one, for ever; what has none is filled, in the wanted shares, the same way whatever the order."""

import random
from collections import Counter
from collections.abc import Callable

import pytest
from django.db import IntegrityError, transaction

from agents_app.models import Pool
from datasets_app.labels import labels, snapshots
from datasets_app.models import Dataset, Query, SplitGroup, group_hash
from datasets_app.queries import splits

pytestmark = pytest.mark.both_databases

ALL = [0, 1, 2, 3]


def gold(add_query: Callable[..., Query], numbers: range) -> list[Query]:
    """Queries with set sizes 0 to 3 in turn."""
    made = [add_query(f"query number {n}") for n in numbers]
    labels.record_many(
        [labels.NewLabel(query.pk, "import", range(n % 4), ALL) for n, query in zip(numbers, made, strict=True)]
    )
    return made


def by_text(pool: Pool) -> dict[str, str]:
    return dict(Query.objects.filter(dataset__pool=pool).values_list("text", "group__split"))


@pytest.mark.at_length
def test_the_shares_are_kept_in_every_set_size(pool: Pool, add_query: Callable[..., Query]) -> None:
    gold(add_query, range(400))
    assert splits.assign(pool) == {"train": 280, "val": 60, "test": 60}
    for size in range(4):
        found = Counter(split for text, split in by_text(pool).items() if int(text.split()[-1]) % 4 == size)
        assert found == {"train": 70, "val": 15, "test": 15}


def test_a_second_call_changes_nothing_and_fills_what_has_come(pool: Pool, add_query: Callable[..., Query]) -> None:
    gold(add_query, range(60))
    splits.assign(pool)
    before = by_text(pool)
    assert splits.assign(pool, seed=7) == {"train": 0, "val": 0, "test": 0}
    gold(add_query, range(60, 120))
    assert sum(splits.assign(pool).values()) == 60
    after = by_text(pool)
    assert {text: after[text] for text in before} == before
    assert set(after.values()) == {"train", "val", "test"}


@pytest.mark.at_length
def test_the_answer_depends_on_the_seed_and_not_on_the_order(pool: Pool, add_query: Callable[..., Query]) -> None:
    numbers = list(range(80))
    random.Random(3).shuffle(numbers)
    for n in numbers:
        gold(add_query, range(n, n + 1))
    splits.assign(pool, seed=1)
    shuffled = by_text(pool)
    SplitGroup.objects.update(split="")
    splits.assign(pool, seed=2)
    other = by_text(pool)
    Query.objects.all().delete()
    SplitGroup.objects.all().delete()
    gold(add_query, range(80))
    splits.assign(pool, seed=1)
    assert by_text(pool) == shuffled
    assert other != shuffled


def test_texts_that_read_the_same_share_a_split(pool: Pool, dataset: Dataset, add_query: Callable[..., Query]) -> None:
    other = Dataset.objects.create(pool=pool, name="Chat")
    one, two = add_query("Where is my parcel?"), add_query("where is my PARCEL", in_dataset=other)
    assert one.group == two.group
    labels.record_many([labels.NewLabel(q.pk, "import", [0], ALL) for q in (one, two)])
    assert sum(splits.assign(pool).values()) == 1
    assert len(set(by_text(pool).values())) == 1


def test_a_split_that_came_with_an_import_wins(pool: Pool, add_query: Callable[..., Query]) -> None:
    query = add_query("fixed", "test")
    labels.record(labels.NewLabel(query.pk, source="import", required=[0], asked=ALL))
    gold(add_query, range(20))
    splits.assign(pool, (1, 0, 0))
    found = by_text(pool)
    assert found.pop("fixed") == "test"
    assert set(found.values()) == {"train"}


def test_queries_without_gold_wait(pool: Pool, query: Query) -> None:
    assert sum(splits.assign(pool).values()) == 0
    labels.record(labels.NewLabel(query.pk, source="llm", required=[0], asked=ALL))
    assert sum(splits.assign(pool, include_llm=False).values()) == 0
    labels.record(labels.NewLabel(query.pk, source="import", required=[0], asked=ALL))
    assert sum(splits.assign(pool).values()) == 1


@pytest.mark.parametrize("ratios", [(0, 0, 0), (1, -1, 1), (1, 1)])
def test_ratios_that_are_none(pool: Pool, ratios: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"ratios|argument"):
        splits.assign(pool, ratios)


def test_another_pool_is_left_alone(pool: Pool, add_query: Callable[..., Query]) -> None:
    elsewhere = Pool.objects.create(slug="other", name="Other")
    SplitGroup.objects.create(pool=elsewhere, key=group_hash("query number 0"))
    gold(add_query, range(4))
    splits.assign(pool)
    assert SplitGroup.objects.get(pool=elsewhere).split == ""


def test_giving_a_split_never_takes_one_away(pool: Pool) -> None:
    has = SplitGroup.objects.create(pool=pool, key="a" * 64, split="test")
    none = SplitGroup.objects.create(pool=pool, key="b" * 64)
    groups = SplitGroup.objects.filter(pk__in=[has.pk, none.pk])
    assert splits.give_where(groups, "train") == 1
    assert dict(SplitGroup.objects.values_list("key", "split")) == {"a" * 64: "test", "b" * 64: "train"}
    with pytest.raises(ValueError, match="is not a split"):
        splits.give_where(groups, "dev")


def test_the_database_refuses_an_unknown_split_and_a_second_group(pool: Pool) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        SplitGroup.objects.create(pool=pool, key="a", split="dev")
    SplitGroup.objects.create(pool=pool, key="a")
    with pytest.raises(IntegrityError), transaction.atomic():
        SplitGroup.objects.create(pool=pool, key="a")


def test_what_all_came_as_training_queries_can_be_divided_until_a_run_has_used_it(
    pool: Pool, add_query: Callable[..., Query]
) -> None:
    gold(add_query, range(100))
    SplitGroup.objects.filter(pool=pool).update(split="train")
    assert splits.assign(pool) == {"train": 0, "val": 0, "test": 0}
    assert splits.divide_training(pool) == {"train": 70, "val": 15, "test": 15}
    with pytest.raises(splits.SplitError, match="validation queries already"):
        splits.divide_training(pool)
    SplitGroup.objects.filter(pool=pool).update(split="train")
    snapshots.take(pool)
    with pytest.raises(splits.SplitError, match="so they stay"):
        splits.divide_training(pool)
    assert set(by_text(pool).values()) == {"train"}
