"""Pages: a new pool and the pool's agents."""

import json
from collections.abc import Callable

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from agents_app import pools
from agents_app.models import Agent, AuditEntry, Pool
from datasets_app.models import Dataset, Gold, GoldAgent, Query, SplitGroup
from routerweb import hooks
from tests import page_cost

HTMX = {"HX-Request": "true"}
pytestmark = pytest.mark.django_db


# ------------------------------------------------------------------------------------------------------- a new pool


def test_a_pool_is_made_with_its_pasted_agents(ops: Client) -> None:
    answer = ops.post("/pools/new/", {"name": "Help desk", "slug": "", "agents": "Billing: invoices\nAccount: log-in"})
    assert (answer.status_code, answer["Location"]) == (302, "/p/help-desk/import/")
    pool = Pool.objects.get()
    assert [(a.number, a.name, a.description) for a in pool.agents.all()] == [
        (0, "Billing", "invoices"),
        (1, "Account", "log-in"),
    ]
    assert set(AuditEntry.objects.values_list("actor_name", flat=True)) == {"ops@example.com"}


def test_a_pool_is_made_from_a_file(ops: Client) -> None:
    lines = b'{"id": 4, "name": "Billing", "keywords": ["refund"]}\n'
    upload = SimpleUploadedFile("agents.jsonl", lines)
    assert ops.post("/pools/new/", {"name": "Help", "file": upload}).status_code == 302
    assert Agent.objects.get().number == 4


def test_a_new_pool_names_the_agents_that_were_read(ops: Client) -> None:
    names = [f"Desk {number}" for number in range(14)]
    table = "Our desks;\n\nDesk;Duties\n" + "".join(f"{name};matters of {name}\n" for name in names)
    upload = SimpleUploadedFile("desks.csv", table.encode())
    page = ops.post("/pools/new/", {"name": "Town", "file": upload}, follow=True).text
    assert "ready with 14 agents: Desk 0, Desk 1," in page
    assert "Desk 11, …. Now import queries." in page


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "Help", "slug": "support"}, "slug"),
        ({"name": "Help", "slug": "a b"}, "slug"),
        ({"name": "Help", "agents": "Billing\nbilling"}, "agents"),
        ({"name": "Help", "agents": ": nothing"}, "agents"),
    ],
)
def test_a_pool_that_cannot_be_made_says_why_beside_the_field(
    ops: Client, pool: Pool, values: dict[str, str], field: str
) -> None:
    answer = ops.post("/pools/new/", values)
    assert answer.status_code == 200
    assert answer.context["form"].errors[field]
    assert f'id="id_{field}_error"' in answer.content.decode()
    assert Pool.objects.count() == 1


def test_a_bad_file_makes_no_pool(ops: Client) -> None:
    upload = SimpleUploadedFile("agents.jsonl", b"not json\n")
    answer = ops.post("/pools/new/", {"name": "Help", "file": upload})
    assert "line 1" in answer.context["form"].errors["file"][0]
    assert not Pool.objects.exists()


# ------------------------------------------------------------------------------------------------------- the list


def test_the_list_costs_the_same_however_many_agents(
    ops: Client, pool: Pool, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    ops.get("/p/support/agents/")  # remembers the pool in the session
    with django_assert_num_queries(page_cost.queries(9)):
        ops.get("/p/support/agents/")
    for n in range(20):
        pools.merge(pools.add_agent(pool, f"Number {n}"), pool.agents.get(number=0), None)
    with django_assert_num_queries(page_cost.queries(9)):
        ops.get("/p/support/agents/")


def test_the_list_searches_filters_sorts_and_pages_by_address(ops: Client, pool: Pool, billing: Agent) -> None:
    def names(query: str) -> list[str]:
        return [agent.name for agent in ops.get(f"/p/support/agents/?{query}").context["rows"]]

    pools.retire(billing, actor=None)
    pools.set_available(pool.agents.get(number=1), False, actor=None)
    assert names("") == ["Billing", "Account", "Shipping"]
    assert names("sort=name") == ["Account", "Billing", "Shipping"]
    assert names("sort=-name") == ["Shipping", "Billing", "Account"]
    assert names("sort=password") == ["Billing", "Account", "Shipping"]
    assert names("state=retired") == ["Billing"]
    assert names("state=unavailable") == ["Account"]
    assert names("q=SHIP") == ["Shipping"]
    assert names("q=bi") == ["Billing"]
    assert names("page=999") == ["Billing", "Account", "Shipping"]
    assert "No agent matches" in ops.get("/p/support/agents/?q=zebra").content.decode()


def test_an_empty_pool_teaches_the_next_step(ops: Client) -> None:
    pools.create_pool("Empty")
    page = ops.get("/p/empty/agents/").content.decode()
    assert "No agents yet" in page
    assert "/p/empty/agents/add/several/" in page


def test_what_people_typed_is_never_markup(ops: Client, pool: Pool) -> None:
    evil = "<script>alert(1)</script>"
    pools.add_agent(pool, evil, evil, [evil])
    pools.create_pool(evil, "evil")
    for path in ("/p/support/agents/", "/p/support/agents/3/", "/p/support/agents/3/retire/", "/p/evil/agents/"):
        page = ops.get(path).content.decode()
        assert evil not in page
        assert "&lt;script&gt;alert(1)" in page


def test_the_export_is_the_pools_agents(ops: Client, pool: Pool) -> None:
    answer = ops.get("/p/support/agents/export/")
    lines = b"".join(answer.streaming_content).decode().splitlines()  # type: ignore[attr-defined]
    assert [json.loads(line)["name"] for line in lines] == ["Billing", "Account", "Shipping"]
    assert answer["Content-Disposition"] == 'attachment; filename="support-agents.jsonl"'


def test_an_unknown_pool_or_agent_is_not_found(ops: Client, pool: Pool) -> None:
    for path in ("/p/nowhere/agents/", "/p/support/agents/99/", "/p/support/agents/99999999999999999999/"):
        assert ops.get(path).status_code == 404, path


# ------------------------------------------------------------------------------------------------------- one agent


def test_an_agent_is_added_and_another_one_asked_for(ops: Client, pool: Pool) -> None:
    form = {
        "name": "Returns",
        "description": "Sends back",
        "keywords": "refund, return\nback",
        "code": "",
        "cost": "2.5",
    }
    assert ops.post("/p/support/agents/add/", form)["Location"] == "/p/support/agents/"
    agent = pool.agents.get(name="Returns")
    assert (agent.number, agent.code, agent.keywords, agent.cost) == (3, "RE", ["refund", "return", "back"], 2.5)
    assert ops.post("/p/support/agents/add/", {"name": "More", "another": "1"})["Location"] == "/p/support/agents/add/"


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "BILLING"}, "name"),
        ({"name": "New", "code": "bi"}, "code"),
        ({"name": "New", "code": "?!"}, "code"),
        ({"name": "New", "cost": "-1"}, "cost"),
        ({"name": "New", "cost": "nan"}, "cost"),
    ],
)
def test_bad_input_is_told_beside_its_field(ops: Client, pool: Pool, form: dict[str, str], field: str) -> None:
    answer = ops.post("/p/support/agents/add/", form)
    assert answer.status_code == 200
    assert field in answer.context["form"].errors
    assert pool.agents.count() == 3


def test_an_agent_is_edited(ops: Client, pool: Pool, billing: Agent) -> None:
    page = ops.get("/p/support/agents/0/").content.decode()
    assert 'value="Billing"' in page
    form = {"name": "Invoices", "description": "", "keywords": "", "code": "BI", "cost": "0"}
    assert ops.post("/p/support/agents/0/", form).status_code == 302
    billing.refresh_from_db()
    assert (billing.number, billing.name, billing.description) == (0, "Invoices", "")
    answer = ops.post("/p/support/agents/0/", {**form, "name": "Account"})
    assert "is called “Account” already" in answer.context["form"].errors["name"][0]


def test_columns_that_are_not_read_are_named(ops: Client, pool: Pool) -> None:
    table = SimpleUploadedFile("a.csv", b"Team;What they do;Latency\nReturns;parcels that go back;120 ms\n")
    page = ops.post("/p/support/agents/add/several/", {"agents": "", "file": table}, follow=True)
    assert "Not read, as agents have nothing like it: Latency." in page.text
    table.seek(0)
    page = ops.post("/pools/new/", {"name": "Other", "agents": "", "file": table}, follow=True)
    assert "Not read, as agents have nothing like it: Latency." in page.text


def test_several_are_added(ops: Client, pool: Pool) -> None:
    assert ops.post("/p/support/agents/add/several/", {"agents": "Returns\nGifts: cards"}).status_code == 302
    assert pool.agents.count() == 5
    answer = ops.post("/p/support/agents/add/several/", {"agents": " "})
    assert "Paste at least one line" in answer.context["form"].errors["agents"][0]


def test_the_switch_answers_its_own_row_to_htmx_and_a_page_without(ops: Client, pool: Pool, billing: Agent) -> None:
    path = "/p/support/agents/0/available/"
    fragment = ops.post(path, {"available": "0"}, headers=HTMX)
    assert 'aria-checked="false"' in fragment.content.decode()
    assert "<html" not in fragment.content.decode()
    billing.refresh_from_db()
    assert not billing.available
    assert ops.post(path, {"available": "1"})["Location"] == "/p/support/agents/"
    billing.refresh_from_db()
    assert billing.available
    assert ops.post(path, {"available": "maybe"}).status_code == 400


def test_retiring_shows_its_effect_first_and_can_be_undone(
    ops: Client, pool: Pool, billing: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        hooks.effects_of_retiring, "_implementations", [lambda agent: [f"{agent.name} is in 7 labels."]]
    )
    page = ops.get("/p/support/agents/0/retire/").content.decode()
    assert "Billing is in 7 labels." in page
    billing.refresh_from_db()
    assert billing.state == "active"
    done = ops.post("/p/support/agents/0/retire/", follow=True).content.decode()
    billing.refresh_from_db()
    assert billing.state == "retired"
    assert 'action="/p/support/agents/0/restore/"' in done
    ops.post("/p/support/agents/0/restore/")
    billing.refresh_from_db()
    assert billing.state == "active"


def test_merging_needs_another_active_agent(
    ops: Client, pool: Pool, billing: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_gold = "3 gold labels require it."
    monkeypatch.setattr("routerweb.hooks.effects_of_retiring", lambda _agent: [[of_gold]])
    path = "/p/support/agents/0/merge/"
    page = ops.get(path).content.decode()
    assert "gold requires the other" in page
    assert of_gold not in page
    assert of_gold in ops.get("/p/support/agents/0/retire/").content.decode()
    assert "Choose the active agent" in ops.post(path, {"into": "0"}).content.decode()
    assert "Choose the active agent" in ops.post(path, {"into": "999"}).content.decode()
    assert ops.post(path, {"into": "1"}).status_code == 302
    billing.refresh_from_db()
    assert (billing.state, billing.merged_into.number) == ("retired", 1)
    assert "merged already" in ops.post(path, {"into": "2"}).content.decode()


def test_changes_need_post(ops: Client, pool: Pool) -> None:
    for name in ("available", "restore"):
        assert ops.get(f"/p/support/agents/0/{name}/").status_code == 405
    assert ops.delete("/p/support/agents/0/").status_code == 405
    assert ops.post("/p/support/agents/").status_code == 405


def test_a_form_without_its_token_changes_nothing(person: Callable[[str], object], pool: Pool, billing: Agent) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(person("ops"))  # type: ignore[arg-type]
    assert browser.post("/p/support/agents/0/retire/").status_code == 403
    billing.refresh_from_db()
    assert billing.state == "active"


def test_the_preview_counts_the_gold_labels_that_require_the_agent(ops: Client, pool: Pool, billing: Agent) -> None:
    assert "gold label" not in ops.get("/p/support/agents/0/retire/").content.decode()
    dataset = Dataset.objects.create(pool=pool, name="Tickets")
    for n in range(2):
        group = SplitGroup.objects.create(pool=pool, key=str(n))
        query = Query.objects.create(dataset=dataset, text=str(n), text_hash=str(n), group=group)
        gold = Gold.objects.create(query=query, required=[0], asked=[0, 1, 2], decided_by={})
        GoldAgent.objects.create(gold=gold, agent=billing)
    assert "2 gold labels require it" in ops.get("/p/support/agents/0/retire/").content.decode()
