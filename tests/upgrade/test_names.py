"""What the earlier version stored by name is still found by that name, wherever its function is now."""

import json
from ast import literal_eval

import pytest
from django.utils.module_loading import import_string

from agents_app.background_work import work
from tests import orchestration
from tests.upgrade.installation import EARLIER

pytestmark = [pytest.mark.any_database, orchestration.needed]


def test_scheduled_work_has_the_names_that_schedules_and_jobs_of_the_earlier_version_have() -> None:
    lines = (EARLIER / "tables" / "django_q_schedule.jsonl").read_text().splitlines()
    names = {
        literal_eval(json.loads(line)[4])[0] for line in lines if json.loads(line)[2] == "agents_app.tasks.scheduled"
    }
    assert names
    assert names - set(work.every()) == set()


def test_the_functions_of_scheduled_work_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    called = []
    monkeypatch.setattr(work, "import_string", lambda path: lambda: called.append(import_string(path)))
    clocked = [one for one in work.every().values() if one.run.__qualname__.startswith("by_the_clock")]
    for one in clocked:
        one.run(None)  # type: ignore[arg-type]
    assert len(called) == len(clocked) > 0
    assert all(map(callable, called))
