"""Whatever words a command is given, it ends as meant or with one line that says what is wrong: never with a traceback.

`GENERATED_COMMANDS=2000` makes that many in place of the default; they are then new ones each time.
"""

import argparse
import io
import os
import zipfile
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command, get_commands, load_command_class
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from routerweb.command_line import what_to_say
from tests.browser.conftest import person  # noqa: F401
from tests.browser.test_admin_pages import filled  # noqa: F401
from tests.browser.test_everybody import trained_pool  # noqa: F401
from tests.browser.test_review import worked  # noqa: F401
from tests.thorough import many

pytestmark = pytest.mark.computes_long

COUNT = int(os.environ.get("GENERATED_COMMANDS", many(150, 20)))

OURS = ("agents_app", "datasets_app", "training_app", "orchestration_app")
#: `up` starts servers, `demo` trains for a minute. `run_cluster` and `run_episodes` begin their process anew and run on.
ELSEWHERE = {"up", "demo", "run_cluster", "run_episodes"}
#: Said each time, so that the work that they would begin here waits for a worker that there is none of.
ALWAYS = {"train": ["--queue"]}
#: A word as an argument of a process can be: no NUL, and half a surrogate where bytes were no UTF-8.
WORDS = (
    "", " ", "support", "big", "nobody", "-1", "0", "1", "²", "9" * 5_000, "1e999", "nan", "inf", "\udcff", "a\udc80b", "é" * 300,
    "--", "-x", "none", "train", "jsonl", "csv", "70/15/15", "1/2", "a/b/c", "²/1/1", "1e999/1/1", "someone@example.com",
    "total_steps=2", "total_steps=²", "seed=1e999", "=", "ddqn,svm", "threshold", "50,100", "http://localhost:1/v1", "gamma=0.5,0.9",
)  # fmt: skip


def commands() -> dict[str, str]:
    """The commands of this project and the app of each."""
    return {name: str(app) for name, app in get_commands().items() if app in OURS and name not in ELSEWHERE}


def folder_of_files(folder: Path) -> list[str]:
    """Files and folders that commands may be pointed at; each name says what is in it."""
    contents = {
        "good.jsonl": b'{"text": "x", "required_agents": [0]}\n',
        "half.jsonl": b'{"text": "\\ud800"}\n{"text": "\\u0000"}\n{"text": 1e999}\n{"text": "fine"}\n',
        "bytes.csv": b"text,required_agents\n\xff\xfe,0\n",
        "array.json": b'[{"text": "x"}]',
        "deep.json": b"[" * 50_000,
        "empty.txt": b"",
        "settings.yaml": b"total_steps: 2\n",
        "strange.yaml": b"total_steps: !!python/object/apply:os.system ['true']\n",
        "list.yaml": b"- 1\n- 2\n",
        "alias.yaml": b"a: &a [*a]\n",
        "not.zip": b"PK\x03\x04 not a zip",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    with zipfile.ZipFile(folder / "strange.zip", "w") as archive:
        archive.writestr("manifest.json", "[" * 10_000)
        archive.writestr("../outside", "x")
    (folder / "empty").mkdir()
    bad = folder / "bad"
    bad.mkdir()
    (bad / "agents.jsonl").write_bytes(b'{"id": 0, "name": "A"}\n{"id": 0, "name": "\\ud800"}\n')
    (bad / "train.jsonl").write_bytes(contents["half.jsonl"])
    return [
        *(str(path) for path in folder.iterdir()),
        str(folder / "nowhere"),
        str(folder / "nowhere" / "file.jsonl"),
        "-",
    ]


def actions(name: str, app: str) -> list[argparse.Action]:
    """The arguments that a command takes, apart from those that every command of Django takes."""
    parser = load_command_class(app, name).create_parser("manage.py", name)
    everywhere = {
        "version",
        "verbosity",
        "settings",
        "pythonpath",
        "traceback",
        "no_color",
        "force_color",
        "skip_checks",
        "help",
    }
    return [action for action in parser._actions if action.dest not in everywhere]


def lines(files: list[str], models: list[str]) -> st.SearchStrategy[list[str]]:
    """A command's name and its words."""
    known = commands()
    taken = {name: actions(name, app) for name, app in known.items()}
    words = st.one_of(
        st.sampled_from(WORDS),
        st.sampled_from([*files, *models]),
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
    )

    @st.composite
    def made(draw: st.DrawFn) -> list[str]:
        name = draw(st.sampled_from(sorted(known)))
        line = [name, *ALWAYS.get(name, [])]
        for action in taken[name]:
            if not action.option_strings:
                line.append(draw(words))
            elif action.dest == "pool" and draw(st.integers(0, 3)):
                line += ["--pool", "support"]  # mostly one that there is, or little else would be looked at
            elif action.required or draw(st.booleans()):
                line.append(action.option_strings[-1])
                if action.nargs != 0:
                    line.append(draw(words))
        return line

    return made()


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, because a word may be taken for a file to write."""
    (tmp_path / "here").mkdir()
    (tmp_path / "files").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "files"


def ended_as(line: list[str]) -> str:
    """How a command ended, of which nothing stays. An error without words, or with a status of its own, fails."""
    told = ""
    with transaction.atomic(), redirect_stdout(io.StringIO()):
        try:
            call_command(*line, stdout=io.StringIO(), stderr=io.StringIO())
        except CommandError as error:
            told = str(error)
        except SystemExit as error:
            return f"exit {error.code}" if error.code in (0, 1, 2) else pytest.fail(f"{line} exits with {error.code}")
        except Exception as error:
            told = what_to_say(error)
            if not told:
                raise
        else:
            return "well"
        finally:
            transaction.set_rollback(True)
    return "told" if told.strip() else pytest.fail(f"{line} says nothing")


@pytest.mark.at_length
@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_no_command_ends_in_a_traceback(filled: User, elsewhere: Path) -> None:  # noqa: F811
    ended: dict[str, int] = {}

    @settings(
        max_examples=COUNT, deadline=None, derandomize="GENERATED_COMMANDS" not in os.environ, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(lines(folder_of_files(elsewhere), ["support-1", "support-99"]))
    def every(line: list[str]) -> None:
        how = ended_as(line)
        ended[how] = ended.get(how, 0) + 1

    every()
    print(f"\n{sum(ended.values()):,} commands: {dict(sorted(ended.items()))}")
    assert ended.get("told", 0) > COUNT / 4
    assert ended.get("well", 0) > 0
