"""A pool with decisions of several days, and an archive in a folder."""

import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.training_app.answering.test_decisions import pending
from training_app.answering import decisions
from training_app.models import Decision, RouterModel

#: Noon of today, so that a day more or less is another day in UTC.
NOON = datetime.now(UTC).replace(hour=12, minute=0, second=0, microsecond=0)
Answered = Callable[..., uuid.UUID]


@pytest.fixture(autouse=True)
def archive(fresh_process: None, settings: Any, tmp_path: Path) -> Path:
    """Decisions are kept for 30 days, then in this folder."""
    settings.DECISION_ARCHIVE, settings.DECISION_DAYS = str(tmp_path / "archive"), 30
    return tmp_path / "archive"


@pytest.fixture
def answered(model: RouterModel) -> Answered:
    """Makes a decision of so many days ago, with other columns as they are named; its id."""

    def make(text: str, days: int = 0, seconds: int = 0, **columns: Any) -> uuid.UUID:
        at = NOON - timedelta(days=days, seconds=-seconds)
        row = pending(model, text)._replace(id=decisions.new_id(at.timestamp()), at=at.timestamp())
        decisions.insert([row])
        key = uuid.UUID(int=row.id)
        if columns:
            Decision.objects.filter(pk=key).update(**columns)
        return key

    return make


def texts(rows: Sequence[Any]) -> list[str]:
    """The texts of archived decisions."""
    return [row.decision.text for row in rows]
