"""The set-up path of a new pool: true counts, what is missing, one button each, and gone once a router answers applications."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from agents_app import keys, pools
from agents_app.access import Role
from agents_app.models import Pool
from datasets_app.figures import progress
from datasets_app.labeling import queue
from datasets_app.labels import labels, snapshots
from datasets_app.models import Dataset, Query, SplitGroup, group_hash, text_hash
from datasets_app.traces import storing, traffic
from datasets_app.traces.spans import AGENT
from datasets_app.traces.turns import Turn
from tests.clients import signed_in
from training_app.models import Run
from training_app.pages.home import first_steps, inbox
from training_app.versions import registry

EVERYTHING = frozenset(Role)


@pytest.fixture
def bare(db: None) -> Pool:
    return pools.create_pool("Travel", "travel", actor=None)


def add(pool: Pool, count: int, *, required: Any = None, source: str = "import") -> list[Query]:
    """So many new queries; labeled where `required` is given."""
    dataset, _made = Dataset.objects.get_or_create(pool=pool, name="Queries")
    made = []
    start = Query.objects.filter(dataset=dataset).count()
    for number in range(start, start + count):
        text = f"query {number}"
        group = SplitGroup.objects.create(pool=pool, key=group_hash(text))
        query = Query.objects.create(dataset=dataset, text=text, text_hash=text_hash(text), group=group)
        if required is not None:
            labels.record(
                labels.NewLabel(query.pk, source=source, required=required, asked=[a.number for a in pool.agents.all()])
            )
        made.append(query)
    return made


def step(pool: Pool, name: str) -> first_steps.Step:
    path = first_steps.path(pool, EVERYTHING)
    assert path is not None
    return next(one for one in path.steps if one.name == name)


def test_a_bare_pool_begins_with_its_agents(bare: Pool) -> None:
    path = first_steps.path(bare, EVERYTHING)
    assert path is not None
    assert path.current is not None
    assert path.current.name == "agents"
    assert [one.done for one in path.steps] == [False] * 6
    assert path.current.count == "0 agents"
    assert step(bare, "train").action == "", "there is nothing to train on"


def test_a_second_way_is_only_for_those_who_may_go_it(bare: Pool) -> None:
    for name in ("Trains", "Hotels"):
        pools.add_agent(bare, name=name, actor=None)
    ways = {}
    for role in (Role.LABELER, Role.REVIEWER):
        path = first_steps.path(bare, {Role.LABELER, role})
        assert path is not None
        ways[role] = next(one.also for one in path.steps if one.name == "label")
    assert ways == {Role.LABELER: "", Role.REVIEWER: "Have queries written"}


def test_traffic_gives_the_agents_and_what_to_label(bare: Pool) -> None:
    turns = [
        Turn(f"trace-{n}", 1_772_359_200.0 + n, [["user", f"question {n}"]], names=[[AGENT, "Billing"]])
        for n in range(60)
    ]
    storing.store(bare, turns)
    agents = step(bare, "agents")
    assert (agents.action, agents.address, agents.also) == ("Add them", "/p/travel/traffic/", "Add others")
    (waits,) = inbox.lines([(bare, {Role.OPS})], User(pk=0))
    assert (waits.action, waits.address) == ("Add agents", "/p/travel/traffic/")
    for name in ("Billing", "Refunds"):
        pools.add_agent(bare, name)
    agents = step(bare, "agents")
    assert (agents.count, agents.done) == ("2 agents, 2 without a description", True)
    assert (agents.action, agents.address, agents.also) == ("Describe them", "/p/travel/agents/", "Add others")
    bare.agents.update(description="What it does")
    agents = step(bare, "agents")
    assert (agents.count, agents.action, agents.missing) == ("2 agents", "Add agents", "")
    label = step(bare, "label")
    assert (label.action, label.address, label.count) == ("Choose queries", "/p/travel/traffic/", "0 of 50")
    path = first_steps.path(bare, {Role.LABELER})
    assert path is not None
    assert path.steps[2].address == "/p/travel/label/"
    traffic.queue_sample(bare, 20)
    assert step(bare, "label").action == "Label"


def test_what_is_missing_is_counted(bare: Pool) -> None:
    for name in ("Booking", "Change", "Refund"):
        pools.add_agent(bare, name)
    add(bare, 20)
    add(bare, 13, required=[0])
    assert step(bare, "agents").done
    assert step(bare, "queries").done
    label = step(bare, "label")
    assert label.count == "13 of 50"
    assert label.missing == "37 more labels. That takes 17 more queries than the pool has."
    assert label.also == "Train with what is there"
    path = first_steps.path(bare, EVERYTHING)
    assert path is not None
    assert [(agent.name, count) for agent, count in path.agents] == [("Booking", 13), ("Change", 0), ("Refund", 0)]


def test_an_llms_labels_are_named_apart(bare: Pool) -> None:
    pools.add_agent(bare, "Booking")
    add(bare, 3, required=[0], source="llm")
    add(bare, 2)
    label = step(bare, "label")
    assert label.count == "0 of 50, and 3 by an LLM"
    assert (label.also, label.also_at) == ("Have an LLM label", "/p/travel/settings/prelabel/")
    assert progress.labeled(bare) == progress.Labeled(5, 0, 3, 3)
    assert progress.labeled(bare).bare == 2


def test_the_number_of_an_llms_labels_stands_beside_its_state(bare: Pool, browser: Client) -> None:
    pools.add_agent(bare, "Booking")
    add(bare, 3, required=[0], source="llm")
    page = " ".join(browser.get("/").text.split())
    assert re.search(r'Labeled</span> <span class="rw-hint">3 by an LLM</span></dt><dd>3</dd>', page)


def test_an_llms_labels_lead_on_where_nobody_else_labels(bare: Pool) -> None:
    for name in ("Booking", "Change"):
        pools.add_agent(bare, name)
    add(bare, 50, required=[0], source="llm")
    label = step(bare, "label")
    assert label.done
    assert label.count == "0 of 50, and 50 by an LLM"
    assert "An LLM's labels judge" in label.missing
    path = first_steps.path(bare, EVERYTHING)
    assert path is not None
    assert path.current is not None
    assert (path.current.name, path.current.action) == ("train", "Train")


@pytest.mark.at_length
def test_what_is_there_is_counted_as_every_page_counts(bare: Pool) -> None:
    for name in ("Flights", "Hotels"):
        pools.add_agent(bare, name)
    add(bare, 1_001, required=[0])
    assert [step(bare, name).count for name in ("queries", "label")] == ["1,001 queries", "1,001 labels"]


@pytest.mark.parametrize("kind", ["set_router", "orchestrator"])
def test_a_run_that_waits_is_the_next_thing_to_watch(bare: Pool, kind: str) -> None:
    pools.add_agent(bare, "Booking")
    add(bare, 1, required=[0])
    run = Run.objects.create(pool=bare, snapshot=snapshots.take(bare), kind=kind, config={}, seed=0)
    training = step(bare, "train")
    assert (training.action, training.missing) == ("Watch the run", "It waits for a worker.")
    assert training.address == f"/p/travel/runs/{run.pk}/"
    assert training.also == ("" if kind == "set_router" else "Train"), "a router can be trained beside it"


def test_more_agents_want_more_labels() -> None:
    assert [first_steps.target(agents) for agents in (2, 5, 12, 40)] == [50, 50, 120, 400]


def test_it_goes_once_a_router_answers_and_a_key_may_ask(make_model: Any) -> None:
    model = make_model()
    pool = model.pool
    promote = step(pool, "promote")
    assert not promote.done
    assert promote.address.endswith(f"/models/{model.version}/")
    registry.promote(model, actor=None)
    path = first_steps.path(pool, EVERYTHING)
    assert path is not None
    assert step(pool, "promote").done
    assert step(pool, "train").done
    keys.create_key("Shop", [pool], ["ops"])
    assert first_steps.path(pool, EVERYTHING) is not None, "a key that may not route is not the application's"
    keys.create_key("Shop", [pool], ["route"])
    assert first_steps.path(pool, EVERYTHING) is None


def test_buttons_are_those_that_the_role_opens(bare: Pool) -> None:
    pools.add_agent(bare, "Booking")
    add(bare, 20)
    path = first_steps.path(bare, {Role.REVIEWER, Role.LABELER})
    assert path is not None
    assert {one.name for one in path.steps if one.action} == {"queries", "label"}


def test_left_is_yours_and_others(bare: Pool) -> None:
    pools.add_agent(bare, "Booking")
    add(bare, 5)
    ana, ben = (User.objects.create_user(name) for name in ("ana", "ben"))
    assert progress.left(bare, ana) == progress.Left(5, 0), "what has just come in is counted at once"
    queue.take(bare, ana)
    lease = queue.take(bare, ben)[0]
    assert progress.left(bare, ana) == progress.Left(4, 1)
    queue.skip(lease, "cannot tell")
    assert progress.left(bare, ana) == progress.Left(5, 0)
    assert progress.left(bare, ben) == progress.Left(3, 2)
    assert progress.left(bare).total == 5


def test_home_draws_it(bare: Pool) -> None:
    person = User.objects.create_user("admin")
    person.groups.add(Group.objects.get(name="admin"))
    browser = signed_in(person)
    page = browser.get("/").text
    assert "From here to a router that answers" in page
    assert "Add agents" in page
    assert "Half are quicker than" not in page, "no figures of a traffic that there is not"
