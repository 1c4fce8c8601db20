"""How a command ends that cannot go on: with one line."""

from pathlib import Path

import pytest
from django.core.management.base import CommandError

from agents_app.management.console import at_file, refusing

pytestmark = pytest.mark.any_database


def test_a_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"
    with pytest.raises(CommandError) as ended, at_file("the plan"):
        missing.read_text()
    assert str(ended.value) == f"{missing}: No such file or directory"
    with pytest.raises(CommandError) as ended, at_file("the plan"):
        raise OSError("the disk is full")
    assert str(ended.value) == "the plan: the disk is full"


def test_only_the_errors_that_are_named_end_a_command_in_order() -> None:
    @refusing(LookupError)
    def command(error: Exception) -> None:
        raise error

    with pytest.raises(CommandError, match=r"^no such pool$"):
        command(LookupError("no such pool"))
    with pytest.raises(ZeroDivisionError):
        command(ZeroDivisionError())
