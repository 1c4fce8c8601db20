"""The role groups, on a fresh database and after an upgrade."""

import pytest
from django.apps import apps
from django.contrib.auth.models import Group, Permission
from django.core.management import call_command
from django.core.management.commands import flush
from django.core.management.sql import emit_post_migrate_signal
from django_q.models import Schedule

from agents_app.access import Role
from agents_app.accounts.roles import GRANTS, codenames

pytestmark = pytest.mark.django_db


def _held(role: str) -> set[str]:
    held = Permission.objects.filter(group__name=role).select_related("content_type")
    return {f"{p.content_type.app_label}.{p.codename}" for p in held}


def test_a_fresh_database_has_the_four_roles_with_their_permissions() -> None:
    assert set(Group.objects.values_list("name", flat=True)) == {role.value for role in Role}
    assert _held("labeler") == set()
    assert {"datasets_app.view_query", "datasets_app.change_query", "agents_app.view_agent"} <= _held("reviewer")
    assert {"training_app.view_run", "agents_app.change_agent", "training_app.view_decision"} <= _held("ops")
    assert {"auth.change_user"} <= _held("admin") - _held("ops")
    assert not any(name.startswith(("training_app.", "auth.")) for name in _held("reviewer"))


def test_nobody_may_delete() -> None:
    assert _held("ops")
    for role in Role:
        assert not [name for name in _held(role.value) if ".delete_" in name]


def test_each_grant_names_a_model_that_there_is() -> None:
    for wanted in GRANTS.values():
        for label, models in wanted.items():
            known = {model._meta.model_name for model in apps.get_app_config(label).get_models()}
            assert set(models) - {"*"} <= known


def test_an_upgrade_grants_what_is_missing_and_keeps_what_was_added() -> None:
    group = Group.objects.get(name="ops")
    group.permissions.remove(*group.permissions.filter(content_type__app_label="training_app"))
    extra = Permission.objects.get(codename="delete_agent")
    group.permissions.add(extra)
    Group.objects.get(name="labeler").delete()
    assert "training_app.view_run" not in _held("ops")
    call_command("migrate", verbosity=0)
    assert "training_app.view_run" in _held("ops")
    assert "agents_app.delete_agent" in _held("ops")
    assert {f"training_app.{name}" for name in codenames(Role.OPS, apps.get_app_config("training_app"))} <= _held("ops")


def test_the_roles_stand_in_a_migration(django_db_blocker: object) -> None:
    from importlib import import_module

    migration = import_module("agents_app.migrations.0001_initial")
    assert set(migration.ROLES) == {role.value for role in Role}


@pytest.mark.django_db(transaction=True)
def test_a_flush_leaves_the_four_roles_and_the_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = set(Schedule.objects.values_list("func", flat=True))
    assert planned
    # Not the tests' own shortcut (see `tests.migrated`): what the product does after a flush.
    monkeypatch.setattr(flush, "emit_post_migrate_signal", emit_post_migrate_signal)
    call_command("flush", interactive=False, verbosity=0)
    assert set(Group.objects.values_list("name", flat=True)) == {role.value for role in Role}
    assert {"training_app.view_run", "agents_app.change_agent"} <= _held("ops")
    assert set(Schedule.objects.values_list("func", flat=True)) == planned
