"""A web process of the version before writes into the new schema: no column that it does not know may refuse its rows."""

from datetime import timedelta

import pytest
from django.apps import apps
from django.db import connection, models
from django.db.models.functions import Now
from django.utils import timezone

from agents_app.models import Agent, Pool
from routerweb.database import columns

#: What only Python can make. These came with their tables; one like them could only be added nullable.
MADE_IN_PYTHON = {"agents_app.ScimGroup.uid", "agents_app.ScimPerson.uid", "training_app.LiveSettings.salt"}

OURS = [
    model for label in columns.PACKAGES if apps.is_installed(label) for model in apps.get_app_config(label).get_models()
]


def without_default(model: type[models.Model]) -> list[str]:
    """The columns of a model that have a default in Django, or are filled in by it, and none in the database."""
    return [
        str(field)
        for field in model._meta.local_concrete_fields
        if not field.primary_key
        and not field.has_db_default()
        and (
            field.has_default()
            or columns._is_blank_text(field)
            or getattr(field, "auto_now", False)
            or getattr(field, "auto_now_add", False)
        )
    ]


def test_every_column_with_a_default_has_it_in_the_database_too() -> None:
    without = [column for model in OURS for column in without_default(model)]
    assert sorted(without) == sorted(MADE_IN_PYTHON)


def test_a_column_without_one_is_named() -> None:
    class Unheeded(models.Model):
        count = models.IntegerField(default=3)
        note = models.CharField(max_length=9, blank=True)
        at = models.DateTimeField(auto_now_add=True)
        name = models.CharField(max_length=9)
        maybe = models.IntegerField(null=True)

        class Meta:
            app_label = "unheeded"

    try:
        names = [name.rsplit(".")[-1] for name in without_default(Unheeded)]
        assert names == ["count", "note", "at"]
        for field in Unheeded._meta.local_concrete_fields:
            columns.give_default(field)
        assert without_default(Unheeded) == []
        fields = {field.name: field for field in Unheeded._meta.local_concrete_fields}
        assert (fields["count"].db_default, fields["note"].db_default) == (3, "")
        assert isinstance(fields["at"].db_default, Now)
        assert [name for name, field in fields.items() if field.has_db_default()] == names
    finally:
        apps.all_models.pop("unheeded", None)
        apps.clear_cache()


def test_a_new_instance_has_the_values_that_django_gives_it() -> None:
    pool = Pool(name="Support", slug="support")
    agent = Agent(pool=pool)
    assert (agent.description, agent.keywords, agent.state) == ("", [], Agent.State.ACTIVE)


@pytest.mark.both_databases
@pytest.mark.django_db
def test_the_database_fills_in_what_an_insert_leaves_out() -> None:
    if connection.vendor == "sqlite":
        pytest.skip("Only processes of one version use an SQLite database.")
    with connection.cursor() as cursor:
        for model in OURS:
            cursor.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND column_default IS NOT NULL",
                [model._meta.db_table],
            )
            there = {row[0] for row in cursor.fetchall()}
            meant = {field.column for field in model._meta.local_concrete_fields if field.has_db_default()}
            assert meant <= there, model
        cursor.execute("INSERT INTO agents_app_pool (name, slug) VALUES ('Support', 'support')")
    pool, made = Pool.objects.get(), Pool(name="Support", slug="support")
    assert timezone.now() - pool.created_at < timedelta(minutes=5)
    same = [field.attname for field in Pool._meta.local_concrete_fields if field.name not in ("id", "created_at")]
    assert [getattr(pool, name) for name in same] == [getattr(made, name) for name in same]
