"""`manage.py import_queries` on files as teams have them: it asks, remembers, and undoes."""

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from agents_app.models import Pool
from datasets_app.models import Gold, Import, LabelValue, Query
from tests.datasets_app.files import messy

ROWS = [(f"query {n}", "Labs" if n % 2 else "Billing") for n in range(10)]


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "patients.csv"
    path.write_text(messy.csv(";", ("Question", "Team(s)"), ROWS))
    return str(path)


@pytest.mark.at_length
def test_labels_that_all_fail_alike_stop_it_until_they_are_mapped(
    clinic: Pool, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CommandError, match=r"nothing was imported.*--map 'Labs=Lab results'"):
        call_command("import_queries", file, pool="clinic")
    assert "5 of 10 labels will be kept, 5 are not understood" in capsys.readouterr().out
    assert Query.objects.count() == 0
    call_command("import_queries", file, "--map", "Labs=lab results", pool="clinic")
    assert (Query.objects.count(), Gold.objects.count(), LabelValue.objects.get().value) == (10, 10, "labs")
    call_command("import_queries", file, pool="clinic")  # it is remembered
    assert Import.objects.first().unchanged == 10


def test_it_says_how_many_more_values_are_not_understood(
    clinic: Pool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "patients.csv"
    path.write_text(messy.csv(";", ("Question", "Team(s)"), [(f"query {n}", f"Unit {n} of it") for n in range(25)]))
    call_command("import_queries", str(path), "--check", pool="clinic")
    out = capsys.readouterr().out
    assert (out.count("1 row, the first on line"), "and 5 more values" in out) == (20, True)


@pytest.mark.at_length
def test_the_rest_is_imported_where_that_is_said(clinic: Pool, file: str) -> None:
    call_command("import_queries", file, "--leave-out", pool="clinic")
    upload = Import.objects.get()
    assert (upload.labels_added, upload.rejected, Query.objects.count()) == (5, 5, 5)


def test_checking_imports_nothing_and_undoing_takes_all_out(
    clinic: Pool, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("import_queries", file, "--check", "--map", "Labs=none", pool="clinic")
    assert "10 of 10 labels will be kept" in capsys.readouterr().out
    assert not Import.objects.exists()
    call_command("import_queries", file, "--map", "Labs=", pool="clinic")
    assert (Gold.objects.count(), Query.objects.count()) == (5, 10)
    call_command("import_queries", undo=Import.objects.get().pk, pool="clinic")
    assert "10 queries and 5 labels are gone" in capsys.readouterr().out
    assert not Query.objects.exists()
    assert not Import.objects.exists()
    assert not LabelValue.objects.exists()


@pytest.mark.parametrize(("pair", "why"), [("Labs", "must read VALUE=AGENT"), ("Labs=Nobody here", "has no agent")])
def test_a_bad_map_is_refused(clinic: Pool, file: str, pair: str, why: str) -> None:
    with pytest.raises(CommandError, match=why):
        call_command("import_queries", file, "--map", pair, pool="clinic")


def test_an_export_is_named(clinic: Pool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "export.json"
    path.write_bytes(messy.exports()["argilla.json"])
    call_command("import_queries", str(path), pool="clinic")
    assert "an export of Argilla" in capsys.readouterr().out
    assert Import.objects.get().suggestions_added == 1


@pytest.mark.at_length
def test_an_encoding_that_was_guessed_is_said_and_can_be_named(
    clinic: Pool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "patients.csv"
    path.write_bytes("質問,担当\n請求書が届きません,Billing\n検査の結果を知りたい,Lab results\n".encode("cp932"))
    call_command("import_queries", str(path), "--check", pool="clinic")
    assert "read as Shift_JIS (Japanese), which is a guess" in capsys.readouterr().out
    call_command("import_queries", str(path), "--check", "--encoding", "euc_jp", pool="clinic")
    assert "characters that its encoding does not know" in capsys.readouterr().out
    call_command("import_queries", str(path), "--encoding", "cp932", pool="clinic")
    assert "a guess" not in capsys.readouterr().out
    assert set(Query.objects.values_list("text", flat=True)) == {"請求書が届きません", "検査の結果を知りたい"}
