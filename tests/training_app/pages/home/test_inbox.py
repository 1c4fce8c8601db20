"""The first page after sign-in: what waits for each role in pools of each state, and that its button works for that role."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents_app import pools
from agents_app.access import Role
from agents_app.models import Pool
from datasets_app.labeling import queue
from datasets_app.labels import labels
from datasets_app.models import Dataset, Query, SplitGroup, group_hash, text_hash
from tests.clients import signed_in
from training_app.models import Run
from training_app.pages.home import first_steps, inbox
from training_app.training import runs
from training_app.versions import registry

pytestmark = pytest.mark.django_db
ROLES = ("labeler", "reviewer", "ops", "admin", "superuser")


def member(role: str) -> User:
    if role == "superuser":
        return User.objects.create_superuser("root")
    user = User.objects.create_user(role, is_staff=True)
    user.groups.add(Group.objects.get_or_create(name=role)[0])
    return user


def queries(pool: Pool, count: int) -> list[Query]:
    dataset, _made = Dataset.objects.get_or_create(pool=pool, name="Queries")
    made = []
    for n in range(count):
        text = f"query {n} of {pool.slug}"
        group = SplitGroup.objects.create(pool=pool, key=group_hash(text))
        made.append(Query.objects.create(dataset=dataset, text=text, text_hash=text_hash(text), group=group))
    return made


def empty(pool: Pool, _request: pytest.FixtureRequest) -> None:
    """Nothing is in it."""


def unlabeled(pool: Pool, _request: pytest.FixtureRequest) -> None:
    for name in ("Booking", "Refund"):
        pools.add_agent(pool, name)
    queries(pool, 15)


def labeled(pool: Pool, _request: pytest.FixtureRequest) -> None:
    unlabeled(pool, _request)
    for query in Query.objects.all():
        labels.record(labels.NewLabel(query.pk, source="import", required=[0], asked=[0, 1]))


def answering(pool: Pool, request: pytest.FixtureRequest) -> None:
    for name in ("Booking", "Refund"):
        pools.add_agent(pool, name)
    model = request.getfixturevalue("make_model")()
    model.pool = pool
    model.save()
    registry.promote(model, actor=None)


#: State → role → the button of the first line; "" where nothing waits.
EXPECTED = {
    empty: {"labeler": "", "reviewer": "", "ops": "Add agents", "admin": "Add agents", "superuser": "Add agents"},
    unlabeled: dict.fromkeys(ROLES, "Label"),
    labeled: {"labeler": "", "reviewer": "", "ops": "Train", "admin": "Train", "superuser": "Train"},
    answering: dict.fromkeys(ROLES, ""),
}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("state", EXPECTED, ids=lambda state: state.__name__)
def test_the_first_page_names_the_next_step_and_its_button_works(
    role: str, state: Callable, request: pytest.FixtureRequest
) -> None:
    pool = pools.create_pool("Travel", "travel", actor=None)
    state(pool, request)
    client = signed_in(member(role))
    answer = client.get("/")
    assert answer.status_code == 200
    html = answer.content.decode()
    assert "manage.py" not in html or role != "labeler", "a labeler never sees a command line"
    waiting = [line for line in answer.context["inbox"] if line.pool == pool]
    assert (waiting[0].action if waiting else "") == EXPECTED[state][role]
    for line in waiting:
        assert client.get(line.address).status_code == 200, line
        assert line.address in html


@pytest.mark.parametrize("role", ROLES)
def test_nobody_lands_in_an_empty_pool_while_another_is_full(role: str, request: pytest.FixtureRequest) -> None:
    pools.create_pool("Aardvark", "aardvark", actor=None)
    full = pools.create_pool("Zoo", "zoo", actor=None)
    unlabeled(full, request)
    client = signed_in(member(role))
    assert client.get("/").context["pool"] == full


def test_a_pools_address_opens_it() -> None:
    for name in ("Aardvark", "Zoo"):
        pools.create_pool(name, name.lower(), actor=None)
    client = signed_in(member("ops"))
    assert client.get("/p/zoo/").context["pool"].slug == "zoo"
    assert client.get("/").context["pool"].slug == "zoo", "it is where they were last"
    assert client.get("/p/nowhere/").status_code == 404
    stranger = signed_in(User.objects.create_user("stranger"))
    assert stranger.get("/p/zoo/").status_code == 403


def test_a_run_is_in_the_stage_that_its_page_names(run: Run) -> None:
    attempt = runs.claim(run.pk)
    assert attempt
    Run.objects.filter(pk=run.pk).update(phase="folds", step=1, total=4)
    (line,) = [line for line in inbox.lines([(run.pool, {Role.OPS})], User(pk=0)) if line.kind == "run"]
    assert line.sentence == f"Run {run.pk} trains now: Check 25 %"


def test_twelve_pools_cost_few_more_database_queries_than_one(request: pytest.FixtureRequest) -> None:
    """What waits is read of all pools at once; a pool whose item of work is named costs nothing more."""
    browser = signed_in(member("superuser"))

    def cost() -> int:
        browser.get("/")
        with CaptureQueriesContext(connection) as seen:
            assert browser.get("/").status_code == 200
        return len(seen)

    def add(number: int) -> Pool:
        pool = pools.create_pool(f"Pool {number}", f"pool-{number}", actor=None)
        for name in ("Booking", "Refund"):
            pools.add_agent(pool, name)
        queries(pool, 3 + number)
        queue.fill(pool)
        return pool

    first = add(0)
    one = cost()
    added = [add(number) for number in range(1, 12)]
    assert cost() <= one + 1
    page = browser.get("/").content.decode()
    assert [f"{number} queries to label" in page for number in (3, 4, 14, 15)] == [True, True, True, False]
    Query.objects.filter(dataset__pool=added[-1]).update(state=Query.State.DISAGREEMENT)
    lines = inbox.lines([(pool, set(Role)) for pool in (first, *added)], User.objects.get(username="root"))
    disputed = [(line.pool, line.sentence) for line in lines if line.kind == "dispute"]
    assert disputed == [(added[-1], "14 queries about which people disagree")]


@pytest.mark.parametrize(
    ("roles", "there", "sentence"),
    [
        (set(Role), 80, "80 queries to label: 50 more labels are enough to begin, about 7 minutes"),
        ({Role.LABELER}, 80, "80 queries to label: 50 more labels are enough to begin, about 7 minutes"),
        ({Role.LABELER}, 50, "50 queries to label, about 7 minutes"),
        ({Role.LABELER}, 40, "40 queries to label, about 5 minutes"),
    ],
)
def test_what_is_left_to_label_names_the_goal_of_the_set_up_path(
    pool: Pool, roles: set[Role], there: int, sentence: str
) -> None:
    for name in ("Booking", "Refund"):
        pools.add_agent(pool, name)
    queries(pool, there)
    queue.fill(pool)
    assert [line.sentence for line in inbox.lines([(pool, roles)], User(pk=0)) if line.kind == "label"] == [sentence]
    path = first_steps.path(pool, roles)
    assert path is not None
    assert path.steps[2].missing.startswith("50 more labels.")


@pytest.mark.parametrize(
    ("waiting", "goal", "time"), [(740, 0, "99 minutes"), (760, 0, "2 hours"), (2_000, 30, "4 minutes")]
)
def test_long_times_are_in_hours(waiting: int, goal: int, time: str) -> None:
    assert inbox._to_label(waiting, goal).endswith(f", about {time}")
