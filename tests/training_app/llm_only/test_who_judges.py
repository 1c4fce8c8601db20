"""Which labels train and which judge, as people label more and more of what an LLM labeled first; what a refused launch leaves."""

from collections.abc import Callable
from io import StringIO

import pytest
from django.core.management import call_command
from django.template.loader import render_to_string
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from agents_app.models import Pool
from datasets_app.labels import labels, snapshots
from datasets_app.models import Query, Snapshot, SplitGroup
from datasets_app.queries import splits
from training_app.models import LaunchRule
from training_app.training import previews, runs, sweeps
from training_app.versions import verdict

pytestmark = pytest.mark.django_db
Add = Callable[..., list[Query]]


def dump() -> str:
    """Everything that the database holds, but for whose browser was seen when."""
    out = StringIO()
    call_command("dumpdata", exclude=["sessions"], stdout=out)
    return out.getvalue()


def checked(queries: list[Query]) -> None:
    """A file says of them what the LLM says."""
    for query in queries:
        said = query.labels.get(source="llm")
        labels.record(labels.NewLabel(query.pk, source="import", required=said.required, asked=said.asked))


def test_what_only_an_llm_labeled_is_split_like_any_labels(pool: Pool, suggested: Add) -> None:
    suggested(100)
    assert splits.assign(pool) == {"train": 70, "val": 15, "test": 15}
    snapshot = snapshots.take(pool)
    assert snapshot.split_sizes == {"train": 70, "val": 15, "test": 15}
    assert snapshot.judges == {split: {"llm": count} for split, count in snapshot.split_sizes.items()}
    assert snapshot.judged_by == "llm"
    assert snapshots.verify(snapshot)
    assert all(example.judges for example in snapshots.examples(snapshot))


def test_what_stood_in_for_an_unreadable_answer_counts_nowhere(pool: Pool, suggested: Add) -> None:
    query = suggested(40)[0]
    query.labels.update(provenance={"fallback": "all-agents"})
    assert sum(splits.assign(pool).values()) == 39
    assert snapshots.take(pool).rows == 39


@pytest.mark.parametrize("enough", [False, True])
def test_people_judge_once_they_have_labeled_enough(pool: Pool, suggested: Add, enough: bool) -> None:
    train, val, test = suggested(60, "train"), suggested(40, "val"), suggested(40, "test")
    count = splits.ENOUGH_TO_JUDGE if enough else splits.ENOUGH_TO_JUDGE - 1
    checked([*train[:10], *val[:count], *test[:count]])
    snapshot = snapshots.take(pool, include_llm=True)
    if enough:
        assert snapshot.split_sizes == {"train": 60, "val": count, "test": count}
        assert snapshot.judged_by == "import"
    else:
        assert snapshot.split_sizes == {"train": 60, "val": 40, "test": 40}
        assert snapshot.judges["test"] == {"import": count, "llm": 40 - count}
        assert snapshot.judged_by == "llm"
    # Where people judge, an LLM's labels are learnt from and never counted, in cross-validation neither.
    assert sum(example.judges for example in snapshots.examples(snapshot)) == (10 + 2 * count if enough else 140)


def test_an_llm_counts_unasked_only_where_people_labeled_too_little(pool: Pool, suggested: Add) -> None:
    queries = suggested(80)
    assert splits.with_llm(pool, None)
    checked(queries[: splits.ENOUGH_TO_TRAIN - 1])
    assert splits.with_llm(pool, None)
    checked(queries[splits.ENOUGH_TO_TRAIN - 1 : splits.ENOUGH_TO_TRAIN])
    assert not splits.with_llm(pool, None)
    assert snapshots.take(pool).rows == splits.ENOUGH_TO_TRAIN
    assert snapshots.take(pool, include_llm=True).rows == 80


def test_the_same_answers_of_people_are_another_snapshot(pool: Pool, suggested: Add) -> None:
    queries = suggested(20)
    first = snapshots.take(pool)
    checked(queries)
    second = snapshots.take(pool)
    assert second.number == 2
    assert second.digest != first.digest
    assert (first.judged_by, second.judged_by) == ("llm", "import")


def test_the_preview_counts_what_the_launch_would_take(pool: Pool, suggested: Add) -> None:
    train, _val, test = suggested(60, "train"), suggested(40, "val"), suggested(40, "test")
    checked([*train[:50], *test[:35]])
    for include_llm in (False, True):
        facts = previews.of_gold(pool, include_llm)
        snapshot = snapshots.take(pool, include_llm=include_llm)
        taken = previews.of_snapshot(snapshot.pk, snapshot.digest)
        assert dict(+facts.sizes) == dict(+taken.sizes)  # type: ignore[operator]
        assert (facts.needed, facts.none, facts.asked) == (taken.needed, taken.none, taken.asked)


def launch_by_page(pool: Pool, browser: Client, **fields: str) -> None:
    answer = browser.post(reverse("run_new", args=[pool.slug]), {"seed": "0", "preset": "full", **fields})
    assert answer.status_code == 422


def launch_by_call(pool: Pool, browser: Client) -> None:
    for include_llm in (None, True, False):
        with pytest.raises(runs.RunError):
            runs.launch(pool, include_llm=include_llm, promote=True)


def launch_a_sweep(pool: Pool, browser: Client) -> None:
    with pytest.raises(runs.RunError):
        sweeps.launch(pool, base={}, space=sweeps.read_space("gamma: 0.9, 1.0"))


@pytest.mark.parametrize("launch", [launch_by_page, launch_by_call, launch_a_sweep])
@pytest.mark.parametrize("count", [0, 3, 9])
def test_a_refused_launch_leaves_the_database_as_it_was(
    pool: Pool, suggested: Add, browser: Client, launch: Callable[[Pool, Client], None], count: int
) -> None:
    suggested(count)
    before = dump()
    launch(pool, browser)
    assert dump() == before
    assert not Snapshot.objects.exists()
    assert not SplitGroup.objects.exclude(split="").exists()


def test_gold_of_retired_agents_alone_is_refused_and_nothing_changes(pool: Pool, suggested: Add) -> None:
    checked(suggested(20))
    pool.agents.update(state="retired")
    before = dump()
    with pytest.raises(runs.RunError, match="no gold labels yet"):
        runs.launch(pool)
    assert dump() == before


def test_splits_that_change_meanwhile_are_read_again(
    pool: Pool, suggested: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    suggested(30)
    draft, overtaken = snapshots.draft, []

    def drafted(pool: Pool, *, include_llm: bool | None) -> snapshots.Draft:
        found = draft(pool, include_llm=include_llm)
        if not overtaken:
            overtaken.append(SplitGroup.objects.update(split="test"))
        return found

    monkeypatch.setattr(snapshots, "draft", drafted)
    assert snapshots.take(pool).split_sizes == {"train": 0, "val": 0, "test": 30}
    assert Snapshot.objects.count() == 1


def test_what_came_as_training_queries_is_divided_too(pool: Pool, suggested: Add) -> None:
    suggested(40, "train")
    with pytest.raises(runs.RunError, match="Validation has 0 labeled queries"):
        runs.launch(pool)
    assert splits.divide_training(pool) == {"train": 28, "val": 6, "test": 6}
    assert runs.launch(pool, queue=False).snapshot.judged_by == "llm"


def test_a_rule_launches_where_only_an_llm_has_labeled(pool: Pool, suggested: Add) -> None:
    suggested(60)
    rule = LaunchRule.objects.create(pool=pool, name="nightly", trigger="nightly")
    assert runs.launch(pool, rule=rule, include_llm=rule.include_llm or None, queue=False).snapshot.rows == 60


@pytest.mark.parametrize(("judge", "says"), [("Judged by an LLM's labels.", False), ("", True)])
def test_a_page_says_who_judged_of_too_few_answers_too(judge: str, says: bool) -> None:
    shown = verdict.Verdict(12, 0, None, judge=judge)
    page = render_to_string("training_app/_verdict.html", {"verdict": shown, "pool": Pool(slug="support")})
    assert ("people labeled" in page) == says
    assert (escape(judge) in page) if judge else ("LLM" not in page)
