"""The commands of this room: what they print, what they do, and how they fail."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command, get_commands, load_command_class

from agents_app.models import Agent, Pool
from datasets_app.labels import erased_queries, labels
from datasets_app.models import Dataset, Import, Label, Query, QueueItem
from training_app.engine.data.folders import read_folder

ALL = [0, 1, 2, 3]
COMMANDS = ("load_pool", "import_queries", "export_labels", "dataset_stats", "dataset_split")


def run(command: str, *args: Any, **options: Any) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command(command, *args, stdout=out, stderr=err, no_color=True, **options)
    return out.getvalue(), err.getvalue()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_an_example(name: str) -> None:
    command = load_command_class(get_commands()[name], name)
    assert f"Example: python manage.py {name} " in " ".join(
        command.create_parser("manage.py", name).format_help().split()
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "customer_support"
    place.mkdir()
    agents = [{"id": 0, "name": "Billing"}, {"id": 5, "name": "Shipping", "description": "parcels", "code": "SH"}]
    (place / "agents.jsonl").write_text("".join(json.dumps(agent) + "\n" for agent in agents))
    for split, rows in {
        "train": [{"text": "charged twice", "required_agents": [0]}, {"text": "late", "required_agents": ["Shipping"]}],
        "val": [{"text": "nothing", "required_agents": []}],
        "test": [{"text": "where is it", "required_agents": [5]}, {"text": "bad", "required_agents": [1]}],
    }.items():
        (place / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (place / "guidelines.md").write_text("Look twice.")
    return place


@pytest.mark.django_db
def test_load_pool_makes_the_whole_pool(folder: Path) -> None:
    out, err = run("load_pool", str(folder))
    pool = Pool.objects.get()
    assert (pool.slug, pool.name, pool.guidelines) == ("customer-support", "Customer support", "Look twice.")
    assert list(pool.agents.values_list("number", "name", "code")) == [(0, "Billing", "BI"), (5, "Shipping", "SH")]
    assert dict(Query.objects.values_list("text", "group__split")) == {
        "charged twice": "train",
        "late": "train",
        "nothing": "val",
        "where is it": "test",
    }
    assert "train.jsonl: 2 rows, 2 queries added, 2 labels added, 0 unchanged, 0 left out" in out
    assert err == "test.jsonl:2, required_agents: unknown agent 1: not an id, name, key or code of this pool\n"


@pytest.mark.django_db
def test_load_pool_makes_the_slug_from_the_name(folder: Path) -> None:
    run("load_pool", str(folder), name="Customer support")
    assert Pool.objects.get().slug == "customer-support"


@pytest.mark.at_length
@pytest.mark.django_db
def test_load_pool_again_changes_nothing_and_adds_what_is_new(folder: Path) -> None:
    run("load_pool", str(folder), slug="s", name="Desk")
    Pool.objects.update(guidelines="Edited by hand.")
    before = list(Label.objects.values_list("pk", "required", "superseded_at"))
    out, _err = run("load_pool", str(folder), slug="s")
    assert "0 agents added, 0 changed, 2 unchanged" in out
    assert "0 queries added, 0 labels added, 2 unchanged" in out
    assert list(Label.objects.values_list("pk", "required", "superseded_at")) == before
    assert Pool.objects.get().guidelines == "Edited by hand."
    with (folder / "agents.jsonl").open("a") as stream:
        stream.write('{"id": 6, "name": "Sales"}\n')
    out, _err = run("load_pool", str(folder), slug="s")
    assert "1 agents added" in out
    assert Agent.objects.count() == 3


@pytest.mark.django_db
@pytest.mark.at_length
def test_load_pool_refuses_what_would_change_an_agents_meaning(folder: Path) -> None:
    run("load_pool", str(folder), slug="s")
    (folder / "agents.jsonl").write_text('{"id": 0, "name": "Weather"}\n')
    with pytest.raises(CommandError, match="An id never changes its meaning"):
        run("load_pool", str(folder), slug="s")
    assert Agent.objects.get(number=0).name == "Billing"


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("agents", "message"),
    [(None, r"agents\.jsonl does not exist"), ("{}\n", "line 1, id"), ("", "contains no agent"), ("x\n", "not JSON")],
)
def test_load_pool_says_what_is_wrong_with_the_agents(folder: Path, agents: str | None, message: str) -> None:
    path = folder / "agents.jsonl"
    path.unlink() if agents is None else path.write_text(agents)
    with pytest.raises(CommandError, match=message):
        run("load_pool", str(folder))
    assert not Pool.objects.exists()


@pytest.mark.django_db
def test_load_pool_needs_a_folder(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="is not a folder"):
        run("load_pool", str(tmp_path / "nowhere"))


def test_load_pool_takes_agents_alone(db: None, folder: Path) -> None:
    for name in ("train", "val", "test"):
        (folder / f"{name}.jsonl").unlink()
    run("load_pool", str(folder))
    assert Pool.objects.get().agents.count() == 2
    assert not Import.objects.exists()


@pytest.mark.parametrize("name", COMMANDS[1:])
def test_an_unknown_pool_is_named_with_those_that_there_are(pool: Pool, name: str, tmp_path: Path) -> None:
    more = {"import_queries": [str(tmp_path)], "export_labels": ["--out", str(tmp_path / "x")]}.get(name, [])
    with pytest.raises(CommandError, match="no pool has the slug 'nowhere'; there are: support"):
        run(name, *more, "--pool", "nowhere")


@pytest.mark.at_length
def test_lines_of_json_are_not_imported_as_text(pool: Pool, tmp_path: Path) -> None:
    path = tmp_path / "tickets.txt"
    path.write_text('{"text": "where is it"}\n')
    with pytest.raises(CommandError, match="Say --format jsonl"):
        run("import_queries", str(path), pool="support", format="txt")
    run("import_queries", str(path), pool="support")
    assert list(Query.objects.values_list("text", flat=True)) == ["where is it"]


def test_import_queries_guesses_the_format_and_reports(pool: Pool, tmp_path: Path) -> None:
    path = tmp_path / "tickets.csv"
    path.write_text("text,required_agents\nrefund,Billing\nparcel,9\n")
    out, err = run("import_queries", str(path), pool="support", dataset="Tickets", split="val")
    assert out == (
        "tickets.csv: 1 of 2 labels will be kept, 1 is not understood\n"
        "  “9”: 1 row, the first on line 3\n"
        "tickets.csv: 2 rows, 1 queries added, 1 labels added, 0 unchanged, 1 left out\n"
    )
    assert "tickets.csv:3, required_agents: unknown agent 9" in err
    query = Query.objects.get()
    assert (query.dataset.name, query.group.split) == ("Tickets", "val")
    assert QueueItem.objects.get().query == query, "no labeler waits for the queue to be filled"


def test_import_queries_shows_the_first_problems_only(pool: Pool, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "good"}\n' + "{}\n" * 25)
    _out, err = run("import_queries", str(path), pool="support")
    assert len(err.splitlines()) == 11
    assert "and 15 more" in err


def test_import_queries_fails_where_no_row_is_good(pool: Pool, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"text": ""}\n\n')
    with pytest.raises(
        CommandError, match="no row of it could be read in; the first problem: line 1: the text is empty"
    ):
        run("import_queries", str(path), pool="support")


def test_import_queries_needs_a_file(pool: Pool, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="is not there"):
        run("import_queries", str(tmp_path / "x.csv"), pool="support")
    with pytest.raises(CommandError, match="is a folder, not a file"):
        run("import_queries", str(tmp_path), pool="support")


@pytest.fixture
def labeled(add_query: Callable[..., Query]) -> Query:
    query = add_query("refund", "train")
    labels.record(labels.NewLabel(query.pk, source="import", required=[0], asked=ALL))
    return query


def test_export_labels_writes_a_file(labeled: Query, tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    out, _err = run("export_labels", pool="support", out=str(path))
    assert out == f"1 queries written to {path}\n"
    assert json.loads(path.read_text()) == {
        "text": "refund",
        "required_agents": [0],
        "asked_agents": ALL,
        "split": "train",
    }


def test_export_labels_of_one_dataset_and_of_unlabeled(
    labeled: Query, pool: Pool, add_query: Callable[..., Query], tmp_path: Path
) -> None:
    add_query("bare", in_dataset=Dataset.objects.create(pool=pool, name="Chat"))
    path = tmp_path / "out.txt"
    run("export_labels", pool="support", format="txt", out=str(path), dataset="chat", include_unlabeled=True)
    assert path.read_text() == "bare\n"
    with pytest.raises(CommandError, match="has no dataset 'Nothing'; it has: "):
        run("export_labels", pool="support", out=str(path), dataset="Nothing")


def test_export_labels_as_a_folder(labeled: Query, tmp_path: Path) -> None:
    run("export_labels", pool="support", format="folder", out=str(tmp_path / "x.zip"))
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        assert "agents.jsonl" in archive.namelist()


def test_a_failed_export_leaves_the_old_file(labeled: Query, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from datasets_app.files import exports

    path = tmp_path / "out.jsonl"
    path.write_text("old")

    def broken(*args: Any) -> Any:
        yield b"half"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(exports, "encode", broken)
    with pytest.raises(CommandError, match="No space left on device; choose another --out"):
        run("export_labels", pool="support", out=str(path))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(CommandError, match="choose another --out"):
        run("export_labels", pool="support", out=str(tmp_path / "no" / "folder"))


def test_dataset_stats(labeled: Query) -> None:
    out, _err = run("dataset_stats", pool="support")
    assert "Support (support): 1 queries, 1 with gold" in out
    assert [line.split() for line in out.splitlines() if line.startswith("0 Billing")] == [
        ["0", "Billing", "1", "0", "0", "0", "1"]
    ]
    out, _err = run("dataset_stats", pool="support", json=True)
    assert json.loads(out)["sizes"]["1"] == {"train": 1}


def test_dataset_split(pool: Pool, add_query: Callable[..., Query]) -> None:
    made = [add_query(f"query number {n}") for n in range(10)]
    labels.record_many([labels.NewLabel(query.pk, "import", [0], ALL) for query in made[:8]])
    out, _err = run("dataset_split", pool="support", ratios="50/25/25", seed=3)
    assert out == (
        "groups that got a split: train 4, val 2, test 2\n"
        "2 queries that nobody has labeled get a split with their first label\n"
    )


def test_dataset_split_writes_the_folder(pool: Pool, add_query: Callable[..., Query], tmp_path: Path) -> None:
    made = [add_query(f"query number {n}") for n in range(8)]
    labels.record_many([labels.NewLabel(query.pk, "import", [0], ALL) for query in made])
    place = tmp_path / "made" / "folder"
    out, _err = run("dataset_split", pool="support", ratios="50/25/25", output=str(place))
    assert f"written to {place}" in out
    found = read_folder(place)
    assert [len(split) for split in (found.train, found.val, found.test)] == [4, 2, 2]
    assert [agent.key for agent in found.agents] == ["billing", "account", "technical", "shipping"]
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match="choose another --output"):
        run("dataset_split", pool="support", output=str(tmp_path / "file"))


@pytest.mark.parametrize("ratios", ["1/2", "a/b/c", "0/0/0", "-1/1/1", "nan/1/1", "inf/1/1", ""])
def test_ratios_that_are_none(pool: Pool, ratios: str) -> None:
    with pytest.raises(CommandError, match="is not three shares"):
        run("dataset_split", pool="support", ratios=ratios)


def test_a_deleted_query_is_in_no_figure(labeled: Query, tmp_path: Path) -> None:
    erased_queries.erase(labeled)
    out, _err = run("dataset_stats", pool="support")
    assert "0 queries, 0 with gold" in out


def test_a_text_file_of_json_objects_is_not_taken_for_texts(pool: Pool, tmp_path: Path) -> None:
    path = tmp_path / "tickets.txt"
    path.write_text('{"text": "one"}\n')
    with pytest.raises(CommandError, match="Say --format jsonl"):
        call_command("import_queries", str(path), "--pool", pool.slug, "--format", "txt")
    call_command("import_queries", str(path), "--pool", pool.slug)
    assert Query.objects.get().text == "one"
