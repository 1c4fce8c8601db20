"""An agent's key: its name in programs, unique in the pool, which stays when the agent is renamed."""

import json

import pytest

from agents_app import pools, rosters
from agents_app.checks import PoolError, free_key
from agents_app.models import Agent, Pool
from training_app.engine.data import examples as data

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def pool() -> Pool:
    return pools.create_pool("Support")


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Billing", "billing"),
        ("Billing & refunds", "billing-refunds"),
        ("Überweisung", "uberweisung"),
        ("Оплата", "agent-7"),
        ("24/7", "agent-7"),
        ("x" * 120, "x" * 55),
    ],
)
def test_a_key_reads_like_the_name(name: str, key: str) -> None:
    assert free_key(name, 7, ()) == key
    assert free_key(name, 7, [key]) == f"{key}-2"
    assert free_key(name, 7, [key, f"{key}-2"]) == f"{key}-3"


def test_it_stays_when_the_agent_is_renamed_and_nobody_else_gets_it(pool: Pool) -> None:
    agent = pools.add_agent(pool, "Billing")
    assert agent.key == "billing"
    assert pools.rename(agent, "Invoices", actor=None).key == "billing"
    assert pools.add_agent(pool, "Billing").key == "billing-2"
    assert pools.add_agent(pools.create_pool("Other"), "Billing").key == "billing"


def test_a_file_brings_keys_and_takes_them_along(pool: Pool) -> None:
    pools.load_agents(pool, [data.Agent(0, "Billing", key="money"), data.Agent(1, "Shipping")])
    assert list(pool.agents.values_list("number", "key")) == [(0, "money"), (1, "shipping")]
    assert [json.loads(line)["key"] for line in rosters.json_lines(pool)] == ["money", "shipping"]
    # The same file once more, and one that knows of no keys.
    assert pools.load_agents(pool, pools.roster(pool)).unchanged == 2
    assert pools.load_agents(pool, [data.Agent(0, "Billing")]).unchanged == 1


@pytest.mark.parametrize(
    "agents",
    [
        [data.Agent(0, "Billing", key="bills")],  # it has another
        [data.Agent(5, "Legal", key="money")],  # somebody else's
        [data.Agent(5, "Legal", key="Legal")],
        [data.Agent(5, "Legal", key="5")],
    ],
)
def test_a_key_that_cannot_be_is_refused_whole(pool: Pool, agents: list[data.Agent]) -> None:
    pools.load_agents(pool, [data.Agent(0, "Billing", key="money")])
    with pytest.raises(PoolError) as refused:
        pools.load_agents(pool, [*agents, data.Agent(9, "Other")])
    assert refused.value.field == "key"
    assert Agent.objects.filter(pool=pool).count() == 1


@pytest.mark.parametrize("key", ["", "A", "a b", "7", "-a", 7, "a" * 61, "ä", "a\n"])
def test_a_line_with_a_bad_key_is_named(key: object) -> None:
    with pytest.raises(PoolError, match="line 1, key"):
        rosters.parse(json.dumps({"id": 0, "name": "Billing", "key": key}))


def test_two_lines_of_a_file_do_not_share_a_key() -> None:
    lines = [json.dumps({"id": n, "name": f"Agent {n}", "key": "same"}) for n in range(2)]
    with pytest.raises(PoolError, match="line 2, key: same stands on line 1 already"):
        rosters.parse("\n".join(lines))
