"""The admin's lists of this room: they open, cost the same however long, and cannot go round the pages' guards."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.contrib import admin as django_admin
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone
from django_q.models import Failure, OrmQ, Schedule, Success, Task
from pytest_django import DjangoAssertNumQueries
from unfold.admin import ModelAdmin

from agents_app import keys, pools
from agents_app.models import Agent, ApiKey, AuditEntry, BackgroundJob, Pool
from tests.clients import signed_in

LISTS = (
    "agents_app/pool",
    "agents_app/agent",
    "agents_app/apikey",
    "agents_app/auditentry",
    "agents_app/backgroundjob",
    "auth/user",
    "auth/group",
    "django_q/failure",
    "django_q/schedule",
)
pytestmark = pytest.mark.django_db


def _grow(pool: Pool, round_: str) -> None:
    for n in range(5):
        pools.add_agent(pool, f"Agent {round_} {n}")
        keys.create_key(f"Key {round_} {n}", [pool], ["route"])
        pools.create_pool(f"Pool {round_} {n}")
        User.objects.create_user(f"{round_}{n}@example.com").groups.add(Group.objects.get(name="labeler"))
        BackgroundJob.objects.create(work="bulk_change")
        now = timezone.now()
        Task.objects.create(
            id=f"{round_}{n}",
            name="t",
            func="f",
            started=now,
            stopped=now + timedelta(seconds=1),
            success=False,
            result="why",
        )
        Schedule.objects.create(name=f"{round_}{n}", func="f")


@pytest.mark.parametrize("name", LISTS)
def test_a_list_costs_the_same_however_long(
    admin: Client, pool: Pool, name: str, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    _grow(pool, "a")
    admin.get(f"/admin/{name}/")
    with CaptureQueriesContext(connection) as few:
        assert admin.get(f"/admin/{name}/").status_code == 200
    _grow(pool, "b")
    with django_assert_num_queries(len(few)):
        admin.get(f"/admin/{name}/")


@pytest.mark.parametrize("name", LISTS)
def test_lists_search_and_open_their_rows(admin: Client, pool: Pool, name: str) -> None:
    _grow(pool, "a")
    assert admin.get(f"/admin/{name}/?q=a").status_code == 200
    label, model = name.split("/")
    row = django_admin.site._registry[_model(label, model)].model._default_manager.first()
    assert admin.get(f"/admin/{name}/{row.pk}/change/").status_code == 200


def _model(label: str, name: str) -> type:
    from django.apps import apps

    return apps.get_model(label, name)


def test_every_list_is_drawn_by_unfold() -> None:
    plain = [m.__name__ for m, a in django_admin.site._registry.items() if not isinstance(a, ModelAdmin)]
    assert plain == []
    assert not django_admin.site.is_registered(OrmQ)
    assert not django_admin.site.is_registered(Success)
    assert django_admin.site.is_registered(Failure)


def test_who_may_open_which_list(client_of: Callable[[str], Client], pool: Pool) -> None:
    opened = {
        role: {name for name in LISTS if client_of(role).get(f"/admin/{name}/").status_code == 200}
        for role in ("labeler", "reviewer", "ops", "admin")
    }
    assert opened["labeler"] == set()
    assert opened["reviewer"] == {"agents_app/pool", "agents_app/agent"}
    assert opened["ops"] == set(LISTS) - {"auth/user", "auth/group"}
    assert opened["admin"] == set(LISTS)


def test_history_and_agents_cannot_be_deleted_or_rewritten(client_of: Callable[[str], Client], pool: Pool) -> None:
    root = signed_in(User.objects.create_superuser("root@example.com"))
    entry, agent = AuditEntry.objects.first(), pool.agents.get(number=0)
    key, _secret = keys.create_key("Shop", [pool], ["route"])
    assert entry is not None
    for path in (
        f"/admin/agents_app/auditentry/{entry.pk}/delete/",
        f"/admin/agents_app/agent/{agent.pk}/delete/",
        f"/admin/agents_app/apikey/{key.pk}/delete/",
        f"/admin/agents_app/pool/{pool.pk}/delete/",
        "/admin/agents_app/apikey/add/",
        "/admin/agents_app/auditentry/add/",
        "/admin/auth/user/add/",
    ):
        assert root.post(path, {"post": "yes"}).status_code == 403, path
    before = AuditEntry.objects.values().get(pk=entry.pk)
    root.post(f"/admin/agents_app/auditentry/{entry.pk}/change/", {"action": "nothing"})
    assert AuditEntry.objects.values().get(pk=entry.pk) == before


def test_an_agent_changes_through_the_pools_functions(ops: Client, pool: Pool, billing: Agent) -> None:
    path = f"/admin/agents_app/agent/{billing.pk}/change/"
    form = {
        "code": "bx",
        "name": "Invoices",
        "description": "",
        "keywords": "refund, money back",
        "cost": "1",
        "number": "77",
        "state": "retired",
    }
    assert ops.post(path, form).status_code == 302
    billing.refresh_from_db()
    assert (billing.number, billing.code, billing.name, billing.state) == (0, "BX", "Invoices", "active")
    assert billing.keywords == ["refund", "money back"]
    assert 'value="refund, money back"' in ops.get(path).content.decode()
    assert AuditEntry.objects.filter(action="agent.changed", actor__username="ops@example.com").exists()
    for change, said in (
        ({"name": "Account"}, "has that name already"),
        ({"code": "AC"}, "has that code already"),
        ({"cost": "-1"}, "agent_cost_not_negative"),
    ):
        answer = ops.post(path, {**form, **change})
        assert answer.status_code == 200, said
        assert said in answer.content.decode()


@pytest.mark.parametrize(
    ("action", "field", "value"),
    [("retire", "state", "retired"), ("pause", "available", False)],
)
def test_agents_are_retired_and_paused_many_at_once(
    ops: Client, client_of: Callable[[str], Client], pool: Pool, action: str, field: str, value: object
) -> None:
    picked = {"action": action, "_selected_action": [a.pk for a in pool.agents.filter(number__lt=2)]}
    client_of("reviewer").post("/admin/agents_app/agent/", picked)
    assert not pool.agents.filter(**{field: value}).exists()
    ops.post("/admin/agents_app/agent/", picked)
    assert pool.agents.filter(**{field: value}).count() == 2
    back = {"retire": "bring_back", "pause": "resume"}[action]
    ops.post("/admin/agents_app/agent/", {**picked, "action": back})
    assert not pool.agents.filter(**{field: value}).exists()


def test_keys_are_revoked_here_and_their_digest_never_shown(ops: Client, pool: Pool) -> None:
    key, secret = keys.create_key("Shop", [pool], ["route"])
    for path in ("/admin/agents_app/apikey/", f"/admin/agents_app/apikey/{key.pk}/change/"):
        page = ops.get(path).content.decode()
        assert key.prefix in page
        assert key.digest not in page
        assert secret not in page
    ops.post("/admin/agents_app/apikey/", {"action": "revoke", "_selected_action": [key.pk]})
    assert ApiKey.objects.get().revoked_at is not None


def test_a_pool_is_made_and_renamed_here_too(ops: Client, pool: Pool) -> None:
    inline = {"agents-TOTAL_FORMS": "0", "agents-INITIAL_FORMS": "0"}
    assert (
        ops.post(
            "/admin/agents_app/pool/add/", {"name": "Sales", "slug": "sales", "description": "", **inline}
        ).status_code
        == 302
    )
    made = Pool.objects.get(slug="sales")
    assert (
        ops.post(
            f"/admin/agents_app/pool/{made.pk}/change/", {"name": "Deals", "slug": "x", "description": "d", **inline}
        ).status_code
        == 302
    )
    made.refresh_from_db()
    assert (made.name, made.slug, made.description) == ("Deals", "sales", "d")
    assert set(AuditEntry.objects.filter(pool=made).values_list("action", flat=True)) == {
        "pool.created",
        "pool.changed",
    }


def test_an_admin_cannot_become_a_superuser_here(admin: Client, person: Callable[[str], User]) -> None:
    me = person("admin")
    form = {"first_name": "Ana", "last_name": "", "is_superuser": "on", "is_active": "", "groups": [], "username": "x"}
    assert admin.post(f"/admin/auth/user/{me.pk}/change/", form).status_code == 302
    me.refresh_from_db()
    assert (me.first_name, me.is_superuser, me.is_active, me.username) == ("Ana", False, True, "admin@example.com")
    root = User.objects.create_superuser("root@example.com", password="long enough one")
    page = f"/admin/auth/user/{root.pk}/password/"
    assert admin.post(page, {"password1": "horse battery 9", "password2": "horse battery 9"}).status_code == 403
    role = Group.objects.get(name="admin")
    assert admin.post(f"/admin/auth/group/{role.pk}/change/", {"name": "boss"}).status_code == 403
    role.refresh_from_db()
    assert role.name == "admin"


def test_the_role_groups_stay(admin: Client) -> None:
    root = signed_in(User.objects.create_superuser("root@example.com"))
    extra = Group.objects.create(name="Auditors")
    picked = {"action": "delete_selected", "post": "yes"}
    root.post("/admin/auth/group/", {**picked, "_selected_action": [Group.objects.get(name="ops").pk, extra.pk]})
    assert Group.objects.filter(name="ops").exists()
    root.post("/admin/auth/group/", {**picked, "_selected_action": [extra.pk]})
    assert not Group.objects.filter(name="Auditors").exists()
