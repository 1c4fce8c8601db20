"""Decisions as files: what a row holds, what is left out, and the folder that `datasets` reads."""

import io
import json
import os
import subprocess
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from agents_app.models import Pool
from tests.training_app.served import Application, application
from training_app.models import Decision, Outcome
from training_app.rollout import decision_exports

#: Of an environment of its own, which `make datasets` makes.
DATASETS = Path(__file__).parents[3] / ".venv-datasets" / "bin" / "python"
PYARROW = pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed: requirements-parquet.txt")


@pytest.fixture
def kept(labeled: Pool) -> list[Decision]:
    """Three decisions on successive days, the second in a conversation and with an outcome."""
    fields = {
        "pool": labeled,
        "scores": {"0": 0.9, "1": 0.1},
        "confidence": 0.8,
        "steps": 2,
        "stop_reason": "stop",
        "microseconds": 90,
    }
    said = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Yes?"}]
    made = [
        Decision.objects.create(
            text=f"billing {n}", agents=[0], at=f"2026-03-0{n}T08:00:00Z", messages=said if n == 2 else None, **fields
        )
        for n in (1, 2, 3)
    ]
    Outcome.objects.create(decision_id=made[1].pk, pool=labeled, success=False, rating=2.0, comment="wrong desk")
    return made


def lines(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for path in sorted(folder.glob("*.jsonl")) for line in path.read_text().splitlines()]


def export(folder: Path, *words: str) -> None:
    call_command("export_decisions", str(folder), "--pool", "support", *words)


@pytest.mark.parametrize("day", ["yesterday", "2026-02-30"])
def test_a_day_that_is_none_is_named(pool: Pool, tmp_path: Path, day: str) -> None:
    with pytest.raises(CommandError, match=f"'{day}' is no day or moment, such as 2026-03-01"):
        export(tmp_path / "days", "--since", day)


def test_a_row_holds_the_answer_and_its_outcome(kept: Sequence[Decision], tmp_path: Path) -> None:
    export(tmp_path / "out", "--format", "jsonl")
    first, second, third = lines(tmp_path / "out")
    assert [row["text"] for row in (first, second, third)] == ["billing 1", "billing 2", "billing 3"]
    assert (second["id"], second["agents"], second["model"]) == (str(kept[1].pk), [0], "descriptions")
    assert second["scores"] == [{"agent": 0, "score": 0.9}, {"agent": 1, "score": 0.1}]
    assert second["messages"] == [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Yes?"}]
    assert (second["success"], second["rating"], second["comment"]) == (False, 2.0, "wrong desk")
    assert (first["messages"], first["success"]) == ([], None)
    export(tmp_path / "days", "--format", "jsonl", "--since", "2026-03-02", "--until", "2026-03-03")
    assert [row["text"] for row in lines(tmp_path / "days")] == ["billing 2"]


def test_without_text_no_column_holds_words(kept: Sequence[Decision], tmp_path: Path) -> None:
    export(tmp_path / "out", "--format", "jsonl", "--without-text")
    for row in lines(tmp_path / "out"):
        assert not {"text", "messages", "comment"} & row.keys()
        assert "billing" not in json.dumps(row, default=str).replace('["billing"]', "")
        assert row["confidence"] == 0.8


def test_many_rows_are_several_files(kept: Sequence[Decision], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_exports, "CHUNK", 1)
    monkeypatch.setattr(decision_exports, "PART", 2)
    export(tmp_path / "out", "--format", "jsonl")
    assert [path.name for path in sorted((tmp_path / "out").iterdir())] == [
        "decisions-00000.jsonl",
        "decisions-00001.jsonl",
    ]
    assert len(lines(tmp_path / "out")) == 3


def test_what_cannot_be_written_is_said(
    kept: Sequence[Decision], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CommandError, match="is there already"):
        export(tmp_path, "--format", "jsonl")
    monkeypatch.setattr(decision_exports, "find_spec", lambda _name: None)
    with pytest.raises(CommandError, match=r"pip install -r requirements-parquet\.txt"):
        export(tmp_path / "out")
    assert not (tmp_path / "out").exists()
    export(tmp_path / "set", "--format", "huggingface")
    assert len(lines(tmp_path / "set" / "data")) == 3
    assert "path: data/*.jsonl" in (tmp_path / "set" / "README.md").read_text()


@PYARROW
def test_parquet_keeps_the_types(kept: Sequence[Decision], tmp_path: Path) -> None:
    from pyarrow import parquet

    export(tmp_path / "set", "--format", "huggingface")
    card = (tmp_path / "set" / "README.md").read_text()
    assert card.startswith("---\n")
    assert "path: data/*.parquet" in card
    table = parquet.read_table(tmp_path / "set" / "data")
    assert table.num_rows == 3
    assert table.column("success").to_pylist() == [None, False, None]
    assert table.column("scores").to_pylist()[0] == [{"agent": 0, "score": 0.9}, {"agent": 1, "score": 0.1}]
    assert table.column("messages").to_pylist()[1][0] == {"role": "user", "content": "hello"}


@pytest.mark.at_length
def test_datasets_loads_the_folder(kept: Sequence[Decision], tmp_path: Path) -> None:
    if not DATASETS.exists() and os.environ.get("REQUIRE_DATASETS") != "1":
        pytest.skip("Hugging Face's datasets is not installed: `make datasets` does it.")
    export(tmp_path / "set", "--format", "huggingface")
    code = (
        "import sys, datasets; rows = datasets.load_dataset(sys.argv[1])['train']; print(len(rows), rows[1]['comment'])"
    )
    environment = {"HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [DATASETS, "-c", code, str(tmp_path / "set")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout.split("\n")[0] == "3 wrong desk", done.stderr[-2000:]


class TestDownloads:
    """By the page and by the API: the same rows."""

    @pytest.fixture
    def app(self, kept: Sequence[Decision], labeled: Pool) -> Application:
        return application(labeled, scopes=("ops",))

    def test_json_lines_by_the_api_as_by_the_page(self, app: Application, browser: Client) -> None:
        answer = app.get("/api/decisions/export/?pool=support")
        assert answer["Content-Type"] == "application/octet-stream"
        assert answer["Content-Disposition"] == 'attachment; filename="support-decisions.jsonl"'
        content = b"".join(answer)
        assert [json.loads(line)["text"] for line in content.splitlines()] == ["billing 1", "billing 2", "billing 3"]
        assert b"".join(browser.get("/p/support/decisions/?format=jsonl")) == content

    def test_the_page_exports_what_matches_and_offers_what_can_be_written(
        self, app: Application, browser: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        found = b"".join(browser.get("/p/support/decisions/?format=jsonl&outcome=failure&without_text=1"))
        (row,) = [json.loads(line) for line in found.splitlines()]
        assert row["success"] is False
        assert "text" not in row
        assert (
            b'<input type="hidden" name="outcome" value="failure">'
            in browser.get("/p/support/decisions/?outcome=failure").content
        )
        monkeypatch.setattr(decision_exports, "find_spec", lambda _name: None)
        page = browser.get("/p/support/decisions/").content
        assert b'value="huggingface"' in page
        assert b'value="parquet"' not in page
        assert browser.get("/p/support/decisions/?format=parquet").status_code == 404
        refused = app.get("/api/decisions/export/?format=parquet")
        assert (refused.status_code, refused.json()["error"]["code"]) == (409, "cannot_export")

    def test_a_time_and_no_words(self, app: Application) -> None:
        asked = "since=2026-03-02T00:00:00Z&until=2026-03-03T00:00:00Z&without_text=true"
        (line,) = b"".join(app.get(f"/api/decisions/export/?{asked}")).splitlines()
        assert json.loads(line)["at"].startswith("2026-03-02")
        assert "text" not in json.loads(line)

    @pytest.mark.parametrize(("name", "value"), [("format", "xml"), ("without_text", "perhaps"), ("since", "today")])
    def test_what_is_wrong_is_named(self, app: Application, name: str, value: str) -> None:
        answer = app.get(f"/api/decisions/export/?{name}={value}")
        assert (answer.status_code, answer.json()["error"]["field"]) == (400, name)

    def test_a_dataset_folder_is_a_zip(self, app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(decision_exports, "PART", 2)
        monkeypatch.setattr(decision_exports, "CHUNK", 1)
        answer = app.get("/api/decisions/export/?format=huggingface")
        assert answer["Content-Disposition"] == 'attachment; filename="support-decisions.zip"'
        with zipfile.ZipFile(io.BytesIO(b"".join(answer))) as packed:
            names = packed.namelist()
        assert names[0] == "support/README.md"
        assert [name.rpartition(".")[0] for name in names[1:]] == [
            "support/data/decisions-00000",
            "support/data/decisions-00001",
        ]

    @PYARROW
    def test_parquet_is_one_file(self, app: Application, monkeypatch: pytest.MonkeyPatch) -> None:
        from pyarrow import parquet

        monkeypatch.setattr(decision_exports, "PART", 2)
        monkeypatch.setattr(decision_exports, "CHUNK", 1)
        table = parquet.read_table(io.BytesIO(b"".join(app.get("/api/decisions/export/?format=parquet"))))
        assert table.column("text").to_pylist() == ["billing 1", "billing 2", "billing 3"]
        none = b"".join(app.get("/api/decisions/export/?format=parquet&since=2027-01-01T00:00:00Z"))
        assert parquet.read_table(io.BytesIO(none)).num_rows == 0
