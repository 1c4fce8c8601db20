"""An installation that holds texts which no other database takes is mended once, and says what it changed."""

from importlib import import_module

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection

from agents_app.models import Agent, AuditEntry, Pool

pytestmark = pytest.mark.django_db


@pytest.fixture
def old_rows(pool: Pool) -> Pool:
    if connection.vendor != "sqlite":
        pytest.skip("PostgreSQL refuses half a surrogate pair and NUL, so it has no row to mend")
    Agent.objects.filter(pool=pool, number=0).update(keywords=["\ud800", "😀"], description="a\0b")
    AuditEntry.objects.create(actor_name="x", action="a.b", detail={"n\0": [1, "\udc00"], "fine": "\\u0000"})
    Agent.objects.filter(pool=pool, number=1).update(keywords=["😀 fine"])
    return pool


def _said(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_the_command_mends_and_tells_each_value(old_rows: Pool, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("mend_texts")
    said = _said(capsys)
    assert said[-1] == "3 values mended."
    agent = Agent.objects.get(pool=old_rows, number=0)
    assert f"agents_app_agent {agent.pk}, keywords: [0]: holds half of a surrogate pair (\\ud800)" in said
    assert (agent.keywords, agent.description) == (["\ufffd", "😀"], "a\ufffdb")
    assert Agent.objects.get(pool=old_rows, number=1).keywords == ["😀 fine"]
    assert AuditEntry.objects.get(action="a.b").detail == {"n\ufffd": [1, "\ufffd"], "fine": "\\u0000"}
    assert AuditEntry.objects.get(action="site.texts_mended").detail == {"values": 3}
    call_command("mend_texts")
    assert _said(capsys) == ["0 values mended."]


def test_the_migration_mends_the_same(old_rows: Pool, capsys: pytest.CaptureFixture[str]) -> None:
    import_module("training_app.migrations.0014_texts_that_can_be_stored").mend(apps, None)
    assert len(_said(capsys)) == 3
    assert Agent.objects.get(pool=old_rows, number=0).description == "a\ufffdb"
