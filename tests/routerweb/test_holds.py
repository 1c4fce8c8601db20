"""Every column that may hold words declares what it holds, whoever defines its table."""

import pytest
from django.db import models
from django.test.utils import isolate_apps

from agents_app import backups
from agents_app.models import Privacy
from datasets_app.models import Import, Label, Query
from routerweb import holds
from routerweb.holds import Content
from training_app.models import Run

pytestmark = pytest.mark.any_database


@pytest.fixture
def undeclared_model(monkeypatch: pytest.MonkeyPatch) -> type[models.Model]:
    """A model beside those of the installed apps, with one column of each kind that may hold words."""
    with isolate_apps("agents_app"):

        class Forgotten(models.Model):
            line = models.CharField(max_length=10)
            text = models.TextField()
            tree = models.JSONField()
            raw = models.BinaryField()
            state = models.CharField(max_length=1, choices=[("a", "A")])
            number = models.IntegerField()

            class Meta:
                app_label = "agents_app"

    installed = list(holds.apps.get_models(include_auto_created=True))
    monkeypatch.setattr(holds.apps, "get_models", lambda **_: [*installed, Forgotten])
    return Forgotten


def undeclared() -> list[str]:
    """The columns that may hold words and declare nothing, as "app_label.Model.column"."""
    return [
        f"{model._meta.label}.{field.name}"
        for model in holds.tables()
        for field in model._meta.concrete_fields
        if holds.needs_declaration(field) and not hasattr(field, "holds")
    ]


def test_every_column_that_may_hold_words_declares_what_it_holds() -> None:
    assert undeclared() == []


def test_a_new_column_without_a_declaration_is_named(undeclared_model: type[models.Model]) -> None:
    names = ("line", "text", "tree", "raw")
    assert undeclared() == [f"agents_app.Forgotten.{name}" for name in names]
    holds.declare(undeclared_model, neither=names)
    assert undeclared() == []


def test_a_declaration_follows_a_column_into_the_models_that_inherit_it() -> None:
    declared = {holds.content(kind._meta.get_field("error")) for kind in (Import, Run)}
    assert declared == {Content.REMARK | Content.PERSON}


def test_columns_are_chosen_by_what_they_hold() -> None:
    assert [field.name for field in holds.columns(Query, Content.QUERY)] == ["text", "messages"]
    remarks = [field.name for field in holds.columns(Label, Content.REMARK)]
    assert remarks == ["reason", "note", "provenance"]


def test_no_secret_is_also_looked_through_as_words_in_the_open() -> None:
    """A digest or a password declared as words would be exported."""
    for model in holds.tables():
        for field in holds.columns(model, Content.SECRET):
            assert not holds.content(field) & (Content.QUERY | Content.PERSON | Content.SHARED), field


def test_a_backup_holds_every_table_but_those_that_declare_otherwise() -> None:
    left_out = {model._meta.label for model in holds.tables()} - {table.model._meta.label for table in backups.tables()}
    assert left_out >= {"sessions.Session", "django_q.OrmQ", "training_app.KeptAnswer"}
    assert "datasets_app.Query" not in left_out


def test_texts_that_came_in_as_traffic_are_kept_for_as_many_days_as_a_pool_says() -> None:
    with_texts = {model for model in holds.tables() if holds.columns(model, Content.QUERY)}
    kept = {model for model in with_texts if not holds.days(model)}
    # What was imported and labeled, and what was written for agents, trains, and cases judge; all stay until somebody erases them.
    assert {model._meta.label for model in kept} == {
        "datasets_app.Query", "datasets_app.ImportChunk", "datasets_app.SnapshotContent", "training_app.MustPassCase",
        "datasets_app.WrittenQuery",
    }  # fmt: skip
    for model in holds.tables():
        assert not holds.days(model) or Privacy._meta.get_field(holds.days(model))
