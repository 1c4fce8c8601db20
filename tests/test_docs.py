"""The documentation keeps up: every command is listed, and every file that a page links to is there."""

import re
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from training_app.api.schema import CODES
from training_app.engine import config

pytestmark = pytest.mark.any_database
ROOT = Path(__file__).parent.parent
ROOMS = ("agents_app", "datasets_app", "training_app", "orchestration_app")
OURS = sorted(name for name, app in get_commands().items() if app in ROOMS)
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("datasets_app/demo/*.md"),
        *ROOT.glob("benchmarks/**/*.md"),
    ]
)


@pytest.mark.parametrize("name", OURS)
def test_a_command_is_documented_and_its_help_has_an_example(name: str) -> None:
    assert re.search(rf"^\| `{name}[ `]", (ROOT / "docs" / "commands.md").read_text(), re.MULTILINE)
    command = load_command_class(get_commands()[name], name)
    shown = " ".join(command.create_parser("manage.py", name).format_help().split())
    assert f"Example: python manage.py {name}" in shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_links_only_to_files_that_are_there(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_reference_of_a_runs_settings_is_made_from_the_code() -> None:
    made = "python -m training_app.engine.config > docs/run-settings.md makes it anew"
    assert (ROOT / "docs" / "run-settings.md").read_text() == config.reference(), made


def test_the_page_of_the_api_lists_every_error_once() -> None:
    table = (ROOT / "docs" / "api.md").read_text().split("## Errors", 1)[1]
    listed = [
        code
        for row in re.findall(r"^\| [\d, ]+ \| ([^|]+) \|", table, re.MULTILINE)
        for code in re.findall(r"`(\w+)`", row)
    ]
    # A server's own errors are no answer of an address.
    assert sorted(set(listed) - {"host_refused", "method_not_allowed", "internal_error"}) == sorted(CODES)
    assert len(listed) == len(set(listed))


def test_every_path_of_the_design_is_there() -> None:
    """To change …, open …: a first path is whole, those after it may stand beside it."""
    table = (ROOT / "docs" / "design.md").read_text().split("## To change", 1)[1]
    missing = []
    for row in re.findall(r"^\|.*\|$", table, re.MULTILINE)[2:]:
        folders: list[Path] = []
        for path in re.findall(r"`([\w./]+\.\w+)`", row):
            places = [ROOT / path, *(folder / path for folder in folders)]
            found = next((place for place in places if place.exists()), None)
            if found is None:
                missing.append(path)
            else:
                folders.insert(0, found.parent)
    assert missing == []
