"""Pools and agents: ids keep their meaning, every change reaches the stamp and the trail."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User

from agents_app import checks, pools
from agents_app.models import Agent, AuditEntry, Pool, Stamp
from agents_app.pools import PoolError
from training_app.engine.data import examples as data

pytestmark = pytest.mark.django_db


def test_an_agent_gets_the_next_id_and_a_free_code(pool: Pool) -> None:
    found = [(a.number, a.code, a.name) for a in pool.agents.all()]
    assert found == [(0, "BI", "Billing"), (1, "AC", "Account"), (2, "SH", "Shipping")]
    assert pools.add_agent(pool, "  Bill   payments ").code == "BP"
    assert pools.add_agent(pool, "Bikes").code == "BK"


@pytest.mark.parametrize(
    ("name", "taken", "code"),
    [
        ("Billing", (), "BI"),
        ("Billing", ("BI",), "BL"),
        ("Order Tracking", (), "OT"),
        ("AI agent", (), "AI"),
        ("Биллинг", (), "AA"),
        ("x", (), "X1"),
    ],
)
def test_a_code_reads_like_the_name(name: str, taken: tuple[str, ...], code: str) -> None:
    assert checks.free_code(name, taken) == code


def test_when_every_code_is_taken_it_says_so() -> None:
    every = [a + b for a in checks.CODE_LETTERS for b in checks.CODE_LETTERS]
    assert checks.free_code("Billing", every[:-1]) == every[-1]
    with pytest.raises(PoolError, match="Every two-letter code"):
        checks.free_code("Billing", every)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": " "}, "name"),
        ({"name": "billing"}, "name"),
        ({"name": "n" * 121}, "name"),
        ({"name": "New", "code": "BI"}, "code"),
        ({"name": "New", "code": "B-"}, "code"),
        ({"name": "New", "cost": -1.0}, "cost"),
        ({"name": "New", "cost": float("nan")}, "cost"),
    ],
)
def test_a_bad_agent_is_refused_with_its_field(pool: Pool, values: dict[str, object], field: str) -> None:
    before = Stamp.current()
    with pytest.raises(PoolError) as refused:
        pools.add_agent(pool, **values)  # type: ignore[arg-type]
    assert refused.value.field == field
    assert pool.agents.count() == 3
    assert Stamp.current() == before


@pytest.mark.parametrize("bad", ["a\0b", "a\ud800b"])
@pytest.mark.parametrize("field", ["name", "description", "keywords", "code"])
def test_what_cannot_be_stored_of_an_agent_is_refused_with_its_field(pool: Pool, field: str, bad: str) -> None:
    value = [bad] if field == "keywords" else bad
    agent = pool.agents.get(number=0)
    with pytest.raises(PoolError) as refused:
        pools.update_agent(agent, actor=None, **{field: value})
    assert refused.value.field == field
    str(refused.value).encode()
    with pytest.raises(PoolError):
        pools.add_agent(pool, **{"name": "Fine", field: value})
    assert pool.agents.count() == 3


def test_an_audit_entry_never_fails_a_change(pool: Pool) -> None:
    pools.audit.record("agent.changed", actor=None, target="a\0b", detail={"why\ud800": float("inf")})
    entry = AuditEntry.objects.latest("pk")
    assert (entry.target, entry.detail) == ("a\ufffdb", {"why\ufffd": "inf"})


def test_an_id_is_not_used_again_even_when_its_agent_could_not_be_made(pool: Pool) -> None:
    pools.retire(pool.agents.get(number=2), actor=None)
    assert pools.add_agent(pool, "Returns").number == 3


def test_the_roster_leaves_retired_agents_out(pool: Pool, billing: Agent) -> None:
    pools.retire(billing, actor=None)
    assert [a.name for a in pools.roster(pool)] == ["Account", "Shipping"]
    assert [a.id for a in pools.roster(pool, retired=True)] == [0, 1, 2]
    assert pools.roster(pool)[0] == data.Agent(1, "Account", "All about account", (), "AC", 0.0)


def test_every_change_raises_the_stamp_and_is_told(pool: Pool, billing: Agent, person: Callable[[str], User]) -> None:
    ops, other = person("ops"), pool.agents.get(number=1)
    steps = [
        (lambda: pools.rename(billing, "Invoices", actor=ops), "agent.renamed"),
        (lambda: pools.update_agent(billing, actor=ops, keywords=["refund", " refund ", ""]), "agent.changed"),
        (lambda: pools.set_available(billing, False, actor=ops), "agent.unavailable"),
        (lambda: pools.set_available(billing, True, actor=ops), "agent.available"),
        (lambda: pools.retire(billing, actor=ops), "agent.retired"),
        (lambda: pools.restore(billing, actor=ops), "agent.restored"),
        (lambda: pools.merge(billing, other, ops), "agent.merged"),
        (lambda: pools.add_agent(pool, "Returns", actor=ops), "agent.added"),
    ]
    for change, action in steps:
        before = Stamp.current()
        change()
        assert Stamp.current() == before + 1, action
        entry = AuditEntry.objects.first()
        assert entry is not None
        assert (entry.action, entry.actor, entry.pool) == (action, ops, pool)
    billing.refresh_from_db()
    assert billing.keywords == ["refund"]
    assert billing.number == 0


def test_what_changes_nothing_is_not_told(pool: Pool, billing: Agent) -> None:
    before = (Stamp.current(), AuditEntry.objects.count())
    pools.rename(billing, "Billing", actor=None)
    pools.set_available(billing, True, actor=None)
    pools.restore(billing, actor=None)
    assert (Stamp.current(), AuditEntry.objects.count()) == before


def test_merging_follows_earlier_merges_and_comes_apart_again(pool: Pool) -> None:
    first, second, third = pool.agents.order_by("number")
    pools.merge(first, second, None)
    pools.merge(second, third, None)
    first.refresh_from_db()
    assert (first.merged_into, second.merged_into) == (second, third), "each step can be taken back alone"
    pools.restore(first, actor=None)
    assert (first.state, first.merged_into, first.retired_at) == ("active", None, None)


def test_merges_that_make_no_sense_are_refused(pool: Pool, billing: Agent) -> None:
    other = pool.agents.get(number=1)
    stranger = pools.add_agent(pools.create_pool("Sales"), "Offers")
    with pytest.raises(PoolError, match="into itself"):
        pools.merge(billing, billing, None)
    with pytest.raises(PoolError, match="one pool"):
        pools.merge(billing, stranger, None)
    pools.merge(billing, other, None)
    with pytest.raises(PoolError, match="merged already"):
        pools.merge(billing, pool.agents.get(number=2), None)
    with pytest.raises(PoolError, match="is retired"):
        pools.merge(other, billing, None)


def test_loading_makes_and_updates_by_id(pool: Pool) -> None:
    agents = [
        data.Agent(0, "Billing and refunds", "Money", ("refund",), "BR", 1.5),
        data.Agent(1, "Account", "All about account", (), "AC"),
        data.Agent(7, "Returns", "Sends back", (), "AC"),
    ]
    assert pools.load_agents(pool, agents) == pools.Loaded(created=1, updated=1, unchanged=1)
    found = [(a.number, a.name, a.code, a.cost) for a in pool.agents.all()]
    assert found == [
        (0, "Billing and refunds", "BR", 1.5),
        (1, "Account", "AC", 0.0),
        (2, "Shipping", "SH", 0.0),
        (7, "Returns", "RE", 0.0),
    ]
    assert pools.add_agent(pool, "Eighth").number == 8
    before = (Stamp.current(), AuditEntry.objects.count())
    agents[2] = data.Agent(7, "Returns", "Sends back")
    assert pools.load_agents(pool, agents) == pools.Loaded(unchanged=3)
    assert (Stamp.current(), AuditEntry.objects.count()) == before


def test_an_id_that_would_change_its_meaning_refuses_the_whole_file(pool: Pool) -> None:
    agents = [data.Agent(9, "Returns"), data.Agent(0, "Weather")]
    with pytest.raises(PoolError, match="Agent id 0 is “Billing” in this pool and “Weather” in the file"):
        pools.load_agents(pool, agents)
    assert pool.agents.count() == 3
    pool.refresh_from_db()
    assert pool.next_agent_number == 3


def test_slugs(db: None) -> None:
    assert [pools.create_pool(name).slug for name in ("Help desk", "Help desk", "Заказы", "Товары")] == [
        "help-desk",
        "help-desk-2",
        "pool",
        "pool-2",
    ]
    with pytest.raises(PoolError) as refused:
        pools.create_pool("Other", "help-desk")
    assert refused.value.field == "slug"
    with pytest.raises(PoolError):
        pools.create_pool("Other", "no slug!")
    with pytest.raises(PoolError):
        pools.create_pool("  ")


def test_old_guidelines_stay_in_the_trail(pool: Pool) -> None:
    pools.set_guidelines(pool, "One\r\ntwo\n", actor=None)
    pools.set_guidelines(pool, "Three", actor=None)
    pools.set_guidelines(pool, "Three", actor=None)
    told = AuditEntry.objects.filter(action="pool.guidelines").order_by("pk")
    assert [entry.detail["before"] for entry in told] == ["", "One\ntwo"]
