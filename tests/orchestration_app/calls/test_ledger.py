"""What an episode asks of the database while that is away."""

import logging

import pytest
from django.db import OperationalError

from orchestration_app.calls import ledger


def test_a_wait_for_the_database_is_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    monkeypatch.setattr(ledger, "connection", type("Away", (), {"in_atomic_block": False, "close": lambda: None}))
    tries = iter([OperationalError("away")] * 9)

    def work() -> str:
        for error in tries:
            raise error
        return "stored"

    with caplog.at_level(logging.WARNING):
        assert ledger._done(work) == ("stored", None)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "wait for the database" in caplog.text
