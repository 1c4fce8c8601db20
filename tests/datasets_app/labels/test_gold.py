"""Gold: every rule of composing it as a table, and how it is stored."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User

from agents_app import pools
from agents_app.background_work import work
from agents_app.models import Agent, BackgroundJob, Pool
from datasets_app import tasks
from datasets_app.labels import gold, labels, voices
from datasets_app.labels.voices import Merge
from datasets_app.models import Draft, Gold, GoldAgent, Label, Query

pytestmark = pytest.mark.both_databases


@dataclass
class Said:
    pk: int
    source: str
    required: list[int]
    asked: list[int]
    unsure: bool = False
    provenance: dict[str, Any] = field(default_factory=dict)
    created_at: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    @property
    def author_id(self) -> int:
        """Each statement of a person is another person's."""
        return self.pk


ALL = [0, 1, 2, 3]


def said(*statements: tuple[Any, ...]) -> list[Said]:
    """Labels numbered in the order given: (source, required, asked = all, unsure = no)."""
    return [Said(n, s[0], s[1], s[2] if len(s) > 2 else ALL, len(s) > 3 and s[3]) for n, s in enumerate(statements, 1)]


CASES: list[tuple[str, list[Said], set[int], set[int], set[int], str]] = [
    ("nothing", [], set(), set(), set(), "unlabeled"),
    ("an import", said(("import", [0, 1])), {0, 1}, {0, 1, 2, 3}, set(), "gold"),
    ("none of these is an answer", said(("import", [])), set(), {0, 1, 2, 3}, set(), "gold"),
    ("one person", said(("human", [2])), {2}, {0, 1, 2, 3}, set(), "gold"),
    ("a person outranks the import", said(("import", [0]), ("human", [1])), {1}, {0, 1, 2, 3}, set(), "gold"),
    ("also an import after them", said(("human", [1]), ("import", [0])), {1}, {0, 1, 2, 3}, set(), "gold"),
    ("agreeing people", said(("human", [1]), ("human", [1])), {1}, {0, 1, 2, 3}, set(), "gold"),
    ("people disagree on one agent", said(("human", [1, 2]), ("human", [1])), {1}, {0, 1, 3}, {2}, "disagreement"),
    (
        "an import does not settle a disagreement",
        said(("import", [2]), ("human", [2]), ("human", [])),
        set(),
        {0, 1, 3},
        {2},
        "disagreement",
    ),
    (
        "an adjudication does",
        said(("human", [1, 2]), ("human", [1]), ("adjudication", [1, 2])),
        {1, 2},
        {0, 1, 2, 3},
        set(),
        "gold",
    ),
    ("also against agreeing people", said(("adjudication", [3]), ("human", [1])), {3}, {0, 1, 2, 3}, set(), "gold"),
    (
        "an adjudication of one agent leaves the others to people",
        said(("human", [0]), ("adjudication", [2], [2])),
        {0, 2},
        {0, 1, 2, 3},
        set(),
        "gold",
    ),
    ("not asked is no negative", said(("human", [0], [0, 1])), {0}, {0, 1}, set(), "gold"),
    (
        "each agent has its own highest source",
        said(("import", [0], [0, 1]), ("human", [3], [3])),
        {0, 3},
        {0, 1, 3},
        set(),
        "gold",
    ),
    (
        "people who were asked of different agents do not disagree",
        said(("human", [0], [0, 1]), ("human", [], [2, 3])),
        {0},
        {0, 1, 2, 3},
        set(),
        "gold",
    ),
    ("an LLM alone makes no gold", said(("llm", [0])), set(), set(), set(), "labeled"),
    ("nor does it contradict", said(("llm", [0]), ("import", [1])), {1}, {0, 1, 2, 3}, set(), "gold"),
    ("an unsure person makes no gold", said(("human", [0], ALL, True)), set(), set(), set(), "labeled"),
    (
        "an unsure person disputes nothing",
        said(("human", [0]), ("human", [1], ALL, True)),
        {0},
        {0, 1, 2, 3},
        set(),
        "gold",
    ),
]


@pytest.mark.parametrize(
    ("statements", "required", "asked", "disputed", "state"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_composition(
    statements: list[Said], required: set[int], asked: set[int], disputed: set[int], state: str
) -> None:
    found = gold.compose(statements)
    assert (found.required, found.asked, found.disputed, found.state) == (required, asked, disputed, state)
    assert set(found.decided_by) == asked


def test_each_agent_names_the_label_that_decided_it() -> None:
    found = gold.compose(said(("import", [0]), ("human", [1], [1, 2]), ("human", [1], [1]), ("adjudication", [], [2])))
    assert found.decided_by == {0: 1, 1: 3, 2: 4, 3: 1}


def test_an_llm_label_counts_where_the_caller_says_so_and_ranks_last() -> None:
    statements = said(("llm", [0, 3]), ("human", [1], [0, 1]))
    found = gold.compose(statements, include_llm=True)
    assert (found.required, found.asked) == ({1, 3}, {0, 1, 2, 3})


def test_an_llm_fallback_never_counts() -> None:
    statements = [Said(1, "llm", [0], ALL, provenance={"fallback": "keyword"})]
    assert gold.compose(statements, include_llm=True).asked == frozenset()


@pytest.mark.parametrize(
    ("required", "asked", "expected"),
    [
        ([2], ALL, {0: False, 1: True, 3: False}),  # the merged agent's "needed" moves to its successor
        ([1], ALL, {0: False, 1: True, 3: False}),
        ([], ALL, {0: False, 1: False, 3: False}),
        ([], [2], {}),  # a merged agent's "not needed" says nothing of its successor
        ([2], [2], {1: True}),
        ([], [1], {1: False}),
    ],
)
def test_merged_agents_resolve(required: list[int], asked: list[int], expected: dict[int, bool]) -> None:
    assert voices.answers([Said(1, "human", required, asked)], {2: Merge(1)}) == expected


@pytest.mark.parametrize("asked", [ALL, [0, 1], [0, 3]])
@pytest.mark.parametrize("merged", [{}, {2: Merge(1)}])
@pytest.mark.parametrize("provenance", [{}, {"fallback": True}])
def test_the_two_sets_of_a_voice_are_its_answers(asked: list[int], merged: voices.Merges, provenance: dict) -> None:
    said = [Said(1, "llm", [0, 2], asked, True, provenance)]
    needed = voices.answers(said, merged)
    assert voices.answer(said, merged) == (frozenset(one for one in needed if needed[one]), frozenset(needed))


def test_a_chain_of_merges_is_followed_to_its_end(pool: Pool) -> None:
    by_number = {agent.number: agent for agent in pool.agents.all()}
    Agent.objects.filter(pk=by_number[0].pk).update(state="retired", merged_into=by_number[1])
    Agent.objects.filter(pk=by_number[1].pk).update(state="retired", merged_into=by_number[2])
    steps = voices.merges([pool.pk])[pool.pk]
    assert {agent: step.into for agent, step in steps.items()} == {0: 1, 1: 2}
    assert [voices.end_of(agent, steps) for agent in range(4)] == [2, 2, 2, 3]


def test_stored_gold_follows_the_labels(query: Query, person: Callable[..., User]) -> None:
    first = labels.record(labels.NewLabel(query.pk, source="import", required=[0, 1], asked=ALL))
    stored = Gold.objects.get(query=query)
    assert (stored.required, stored.asked) == ([0, 1], ALL)
    assert stored.decided_by == {str(agent): first.pk for agent in ALL}
    assert sorted(GoldAgent.objects.values_list("agent__number", flat=True)) == [0, 1]

    labels.record(labels.NewLabel(query.pk, source="human", author=person("ana"), required=[3], asked=ALL))
    assert Gold.objects.get(query=query).required == [3]
    assert list(GoldAgent.objects.values_list("agent__number", flat=True)) == [3]


def test_gold_goes_when_its_last_label_goes(query: Query) -> None:
    label = labels.record(labels.NewLabel(query.pk, source="import", required=[0], asked=ALL))
    labels.withdraw(label, None)
    query.refresh_from_db()
    assert query.state == "unlabeled"
    assert not Gold.objects.exists()
    assert not GoldAgent.objects.exists()


def test_a_draft_stays_a_draft_until_there_is_a_label(query: Query, person: Callable[..., User]) -> None:
    Draft.objects.create(query=query, person=person("ana"))
    gold.recompose([query.pk])
    query.refresh_from_db()
    assert query.state == "draft"
    labels.record(labels.NewLabel(query.pk, source="llm", required=[0], asked=ALL))
    query.refresh_from_db()
    assert query.state == "labeled"


def test_recomposing_after_a_merge(pool: Pool, query: Query) -> None:
    labels.record(labels.NewLabel(query.pk, source="import", required=[2], asked=ALL))
    into = pool.agents.get(number=1)
    pool.agents.filter(number=2).update(state="retired", merged_into=into)
    assert gold.recompose_pool(pool) == 1
    assert Gold.objects.get(query=query).required == [1]
    assert gold.recompose_pool(pool) == 0


def test_the_number_of_database_queries_does_not_grow(
    add_query: Callable[..., Query], django_assert_num_queries: Any
) -> None:
    keys = [add_query(f"query number {n}").pk for n in range(30)]
    labels.record_many([labels.NewLabel(key, "import", [key % 4], ALL) for key in keys])
    Gold.objects.all().delete()
    # savepoint in and out, lock, labels, merges, agents, stored gold, gold, its agents, states
    with django_assert_num_queries(10):
        assert gold.recompose(keys) == 30
    assert Label.objects.count() == 30


def test_merging_agents_and_taking_it_back_composes_gold_anew(pool: Pool, query: Query) -> None:
    labels.record(labels.NewLabel(query.pk, source="import", required=[2], asked=ALL))
    technical, account = pool.agents.get(number=2), pool.agents.get(number=1)
    pools.merge(technical, account, None)
    assert Gold.objects.get(query=query).required == [1]
    pools.restore(technical, actor=None)
    assert Gold.objects.get(query=query).required == [2]


def test_a_large_pool_is_composed_anew_by_a_worker(pool: Pool, query: Query, monkeypatch: pytest.MonkeyPatch) -> None:
    labels.record(labels.NewLabel(query.pk, source="import", required=[2], asked=ALL))
    monkeypatch.setattr(tasks, "AT_ONCE", 0)
    pools.merge(pool.agents.get(number=2), pool.agents.get(number=1), None)
    job = BackgroundJob.objects.get(work="recompose_pool")
    assert Gold.objects.get(query=query).required == [2]
    assert work.execute(str(job.pk)) == "done"
    job.refresh_from_db()
    assert (job.result, job.progress) == ("1", {"last": query.pk, "changed": 1})
    assert Gold.objects.get(query=query).required == [1]
