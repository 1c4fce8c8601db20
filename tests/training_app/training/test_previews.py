"""The preview of a launch: what it counts and warns about, that it costs a fixed number of queries, and near-duplicates."""

import dataclasses
from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from agents_app import allowed_sets, pools
from agents_app.models import Pool
from datasets_app.figures import counting, progress
from datasets_app.labels import erased_queries, labels, snapshots
from datasets_app.models import Dataset, Gold, Query, Snapshot, SplitGroup, group_hash, text_hash
from tests.clients import signed_in
from tests.training_app.labeled import label
from training_app.engine.routing.allowed import Rules
from training_app.pages.home import home_views
from training_app.training import near_duplicates as near
from training_app.training import previews

HTMX = {"HX-Request": "true"}
PREVIEW_QUERIES = 3


@pytest.fixture(autouse=True)
def forget() -> None:
    previews.of_snapshot.cache_clear()
    near._of_gold.cache_clear()
    near._of_snapshot.cache_clear()


def add(
    pool: Pool, text: str, required: list[int], split: str, source: str = "import", asked: list[int] | None = None
) -> Query:
    dataset = Dataset.objects.get_or_create(pool=pool, name="More")[0]
    group = SplitGroup.objects.create(pool=pool, key=group_hash(text), split=split)
    query = Query.objects.create(dataset=dataset, text=text, text_hash=text_hash(text), group=group)
    said = labels.NewLabel(
        query_id=query.pk, source=source, required=required, asked=[0, 1, 2] if asked is None else asked
    )
    labels.record_many([said])
    return query


def texts(found: previews.Preview) -> str:
    return " | ".join(warning.text for warning in found.warnings)


# ---------------------------------------------------------------------------------------------------- counts


def test_gold_and_its_snapshot_count_alike(labeled: Pool) -> None:
    live, taken = previews.preview(labeled), previews.preview(labeled, snapshots.take(labeled))
    assert live == taken
    assert live.counted_at is None
    assert (live.queries, live.agents) == (72, 3)
    assert live.splits == (("Train", 45), ("Validation", 9), ("Test", 18))
    assert live.warnings == ()


def test_labels_that_need_sets_which_are_not_allowed_are_counted(labeled: Pool) -> None:
    add(labeled, "an invoice for a lost parcel", [0, 1], "train")
    taken = snapshots.take(labeled)
    assert "allowed" not in texts(previews.preview(labeled))
    allowed_sets.set_rules(labeled, Rules(excludes=((0, 1),)), actor=None)
    both = [
        required for required in Gold.objects.of(labeled).values_list("required", flat=True) if {0, 1} <= {*required}
    ]
    for found in (previews.preview(labeled), previews.preview(labeled, taken)):
        (warning,) = (one for one in found.warnings if "allowed" in one.text)
        assert warning.text.startswith(f"{len(both)} labeled ")
        assert warning.address == reverse("settings_allowed_sets", args=["support"])


@pytest.mark.parametrize("include_llm", [None, False, True])
def test_a_large_pool_is_shown_as_it_was_counted_last(
    labeled: Pool, monkeypatch: pytest.MonkeyPatch, include_llm: bool | None, django_assert_num_queries: Callable
) -> None:
    monkeypatch.setattr(progress, "LARGE", 10)
    add(labeled, "the machine thinks so", [0], "train", source="llm")
    live = previews.preview(labeled, include_llm=include_llm)
    assert live.queries == (73 if include_llm else 72)
    counting.count(labeled)
    add(labeled, "one more question", [0], "train")
    pool = Pool.objects.get(pk=labeled.pk)
    with django_assert_num_queries(2):
        stored = previews.preview(pool, include_llm=include_llm)
    assert stored.counted_at == progress.counted_at(pool)
    assert dataclasses.replace(stored, counted_at=None) == live


def test_it_costs_the_same_however_many_labels_there_are(labeled: Pool, django_assert_num_queries: Callable) -> None:
    with django_assert_num_queries(PREVIEW_QUERIES):  # one of them for stored figures, which are looked for once
        previews.preview(labeled)
    for number in range(30):
        add(labeled, f"another question of its own {number}", [number % 3], "train", asked=[0, 1, 2][: 1 + number % 3])
    with django_assert_num_queries(PREVIEW_QUERIES):
        previews.preview(labeled, include_llm=True)


# ---------------------------------------------------------------------------------------------------- warnings


def test_an_agent_with_few_queries_is_named_with_their_number(labeled: Pool) -> None:
    pools.add_agent(labeled, "Sales")
    found = previews.preview(labeled)
    assert "Fewer than 10 queries to train on for: Sales (0). Label 10 more" in texts(found)
    assert found.warnings[0].address == reverse("settings_queue", args=["support"])


def test_many_such_agents_are_counted_not_listed(labeled: Pool) -> None:
    for number in range(11):
        pools.add_agent(labeled, f"Agent {number}")
    assert "Agent 7 (0) and 3 more." in texts(previews.preview(labeled))


def test_an_empty_split_is_told(labeled: Pool) -> None:
    SplitGroup.objects.filter(split="test").update(split="train")
    assert "No labeled query in the test split" in texts(previews.preview(labeled))
    SplitGroup.objects.filter(split="val").update(split="train")
    found = previews.preview(labeled)
    assert "No labeled query in: Validation." in texts(found)
    assert found.warnings[0].address == reverse("queries", args=["support"]) + "?q=split%3Aval+-state%3Agold"


def test_what_came_all_as_training_queries_may_be_divided(pool: Pool) -> None:
    add(pool, "one", [0], "train")
    assert "dataset_split --pool support --divide-training" in texts(previews.preview(pool))
    add(pool, "two", [0], "val")
    assert "--divide-training" not in texts(previews.preview(pool))


def test_queries_without_a_split_are_told_instead(labeled: Pool) -> None:
    SplitGroup.objects.filter(split="val").update(split="")
    found = texts(previews.preview(labeled))
    assert "9 labeled queries have no split yet" in found
    assert "No labeled query in" not in found


def test_what_a_run_mends_by_itself_asks_for_no_attention(labeled: Pool) -> None:
    SplitGroup.objects.filter(split="val").update(split="")
    assert [one.address for one in previews.preview(labeled).warnings if "no split yet" in one.text] == [""]
    assert "no split yet" not in " | ".join(
        text for text, _address in home_views.attention(labeled, has_model=True, last_runs=[])
    )


def test_before_the_first_run_that_none_has_a_split_is_no_warning(labeled: Pool) -> None:
    SplitGroup.objects.update(split="")
    found = previews.preview(labeled)
    assert "Training divides" in found.note
    assert "no split yet" not in texts(found)
    SplitGroup.objects.filter(pk=SplitGroup.objects.first().pk).update(split="test")
    assert previews.preview(labeled).note == ""


def test_an_uneven_need_is_told(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    label(pool)
    for number in range(30):
        add(pool, f"a bill of a kind {number}", [0], "train")
    monkeypatch.setattr(previews, "IMBALANCE", 2.9)
    assert "Uneven: Billing is needed 45 times in training, Shipping 15 times." in texts(previews.preview(pool))
    monkeypatch.setattr(previews, "IMBALANCE", 3)
    assert "Uneven" not in texts(previews.preview(pool))


def test_no_query_of_none_is_told(labeled: Pool) -> None:
    Gold.objects.filter(required=[]).delete()
    assert "needs none of the agents" in texts(previews.preview(labeled))


def test_what_was_not_asked_is_told(labeled: Pool) -> None:
    pools.add_agent(labeled, "Sales")
    assert "25 % of the pairs of query and agent were never asked about" in texts(previews.preview(labeled))
    taken = previews.preview(labeled, snapshots.take(labeled))
    assert "25 % of the pairs of query and agent were never asked about" in texts(taken)


def test_what_an_llm_says_of_an_agent_counts_where_it_is_taken_in(labeled: Pool) -> None:
    new = pools.add_agent(labeled, "Sales").number
    for number in range(9):
        add(labeled, f"the machine sends it to sales {number}", [new], "train", source="llm", asked=[0, 1, 2, new])
    assert "Sales (0)" in texts(previews.preview(labeled))
    live = previews.of_gold(labeled, include_llm=True)
    assert live.needed[new] == 9
    taken = snapshots.take(labeled, include_llm=True)
    assert live == previews.of_snapshot(taken.pk, taken.digest)


def test_unreviewed_llm_labels_are_told_where_they_are_used(labeled: Pool) -> None:
    for number in range(5):
        add(labeled, f"the machine thinks so {number}", [1], "train", source="llm")
    add(labeled, "the machine thinks so of a test query", [1], "test", source="llm")
    assert "LLM" not in texts(previews.preview(labeled))
    said = "7 % of the queries (6) have an LLM's label that nobody reviewed. They judge the model too, until 30 test queries"
    live = previews.preview(labeled, include_llm=True)
    assert said in texts(live)
    assert live.splits == (("Train", 50), ("Validation", 9), ("Test", 19))
    assert said in texts(previews.preview(labeled, snapshots.take(labeled, include_llm=True)))


def test_promoting_without_baselines_is_told(labeled: Pool) -> None:
    assert "Without baselines" in texts(previews.preview(labeled, promote=True, baselines=False))
    assert "Without baselines" not in texts(previews.preview(labeled, promote=False, baselines=False))


# ---------------------------------------------------------------------------------------------------- near-duplicates


def test_texts_with_almost_the_same_words_are_near() -> None:
    training = ["please send my last invoice again today", "something else entirely", ""]
    found = near.find(["Please send me my last invoice again, today!", "my invoice", "", "nothing of it"], training)
    assert (found.count, found.checked, found.against) == (1, 4, 3)
    assert found.examples == (("Please send me my last invoice again, today!", training[0], 7 / 8),)


def test_the_prefix_filter_misses_none() -> None:
    """Against every pair, on texts of few words so that many are near."""
    words = "abcdefgh"
    some = [" ".join(words[i] for i in range(8) if mask >> i & 1) for mask in range(1, 256, 2)]
    other = [" ".join(words[i] for i in range(8) if mask >> i & 1) for mask in range(0, 256, 3)]

    def near_any(text: str) -> bool:
        mine = set(text.split())
        return any(len(mine & set(o.split())) >= near.NEAR * len(mine | set(o.split())) for o in other if o)

    assert near.find(some, other).count == sum(map(near_any, some)) > 20


def test_held_out_queries_near_training_ones_are_found_in_gold_and_snapshot(labeled: Pool) -> None:
    add(labeled, "where is the parcel that I sent to my aunt", [1], "train")
    add(labeled, "where is the parcel that I had sent to my aunt", [1], "test")
    live = near.across_splits(labeled)
    assert (live.count, live.held_out, live.training) == (1, 28, 46)
    assert live.examples[0][1] == "where is the parcel that I sent to my aunt"
    assert near.across_splits(labeled, snapshots.take(labeled)) == live


def test_what_was_found_is_kept_until_gold_changes(labeled: Pool, django_assert_num_queries: Callable) -> None:
    near.across_splits(labeled)
    with django_assert_num_queries(1):
        assert near.across_splits(labeled).count == 0
    add(labeled, "about my invoice, number 0", [0], "test")
    assert near.across_splits(labeled).count == 0  # the same words: it is in the group of a training query
    add(labeled, "about my own invoice number 1 1", [0], "test")
    assert near.across_splits(labeled).count == 1


def test_an_erased_text_is_shown_no_longer(labeled: Pool, ops: User) -> None:
    add(labeled, "where is the parcel that I sent to my aunt", [1], "train")
    held = add(labeled, "where is the parcel that I had sent to my aunt", [1], "test")
    snapshot = snapshots.take(labeled)
    assert near.across_splits(labeled, snapshot).count == 1
    erased_queries.erase(held, ops)
    assert near.across_splits(labeled, snapshot).count == 0


# ---------------------------------------------------------------------------------------------------- on the page


def test_the_form_shows_each_warning_with_the_page_that_mends_it(labeled: Pool, browser: Client) -> None:
    SplitGroup.objects.filter(split="test").update(split="train")
    page = browser.get(reverse("run_new", args=["support"])).content.decode()
    assert "which flatter." in page
    assert 'href="/p/support/queries/?q=split%3Atest+-state%3Agold"' in page
    assert 'hx-get="/p/support/runs/near/"' in page


def test_the_preview_follows_the_settings_and_says_what_is_wrong(snapshot: Snapshot, browser: Client) -> None:
    from training_app.pages.training.launch_form import LaunchForm
    from training_app.versions import kinds

    path, initial = reverse("run_new", args=["support"]), {}
    form = LaunchForm(kinds.of("set_router"), snapshot.pool)
    for name, field in form.fields.items():
        value = form.get_initial_for_field(field, name)
        if value is not None and value is not False:
            initial[name] = "on" if value is True else value
    page = browser.get(path, {**initial, "snapshot": snapshot.pk}, headers=HTMX).content.decode()
    assert "rw-note-error" not in page
    assert f"/runs/near/?snapshot={snapshot.pk}" in page
    page = browser.get(path, {**initial, "folds": "1", "promote": "on"}, headers=HTMX).content.decode()
    assert "Folds: 1 fold leaves nothing to fit on" in page
    assert "Without baselines" not in page
    del initial["baselines"]
    assert "Without baselines" in browser.get(path, {**initial, "promote": "on"}, headers=HTMX).content.decode()


def test_near_duplicates_are_a_part_or_a_page(labeled: Pool, browser: Client, person: Callable[..., User]) -> None:
    add(labeled, 'where "is" the <b>parcel</b> that I sent to my aunt', [1], "train")
    add(labeled, 'where "is" the <b>parcel</b> that I had sent to my aunt', [1], "test")
    path = reverse("run_near", args=["support"])
    part = browser.get(path, headers=HTMX).content.decode()
    assert "<html" not in part
    assert "1 of 28 validation and test queries that were looked at says almost the same" in part
    assert "&lt;b&gt;parcel" in part
    assert "<html" in browser.get(path).content.decode()
    labeler = signed_in(person("labeler"))
    assert labeler.get(path).status_code == 403
    assert browser.post(path).status_code == 405
