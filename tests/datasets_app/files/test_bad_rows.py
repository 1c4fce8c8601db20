"""Rows with every kind of bad text and number in every key, among good ones: each bad one is named, every good one is stored, and
everything that reads what is stored works after it, on the other database too."""

import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import Client
from django.urls import get_resolver

from agents_app import backups, pools
from datasets_app.files import exports, imports
from datasets_app.models import Dataset, ImportProblem, Query
from tests.test_generated_requests import patterns
from training_app.engine.data.examples import Row
from training_app.engine.data.files import read_rows

COUNT = int(os.environ.get("BAD_ROWS", "400"))
GOOD = ("plain", "ünïcode 日本語 😀", "tab\tand\nline", "\x01\x7f", "=1+1", "\ufffd", "a\\u0000b", "\ufeff", "x" * 200)
BAD = (
    '"a\\u0000"', '"\\ud800"', '"x\\udc00y"', "1e999", "-1e999", "NaN", "Infinity", "9" * 400, "9" * 5_000, "[" * 70 + "]" * 70,
    "[" * 5_000 + "]" * 5_000, '{"in": ["\\u0000"]}', '{"\\udfff": 1}', '[[{"a": "\\ud83d"}]]', '{"n": [1e400]}',
)  # fmt: skip
KEYS = ("id", "text", "required_agents", "asked_agents", "split", "note", "deep key", "k\\u0000", "\\udbff")


def rows(count: int, seed: int = 0) -> tuple[bytes, list[int]]:
    """(a JSONL file of `count` good and `count` bad rows, the lines of the bad ones)."""
    draw = random.Random(seed)
    kinds = [True] * count + [False] * count
    draw.shuffle(kinds)
    lines, bad = [], []
    for number, good in enumerate(kinds, 1):
        if good:
            values = {
                "text": f"{draw.choice(GOOD)} {number}",
                "id": f"é-{number}",
                "required_agents": [draw.randrange(4)],
            }
            values[draw.choice(("note", "meta"))] = draw.choice(
                (*GOOD, 10**300, -0.5, None, [1, {"a": draw.choice(GOOD)}])
            )
            lines.append(json.dumps(values, ensure_ascii=draw.random() < 0.5))
        else:
            key = draw.choice(KEYS)
            text = "" if key == "text" else f'"text": "bad {number}", '
            lines.append(f'{{{text}"{key}": {draw.choice(BAD)}}}')
            bad.append(number)
    return "\n".join(lines).encode(), bad


def every_page(browser: Client, query: int) -> int:
    """Open every page that there is, of that query where it is of one, and read it to its end; how many there were."""
    known = {"slug": "support", "query_id": query, "object_id": query, "app_label": "datasets_app"}
    opened = 0
    for route, _names in patterns(get_resolver()):
        address = "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda part: str(known.get(part[1], 1)), route)
        if "logout" in address:
            continue
        answer = browser.get(address)
        assert answer.status_code < 500, address
        b"".join(answer) if answer.streaming else answer.content
        opened += answer.status_code == 200
    return opened


def manage(database: Path, *words: str) -> str:
    """Run a command on an SQLite file of its own."""
    environment = {**os.environ, "DATABASE_URL": f"sqlite:///{database}", "DATA_DIR": str(database.parent)}
    environment |= {"SECRET_KEY": "other", "PLAIN_HTTP": "1", "DJANGO_SETTINGS_MODULE": "routerweb.settings"}
    done = subprocess.run(
        [sys.executable, "manage.py", *words], env=environment, capture_output=True, text=True, cwd=settings.BASE_DIR
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.at_length
def test_bad_rows_are_named_good_ones_stored_and_all_of_it_moves(
    dataset: Dataset, admin_client: Client, tmp_path: Path, migrated_sqlite: Path
) -> None:
    content, bad = rows(COUNT)
    upload = imports.read_file(dataset, io.BytesIO(content), "jsonl")
    assert (upload.status, upload.rows_read, upload.rejected) == ("done", 2 * COUNT, COUNT)
    assert Query.objects.count() == upload.queries_added == upload.labels_added == COUNT
    problems = ImportProblem.objects.order_by("line")
    assert [problem.line for problem in problems] == bad
    assert all(
        problem.reason and (problem.field or "JSON" in problem.reason or "digits" in problem.reason)
        for problem in problems
    )

    stored = {row.text: row for row in exports.rows(exports.selected(dataset.pool))}
    for format in ("jsonl", "csv"):
        written = b"".join(exports.encode(exports.rows(exports.selected(dataset.pool)), format))
        read = list(read_rows(io.BytesIO(written), format, pools.roster(dataset.pool)))
        assert len(read) == COUNT
        for row in read:
            assert isinstance(row, Row), row
            was = stored[row.text]
            assert (row.id, row.required, row.extra) == (was.id, was.required, was.extra)
    addresses = [
        "queries/", "queries/?q=note", f"import/{upload.pk}/", f"import/{upload.pk}/problems.csv", "export/file/?format=folder",
        "export/file/?format=txt", f"queries/{Query.objects.latest('pk').pk}/", "label/",
    ]  # fmt: skip
    for address in addresses:
        answer = admin_client.get(f"/p/support/{address}")
        assert answer.status_code == 200, address
        b"".join(answer) if answer.streaming else answer.content
    assert every_page(admin_client, Query.objects.latest("pk").pk) > 60

    file, other = tmp_path / "all.zip", tmp_path / "other.sqlite3"
    backups.write(file)
    shutil.copy(migrated_sqlite, other)
    manage(other, "restore", str(file))  # into SQLite, from whichever this is
    back = tmp_path / "back.zip"
    manage(other, "backup", str(back))
    before = list(Query.objects.order_by("pk").values_list("pk", "text", "external_id", "extra"))
    call_command("restore", "--replace", str(back))  # and from SQLite into this one
    assert list(Query.objects.order_by("pk").values_list("pk", "text", "external_id", "extra")) == before
