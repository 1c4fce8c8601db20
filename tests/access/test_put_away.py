"""A pool that is archived, deleted, brought back, and purged, on a site with one of everything in it."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import transaction
from django.test import Client
from django.utils import timezone

from agents_app import archive, backups, pools
from agents_app.checks import PoolError
from agents_app.models import Agent, ApiKey, AuditEntry, Pool
from agents_app.navigation import entries
from datasets_app.models import Label, Query
from tests.access.rows import API, LABELERS, PAGES
from tests.access.test_matrix import filled, undone
from tests.access.world import World
from training_app.answering import serving
from training_app.models import Decision, RouterModel, Run

SUPPORT = "p/<slug:slug>/"


def support() -> Pool:
    return Pool.objects.get(slug="support")


def ops() -> User:
    return User.objects.get(username="ops@example.com")


def pages(world: World, method: str) -> dict[str, int]:
    """How every page of the pool answers its admin."""
    client = world.clients["superuser"]
    return {
        route: undone(client, method, "/" + filled(route, world.parts_of(route)), data=row.sent).status_code
        for route, row in PAGES.items()
        if route.startswith(SUPPORT) and method in row.methods.split()
    }


@pytest.mark.at_length
def test_an_archived_pool_is_read_and_not_changed(world: World) -> None:
    archive.archive(support(), actor=ops())
    serving.refresh()
    answers = pages(world, "GET")
    labeling = {
        route
        for route, row in PAGES.items()
        if route.startswith(SUPPORT) and row.who == LABELERS and route != SUPPORT and "GET" in row.methods
    } - {SUPPORT + "label/<int:query_id>/history/"}
    assert {route for route in answers if answers[route] == 403} == labeling
    assert {answers[route] for route in answers.keys() - labeling} <= {200, 302, 404, 422}
    changed = pages(world, "POST")
    assert changed.pop(SUPPORT + "settings/pool/restore/") == 302
    assert set(changed.values()) == {403}


@pytest.mark.at_length
def test_a_deleted_pool_has_no_page_but_the_way_back(world: World) -> None:
    archive.delete(support(), " Support ", actor=ops())
    assert set(pages(world, "GET").values()) == {410}
    changed = pages(world, "POST")
    assert changed.pop(SUPPORT + "settings/pool/restore/") == 302
    assert set(changed.values()) == {410}
    listed = world.clients["ops"].get("/pools/").content.decode()
    assert "Bring Support back" in listed
    assert "Deleted permanently on" in listed
    home = world.clients["ops"].get("/").content.decode()
    assert "/p/support/" not in home
    assert "/p/other/" in home


@pytest.mark.at_length
@pytest.mark.parametrize("state", ["archived", "deleted"])
def test_its_keys_stop_in_plain_words_and_come_back(world: World, state: str) -> None:
    if state == "archived":
        archive.archive(support(), actor=ops())
    else:
        archive.delete(support(), "support", actor=ops())
    serving.refresh()
    headers = {"Authorization": f"Bearer {world.secrets['route']}"}
    for pool in ({"pool": "support"}, {}):
        answer = Client().post(
            "/api/route/", json.dumps({"query": "bill", **pool}), "application/json", headers=headers
        )
        assert answer.status_code == 410, answer.content
        error = answer.json()["error"]
        assert error["code"] == f"pool_{state}"
        assert f"was {state}" in error["message"]
        assert "Pools" in error["hint"]
    # No address of the API lets a key into the pool, whatever its scope, and none breaks.
    for route, row in API.items():
        if row.scope is None or not row.pool:
            continue
        key = {"Authorization": f"Bearer {world.secrets[row.scope or 'ops']}"}
        sent = json.loads(filled(json.dumps(row.sent), world.parts)) | row.of_pool(route)
        for method in row.methods.split():
            options: dict[str, Any] = {"query_params": row.of_pool(route)}
            if method == "POST":
                options = {"data": json.dumps(sent), "content_type": "application/json"}
            answered = undone(Client(), method, "/api/" + filled(route, world.parts_of(route)), headers=key, **options)
            assert answered.status_code in (403, 404, 410), (route, answered.status_code, answered.content[:200])
    archive.bring_back(support(), actor=ops())
    serving.refresh()
    answer = Client().post("/api/route/", '{"query": "bill"}', "application/json", headers=headers)
    assert answer.status_code == 200
    told = list(AuditEntry.objects.filter(pool__slug="support").values_list("action", flat=True)[:2])
    assert told == ["pool.restored", f"pool.{state}"]


def test_a_key_of_two_pools_goes_on_in_the_other(world: World) -> None:
    key = ApiKey.objects.get(name="route")
    key.pools.add(Pool.objects.get(slug="other"))
    archive.archive(support(), actor=ops())
    headers = {"Authorization": f"Bearer {world.secrets['route']}"}
    serving.refresh()
    answer = Client().get("/api/agents/", headers=headers)
    assert answer.status_code == 200
    assert [agent["name"] for agent in answer.json()["agents"]] == ["Billing"]


@pytest.mark.at_length
def test_the_page_of_deleting_counts_what_goes_and_asks_for_the_name(world: World) -> None:
    page = "/p/support/settings/pool/delete/"
    shown = world.clients["ops"].get(page).content.decode()
    assert dict(archive.holds(support()))["Labels, replaced ones too"] == Label.objects.count() > 0
    assert all(f">{count:,}<" in shown for _words, count in archive.holds(support()))
    assert world.clients["ops"].post(page, {"typed": "suport"}).status_code == 200
    assert support().state == "active"
    assert world.clients["ops"].post(page, {"typed": "Support"})["Location"] == "/pools/"
    assert support().state == "deleted"
    said = world.clients["ops"].get("/pools/").content.decode()
    assert 'action="/p/support/settings/pool/restore/"' in said
    assert "Undo" in said
    with pytest.raises(PoolError, match="Type the pool"):
        archive.delete(Pool.objects.get(slug="other"), "Support", actor=None)


@pytest.mark.at_length
def test_what_is_under_way_ends(world: World) -> None:
    assert Run.objects.filter(status="queued").exists()
    archive.archive(support(), actor=ops())
    assert set(Run.objects.values_list("status", flat=True)) <= {"cancelled", "done"}
    archive.bring_back(support(), actor=ops())
    assert "cancelled" in set(Run.objects.values_list("status", flat=True))


@pytest.mark.at_length
def test_commands_say_that_it_is_put_away(world: World) -> None:
    archive.archive(support(), actor=ops())
    with pytest.raises(CommandError, match="was archived"):
        call_command("dataset_stats", "--pool", "support")


@pytest.mark.both_databases
def test_a_deleted_pool_is_purged_after_thirty_days_and_nothing_else_is(world: World) -> None:
    archive.archive(Pool.objects.get(slug="other"), actor=None)
    archive.delete(support(), "support", actor=ops())
    assert archive.purge_due() == 0
    assert archive.purge_due(timezone.now() + timedelta(days=29, hours=23)) == 0
    assert support()
    alone = ApiKey.objects.get(name="route").pk
    people = User.objects.count()
    with transaction.atomic():  # its end checks every foreign key
        assert archive.purge_due(timezone.now() + timedelta(days=30, minutes=1)) == 1
    assert list(Pool.objects.values_list("slug", flat=True)) == ["other"]
    for kind in (Query, Label, Run, RouterModel, Decision):
        assert not kind.objects.exists()
    assert list(Agent.objects.values_list("pool__slug", flat=True)) == ["other"]
    for model, path in archive._tables():
        assert not model._base_manager.exclude(**{f"{path}__slug": "other"}).exclude(**{path: None}).exists(), model
    assert ApiKey.objects.get(pk=alone).revoked_at is not None
    assert User.objects.count() == people
    purged = AuditEntry.objects.get(action="pool.purged")
    assert purged.target == "support"
    assert purged.detail["held"]["Agents"] == 4
    assert pools.create_pool("Support", "support").slug == "support"


@pytest.mark.at_length
def test_only_a_deleted_pool_is_purged(world: World) -> None:
    archive.archive(support(), actor=ops())
    with pytest.raises(PoolError):
        archive.purge(support())


@pytest.mark.django_db(transaction=True)
def test_a_backup_brings_it_back_as_it_was(tmp_path: Path) -> None:
    gone = archive.delete(pools.create_pool("Support"), "support", actor=None)
    kept = archive.archive(pools.create_pool("Other"), actor=None)
    backups.write(tmp_path / "one.zip")
    Pool.objects.all().delete()
    backups.restore(tmp_path / "one.zip", replace=True)
    assert Pool.objects.get(slug="support").deleted_at == gone.deleted_at
    assert Pool.objects.get(slug="other").archived_at == kept.archived_at


@pytest.mark.at_length
def test_every_entry_of_the_sidebar_stands_in_an_archived_pool(world: World) -> None:
    archive.archive(support(), actor=ops())
    shown = world.clients["superuser"].get("/p/support/queries/").content.decode()
    assert "This pool is archived" in shown
    assert all(
        f"/p/support/{entry.name}/" in shown for entry in entries() if entry.name in ("queries", "runs", "models")
    )
