"""The recipes of CONTRIBUTING.md name all files of a change: they exist, and no other file spells what a row of the table says."""

import re
import subprocess
from pathlib import Path

import pytest

from datasets_app.labeling.bulk_actions import ACTIONS
from datasets_app.queries import query_columns
from training_app.api.route_requests import OPTIONS
from training_app.engine.measures import MEASURES

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.any_database

#: Of each recipe the table's module and, of a row that stands in it today, words that only the recipe's files may spell.
EXEMPLARS = {
    "A measure or a goal": ("training_app/engine/measures.py", MEASURES["under"].meaning),
    "A field of queries": ("datasets_app/queries/query_columns.py", "chat-7"),
    "A bulk action": (
        "datasets_app/labeling/bulk_actions.py",
        "removes queries from lists, the queue, exports and new snapshots",
    ),
    "An option of a request": (
        "training_app/engine/routing/options.py",
        next(one for one in OPTIONS if one.name == "exclude").description,
    ),
    "A column of the list of queries": ("datasets_app/queries/query_columns.py", "ago(query.updated_at)"),
}
#: How many files a change may take.
MOST = {"A measure or a goal": 9, "A field of queries": 11, "An option of a request": 5}


def recipes() -> dict[str, tuple[str, list[str]]]:
    """Each recipe's table module and files."""
    page = (ROOT / "CONTRIBUTING.md").read_text().split("## Recipes", 1)[1].split("\n## ", 1)[0]
    parts = re.split(r"^\*\*(.+?)\*\*: `(.+?)`$", page, flags=re.MULTILINE)[1:]
    return {
        title: (module, re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE))
        for title, module, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    }


def spelled_in(words: str) -> set[str]:
    """The files of the repository that hold the words, but for translations and what is made by tools."""
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    found = set()
    for name in tracked:
        if name.startswith(("locale/", "static/")) or not name.endswith((".py", ".md", ".html", ".toml")):
            continue
        path = ROOT / name
        if path.exists() and words in path.read_text():
            found.add(name)
    return found


def test_there_are_the_five_recipes() -> None:
    assert set(recipes()) == set(EXEMPLARS)
    for title, most in MOST.items():
        assert len(recipes()[title][1]) <= most


@pytest.mark.parametrize("title", EXEMPLARS)
def test_the_files_of_a_recipe_are_there(title: str) -> None:
    module, files = recipes()[title]
    assert (ROOT / module).exists()
    assert module in files
    assert [name for name in files if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("title", EXEMPLARS)
def test_a_row_of_the_table_is_spelled_in_the_files_of_its_recipe_alone(title: str) -> None:
    module, words = EXEMPLARS[title]
    assert recipes()[title][0] == module
    spelled = spelled_in(words)
    assert spelled - set(recipes()[title][1]) - {"tests/test_recipes.py"} == set()
    assert spelled, f"{words!r} is spelled nowhere: choose another row"


def test_the_documentation_names_every_bulk_action_and_every_column() -> None:
    page = (ROOT / "docs" / "labeling.md").read_text()
    assert [action.code for action in ACTIONS.values() if str(action.label) not in page] == []
    assert [column.name for column, _entry in query_columns.entries() if f"`{column.name}`" not in page] == []
