"""One's own labels as a list, and a label put right where an error is seen."""

import re
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from agents_app.models import Pool
from datasets_app.figures import own
from datasets_app.labeling import corrections, one_query, queue
from datasets_app.labels import labels
from datasets_app.models import Label, Query
from tests import page_cost

ALL = [0, 1, 2, 3]


@pytest.fixture
def ana(client: Client, person: Callable[..., User]) -> User:
    user = person("ana")
    client.force_login(user)
    return user


def say(query: Query, who: User, required: list[int]) -> None:
    labels.record(labels.NewLabel(query.pk, source="human", author=who, required=required, asked=ALL))


def test_my_labels_are_mine_and_are_found_by_words(
    client: Client, pool: Pool, ana: User, person: Callable[..., User], add_query: Callable[..., Query]
) -> None:
    ben = person("ben")
    first, second, theirs = (add_query(text) for text in ("refund my order", "parcel is late", "only ben saw this"))
    say(first, ana, [0])
    say(second, ana, [3])
    say(theirs, ben, [1])
    page = client.get(reverse("my_labels", args=["support"])).text
    assert "refund my order" in page
    assert "parcel is late" in page
    assert "only ben saw this" not in page
    assert "nobody has answered the same queries yet" in page
    found = client.get(reverse("my_labels", args=["support"]), {"q": "late parcel"}).text
    assert "parcel is late" in found
    assert "refund my order" not in found
    assert reverse("label_item", args=["support", second.pk]) in found


def test_agreement_is_with_others_and_names_nobody(
    client: Client, pool: Pool, ana: User, person: Callable[..., User], add_query: Callable[..., Query]
) -> None:
    ben = person("ben")
    for n, theirs in enumerate(([0], [0, 1])):
        query = add_query(f"shared {n}")
        say(query, ana, [0])
        say(query, ben, theirs)
    pace = own.pace(pool, ana)
    assert (pace.agreement, pace.shared) == (0.75, 2)
    page = client.get(reverse("my_labels", args=["support"])).text
    assert "agreement with others, over 2 queries" in page
    assert "ben" not in page


def pressed(page: str) -> list[str]:
    """The agents whose chips are pressed."""
    return re.findall(r'name="toggle" value="(\d+)" aria-pressed="true"', page)


def clicked(client: Client, query: Query, **sent: object) -> str:
    """What stands in the place of the chips after a click."""
    body = {"text": query.text, "at": "run", **sent}
    return client.post(reverse("correct", args=["support"]), body, headers={"HX-Request": "true"}).text


def test_a_click_on_a_chip_is_a_label_of_who_clicks(client: Client, pool: Pool, ana: User, query: Query) -> None:
    asked = {"text": query.text, "set": "2", "at": "run"}
    form = client.get(reverse("correct", args=["support"]), asked, headers={"HX-Request": "true"}).text
    assert "<html" not in form
    assert pressed(form) == ["2"]
    done = clicked(client, query, set="2", toggle="0")
    assert "Saved: gold now." in done
    assert pressed(done) == ["0", "2"]
    label = Label.objects.get(query=query, author=ana)
    assert (label.required, label.source) == ([0, 2], "human")
    assert label.provenance["seen_at"] == "run"
    query.refresh_from_db()
    assert query.state == "gold"
    again = clicked(client, query, set="0,2", toggle="2")
    assert pressed(again) == ["0"]
    back = clicked(client, query, set="0", before="0,2", undo=Label.objects.latest("pk").pk)
    assert pressed(back) == ["0", "2"]
    assert Label.objects.current().get(query=query).required == [0, 2]


def test_who_has_corrected_a_query_is_not_asked_about_it(client: Client, pool: Pool, ana: User, query: Query) -> None:
    queue.fill(pool)
    assert queue.still_open(pool) == 1
    clicked(client, query, set="2", toggle="0")
    first = Label.objects.latest("pk")
    clicked(client, query, set="0,2", toggle="2")
    assert queue.still_open(pool) == 0
    clicked(client, query, set="0", before="0,2", undo=first.pk)
    assert queue.still_open(pool) == 0, "the second answer stands"
    clicked(client, query, set="0", before="0,2", undo=Label.objects.latest("pk").pk)
    assert queue.still_open(pool) == 1


def test_a_reviewers_click_decides(client: Client, pool: Pool, ana: User, query: Query, person: Callable) -> None:
    say(query, person("ben"), [1])
    say(query, ana, [0])
    ana.groups.add(Group.objects.get_or_create(name="reviewer")[0])
    done = clicked(client, query, set="0", right="0")
    assert "Saved: gold now." in done
    decided = Label.objects.latest("pk")
    assert (decided.source, decided.required) == ("adjudication", [0])
    clicked(client, query, set="0", before="0", undo=decided.pk)
    query.refresh_from_db()
    assert query.state == "disagreement"


def test_nobody_takes_back_what_another_one_clicked(
    client: Client, pool: Pool, ana: User, query: Query, person: Callable
) -> None:
    theirs = corrections.correct(pool, query.text, [1], person("ben"), seen_at="run")
    assert "This label was taken back already." in clicked(client, query, set="1", undo=theirs.pk)
    theirs.refresh_from_db()
    assert theirs.superseded_at is None


def test_a_text_that_the_pool_has_not_seen_becomes_a_query(client: Client, pool: Pool, ana: User) -> None:
    client.post(reverse("correct", args=["support"]), {"text": "quite new", "at": "playground", "none": "1"})
    query = Query.objects.get()
    assert (query.text, query.origin, query.state) == ("quite new", "corrected: playground", "gold")
    assert query.gold.required == []


@pytest.mark.parametrize("sent", [{}, {"toggle": "77"}, {"undo": "77"}, {"text": "", "none": "1"}])
def test_what_is_no_answer_is_not_stored(client: Client, pool: Pool, ana: User, sent: dict) -> None:
    answer = client.post(reverse("correct", args=["support"]), {"text": "quite new", "at": "run", **sent})
    assert answer.status_code == 422
    assert not Label.objects.exists()


def submit(query: Query, who: User, required: list[int], unsure: bool = False, note: str = "") -> None:
    lease = queue.open_item(query, who, query.dataset.pool)
    choice = one_query.Choice(frozenset(required), not required, unsure, frozenset(ALL), note)
    one_query.submit(lease, choice, key=f"{who.pk}:{query.pk}", base=0, seconds=1)


def test_the_list_beside_the_task_has_ones_last_ten_submits(
    client: Client,
    pool: Pool,
    ana: User,
    person: Callable[..., User],
    add_query: Callable[..., Query],
    django_assert_num_queries: Callable[[int], AbstractContextManager[object]],
) -> None:
    queries = [add_query(f"mine {n}") for n in range(13)]
    submit(queries[0], person("ben"), [1])
    submit(queries[12], ana, [])
    Query.objects.filter(pk=queries[12].pk).update(deleted_at=timezone.now())
    for query in queries[1:11]:
        submit(query, ana, [0, 1], unsure=query is queries[10], note="a note" if query is queries[10] else "")
    submit(queries[11], ana, [])
    with django_assert_num_queries(page_cost.queries(7)):
        done = client.get(reverse("label_done", args=["support"])).json()["done"]
    assert [one["query"] for one in done] == [query.pk for query in queries[11:1:-1]]
    assert done[0]["choice"] == {"names": [], "none": True, "unsure": False, "note": ""}
    assert done[1]["choice"] == {"names": ["Billing", "Account"], "none": False, "unsure": True, "note": "a note"}
    assert client.get(reverse("reask_done", args=["support", 0])).json() == {"done": []}
