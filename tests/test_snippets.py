"""What the documentation shows holds: commands parse, Python compiles, JSON reads, and the tutorial works from start to end."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from benchmarks import screens
from tests import migrated
from tests.engine.test_wheel import ROOT
from tests.routerweb.test_server import Server, python

pytestmark = pytest.mark.any_database
PAGES = [*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "client" / "README.md", ROOT / "CONTRIBUTING.md"]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: (page, language, what stands in the fence).
SNIPPETS = [(path.name, *found) for path in PAGES for found in FENCE.findall(path.read_text("utf-8"))]


def of(*languages: str) -> list[tuple[str, str]]:
    return [(page, text) for page, language, text in SNIPPETS if language in languages]


def commands(text: str) -> list[list[str]]:
    """The words of each `manage.py` command in a snippet, from the command's name on."""
    lines = text.replace("\\\n", " ").splitlines()
    found = [shlex.split(line, comments=True) for line in lines if "manage.py " in line]
    return [words[next(n for n, word in enumerate(words) if word.endswith("manage.py")) + 1 :] for words in found]


SHOWN = [(page, words) for page, text in of("sh") for words in commands(text)]


@pytest.mark.parametrize(
    ("page", "words"), SHOWN, ids=lambda value: " ".join(value) if isinstance(value, list) else value
)
def test_a_command_takes_what_is_shown(page: str, words: list[str]) -> None:
    command = load_command_class(get_commands()[words[0]], words[0])
    command.create_parser("manage.py", words[0]).parse_args(words[1:])


@pytest.mark.parametrize(("page", "text"), of("python"))
def test_python_compiles(page: str, text: str) -> None:
    compile(text, page, "exec", flags=0x2000)  # PyCF_ALLOW_TOP_LEVEL_AWAIT: examples are shown without what runs them


@pytest.mark.parametrize(("page", "text"), of("json"))
def test_json_reads(page: str, text: str) -> None:
    try:
        json.loads(text)
    except ValueError:
        for line in text.splitlines():
            json.loads(line)


def test_nothing_is_looked_for_in_vain() -> None:
    assert len(SHOWN) > 10
    assert min(len(of("python")), len(of("json"))) > 5


ADA = """
import django
django.setup()
from django.contrib.auth.models import User
User.objects.create_superuser("ada@example.com", "ada@example.com", "a-long-password-1")
"""
SMALL = {"width": 960, "height": 600}
#: The pictures of the tutorial: what a reader sees who does what it says.
TUTORIAL: screens.Screens = {
    "tutorial-1-agents": ("/p/{pool}/agents/", SMALL, ()),
    "tutorial-2-label": ("/p/{pool}/label/", SMALL, ("Digit1",)),
    "tutorial-3-model": ("/p/{pool}/models/1/", SMALL, ()),
    "tutorial-4-playground": ("/p/{pool}/playground/?query=I+was+charged+twice", SMALL, ()),
}


@pytest.mark.process
@pytest.mark.at_length
def test_the_tutorial_works(tmp_path: Path, chromium: str) -> None:
    """Its agents, its commands in their order, on queries that name the agents' matters; then its pictures, as Chromium sees them.

    WRITE_SCREENS=1 puts the pictures into docs/images.
    """
    page = (ROOT / "docs" / "tutorial.md").read_text("utf-8")
    agents, shown = (text for language, text in FENCE.findall(page) if language == "json")
    folder = tmp_path / "my-data"
    folder.mkdir()
    (folder / "agents.jsonl").write_text(agents)
    said = (("the invoice was charged twice", 0), ("my parcel never came", 1), ("the app crashes", 2))
    rows = [
        {
            "text": f"{' and '.join(said[n][0] for n in some)}, case {number}",
            "required_agents": [said[n][1] for n in some],
        }
        for number, some in enumerate([(0,), (1,), (2,), (0, 1), (1, 2), ()] * 20)
    ]
    for row in rows:
        row["text"] = row["text"] if row["required_agents"] else f"thanks, that was all{row['text']}"
    rows += [{"text": f"my invoice is wrong, case {number}"} for number in range(100, 103)]  # to label
    (folder / "train.jsonl").write_text(shown + "".join(json.dumps(row) + "\n" for row in rows))
    migrated.copy(migrated.sqlite(), tmp_path / "web.sqlite3")
    environment = {
        **os.environ, "DJANGO_SETTINGS_MODULE": "routerweb.settings", "DATA_DIR": str(tmp_path), "PLAIN_HTTP": "1",
        "DATABASE_URL": f"sqlite:///{tmp_path / 'web.sqlite3'}",
    }  # fmt: skip
    done: list[tuple[str, str]] = []
    for language, text in FENCE.findall(page):
        for words in commands(text) if language == "sh" else ():
            ended = subprocess.run(
                [sys.executable, "-W", "ignore", ROOT / "manage.py", *words],
                env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=900,
            )  # fmt: skip
            assert ended.returncode == 0, f"{words}: {ended.stderr}"
            done.append((words[0], ended.stdout))
    assert [name for name, _said in done] == ["load_pool", "dataset_split", "train", "route", "create_api_key"]
    assert "Billing" in dict(done)["route"]
    assert "rw_" in dict(done)["create_api_key"]

    python(tmp_path, "-c", ADA)
    pictures = ROOT / "docs" / "images" if os.environ.get("WRITE_SCREENS") == "1" else tmp_path
    server = Server(tmp_path, "")
    try:
        # In a thread of its own, as another test's browser may hold this one.
        with ThreadPoolExecutor(1) as thread:
            asked = (server.address, "ada@example.com", "a-long-password-1", "helpdesk", TUTORIAL, pictures)
            thread.submit(screens.take, *asked).result()
    finally:
        os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait(10)
    assert set(re.findall(r"\(images/([\w-]+)\.png\)", page)) == set(TUTORIAL)
    for name in TUTORIAL:
        assert 5_000 < (pictures / f"{name}.png").stat().st_size < 80_000
