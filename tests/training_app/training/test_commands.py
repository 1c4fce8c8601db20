"""The commands: what they do, and the one clear line with which they fail."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.core.management import CommandError, call_command, execute_from_command_line
from django_q.models import OrmQ

from agents_app import pools
from agents_app.models import Agent, Pool
from tests.training_app.told import TrainError, progress
from training_app.engine import Router
from training_app.engine.progress import Progress
from training_app.management.commands.train import Bar
from training_app.models import RouterModel, Run
from training_app.training import runs, tasks
from training_app.versions import registry

Make = Callable[..., RouterModel]
# The heartbeat of a training has a connection of its own.
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.commits_for_others]


def said(*arguments: str, **options: object) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out, stderr=StringIO(), **options)
    return out.getvalue()


# ---------------------------------------------------------------------------------------------------- the real engine, once


@pytest.mark.at_length
def test_train_evaluate_export_import_and_route_with_the_real_engine(labeled: Pool, tmp_path: Path) -> None:
    trained = said("train", "--pool", "support", "--set", "total_steps=60", "--set", "encoder=linear", "--promote")
    assert "support-1 is promoted" in trained
    run = Run.objects.get()
    assert (run.status, run.config["total_steps"]) == ("done", 60)
    assert run.events.exclude(metrics={}).exists()
    model = registry.active(labeled)
    assert model
    assert model.card.measured_on == "test"
    assert {agent["name"] for agent in model.roster} == {"Billing", "Shipping", "Technical"}

    answers = tmp_path / "answers.jsonl"
    assert "Measured on 18 labeled ones." in said("evaluate", "--pool", "support", "--output", str(answers))
    lines = [json.loads(line) for line in answers.read_text().splitlines()]
    assert len(lines) == 18
    assert set(lines[0]) >= {"text", "agents", "agent_names", "scores", "stop_reason", "required_agents"}

    figures = tmp_path / "metrics.json"
    told = said("evaluate", "--pool", "support", "--output", str(figures))
    measured = json.loads(figures.read_text())
    assert (measured["model"], measured["queries"]) == ("support-1", 18)
    assert set(measured["metrics"]["jaccard"]) == {"mean", "low", "high"}
    assert sum(size["queries"] for size in measured["by_size"].values()) == 18
    assert "Too few answers to judge: 18 checked. Check 32 more." in told
    assert "By how many agents are needed:" not in told

    unlabeled = tmp_path / "queries.txt"
    unlabeled.write_text("where is my parcel\n\nthe app crashes\n")
    told = said("evaluate", "--pool", "support", "--input", str(unlabeled))
    assert "routed 2 queries" in told
    assert "nothing to measure" in told

    folder = tmp_path / "model"
    said("export_model", "--pool", "support", "--out", str(folder))
    assert (folder / "weights.safetensors").is_file()
    keys = dict(Pool.objects.get(slug="support").agents.values_list("number", "key"))
    assert {agent.id: agent.key for agent in Router.load(folder).agents} == keys
    assert "support-2 is a candidate" in said("import_model", str(folder), "--pool", "support")
    listed = said("list_models", "--pool", "support").splitlines()
    assert [line.split()[:2] for line in listed[1:3]] == [["support-2", "candidate"], ["support-1", "active"]]
    assert listed[1].split()[2:5] == listed[2].split()[2:5]
    assert listed[1].endswith("import  Too close to tell."), (
        "it is compared on the queries that both were cross-validated on"
    )

    (folder / "config.json").write_text("{}")
    with pytest.raises(CommandError, match="checksum"):
        said("import_model", str(folder), "--pool", "support")
    said("export_model", "--pool", "support", "--out", str(tmp_path / "model.zip"))
    other = pools.create_pool("Other", "other", actor=None)
    with pytest.raises(CommandError, match="does not have"):
        said("import_model", str(tmp_path / "model.zip"), "--pool", "other")
    for name in ("Gardening", "Cooking", "Sailing"):
        pools.add_agent(other, name)
    with pytest.raises(CommandError, match=r"is Billing in the model and Gardening"):
        said("import_model", str(tmp_path / "model.zip"), "--pool", "other")
    assert Agent.objects.filter(pool=other).count() == 3
    assert not RouterModel.objects.filter(pool=other).exists()


# ---------------------------------------------------------------------------------------------------- train


def test_train_hands_a_run_to_the_queue(labeled: Pool) -> None:
    assert "is queued" in said("train", "--pool", "support", "--queue")
    assert Run.objects.get().status == "queued"
    assert OrmQ.objects.get().key == "train"


def test_train_reads_its_settings_from_a_file_and_the_line_wins(
    labeled: Pool, training: SimpleNamespace, tmp_path: Path
) -> None:
    file = tmp_path / "run.yaml"
    file.write_text("training:\n  total_steps: 10\n  gamma: 0.5\nhidden_layers: [8, 4]\n")
    said("train", "--pool", "support", "--config", str(file), "--set", "gamma=0.75")
    config = Run.objects.get().config
    assert (config["total_steps"], config["gamma"], config["hidden_layers"]) == (10, 0.75, [8, 4])
    assert not OrmQ.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--pool", "nope"], "no pool has the slug 'nope'"),
        (["--pool", "support", "--set", "gamma"], "expected KEY=VALUE"),
        (["--pool", "support", "--set", "gamma=9"], "gamma: must be from 0 to 1"),
        (["--pool", "support", "--set", "magic=9"], "magic: unknown setting"),
        (["--pool", "support", "--config", "/nowhere.yaml"], "/nowhere.yaml: No such file"),
    ],
)
def test_train_says_what_is_wrong_in_one_line(labeled: Pool, arguments: list[str], line: str) -> None:
    with pytest.raises(CommandError) as caught:
        said("train", *arguments)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not Run.objects.exists()


@pytest.mark.parametrize("content", ["a: [", "- one\n- two", "just words"])
def test_train_refuses_a_file_that_holds_no_settings(labeled: Pool, tmp_path: Path, content: str) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(content)
    with pytest.raises(CommandError, match=r"run\.yaml"):
        said("train", "--pool", "support", "--config", str(file))


def test_train_fails_with_the_engines_reason(labeled: Pool, training: SimpleNamespace) -> None:
    training.steps = [TrainError("All queries of the train split have the same text: label different ones.")]
    with pytest.raises(CommandError, match="label different ones"):
        said("train", "--pool", "support")
    assert Run.objects.get().status == "failed"


def test_train_without_labels(pool: Pool) -> None:
    with pytest.raises(CommandError, match="no gold labels"):
        said("train", "--pool", "support")


def test_control_c_cancels_the_run(labeled: Pool, training: SimpleNamespace) -> None:
    training.steps = [progress(), KeyboardInterrupt()]
    with pytest.raises(CommandError, match="was cancelled"):
        said("train", "--pool", "support")
    assert Run.objects.get().status == "cancelled"


# ---------------------------------------------------------------------------------------------------- models


def test_promote_and_rollback(make_model: Make, pool: Pool) -> None:
    make_model(), make_model()
    assert "support-1 answers now, the first of its pool" in said("promote", "support-1")
    assert "support-2 answers now instead of support-1" in said("promote", "support-2", "--override", "better")
    assert "support-1 answers now instead of support-2" in said("rollback", "--pool", "support")
    with pytest.raises(CommandError, match="no earlier model"):
        said("rollback", "--pool", "support")
    with pytest.raises(CommandError, match="no model support-9"):
        said("promote", "support-9")


def test_nothing_is_active(pool: Pool, tmp_path: Path) -> None:
    assert "no models yet" in said("list_models", "--pool", "support")
    for command in (["evaluate"], ["export_model", "--out", str(tmp_path / "model")]):
        with pytest.raises(CommandError, match="no active model"):
            said(*command, "--pool", "support")


def test_another_pools_model_is_not_taken(make_model: Make, tmp_path: Path) -> None:
    make_model()
    Pool.objects.create(slug="other", name="Other")
    with pytest.raises(CommandError, match="another pool"):
        said("export_model", "--pool", "other", "--model", "support-1", "--out", str(tmp_path / "model"))


def test_import_of_nothing(pool: Pool, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="does not exist"):
        said("import_model", str(tmp_path / "nothing"), "--pool", "support")


# ---------------------------------------------------------------------------------------------------- benchmark


def write_folder(folder: Path) -> None:
    agents = [{"id": 0, "name": "Billing"}, {"id": 1, "name": "Shipping"}]
    rows = [{"text": f"my invoice {n}", "required_agents": [0]} for n in range(12)]
    rows += [{"text": f"my parcel {n}", "required_agents": [1]} for n in range(12)]
    parts = {"agents": agents, "train": rows[::2], "val": rows[1::4], "test": rows[3::4]}
    for name, part in parts.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))


@pytest.mark.at_length
@pytest.mark.any_database
def test_benchmark_needs_no_database(tmp_path: Path, django_assert_num_queries: Callable) -> None:
    write_folder(tmp_path)
    file = tmp_path / "figures.json"
    with django_assert_num_queries(0):
        told = said("benchmark", str(tmp_path), "--routers", "constant", "--json", str(file))
    assert "constant" in told
    figures = json.loads(file.read_text())
    assert figures["data"]["test"] == 6
    assert set(figures["routers"]["constant"]["jaccard"]) == {"mean", "low", "high"}


@pytest.mark.parametrize(
    ("options", "line"), [(["--routers", "magic"], "unknown router magic"), (["--seeds", "0"], "seeds")]
)
def test_benchmark_refuses_in_one_line(tmp_path: Path, options: list[str], line: str) -> None:
    write_folder(tmp_path)
    with pytest.raises(CommandError, match=line):
        said("benchmark", str(tmp_path), *options)
    with pytest.raises(CommandError, match="does not exist"):
        said("benchmark", str(tmp_path / "nowhere"))


def test_a_run_that_waits_goes_on_here(labeled: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    run, other = (runs.launch(labeled, config={"total_steps": 70}, include_llm=True, queue=False) for _ in range(2))
    worked: list[int] = []
    monkeypatch.setattr(tasks, "work", lambda run, _attempt, tell: worked.append(run) or "stopped")
    with pytest.raises(CommandError, match="running"):  # nobody trained
        said("train", "--pool", "support", "--resume", str(run.pk))
    assert worked == [run.pk]
    with pytest.raises(CommandError, match="is running; only one that waits can go on"):
        said("train", "--pool", "support", "--resume", str(run.pk))
    with pytest.raises(CommandError, match="leave out --set, --include-llm"):
        said("train", "--pool", "support", "--resume", str(other.pk), "--set", "seed=1", "--include-llm")
    with pytest.raises(CommandError, match="has no run 999"):
        said("train", "--pool", "support", "--resume", "999")


def test_train_takes_llm_labels_only_where_asked(labeled: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool | None] = []

    def launch(*_words: object, include_llm: bool | None, **_more: object) -> None:
        asked.append(include_llm)
        raise runs.RunError("enough")

    monkeypatch.setattr(runs, "launch", launch)
    for words in ((), ("--include-llm",), ("--no-include-llm",)):
        with pytest.raises(CommandError, match="enough"):
            said("train", "--pool", "support", *words)
    assert asked == [None, True, False]


@pytest.mark.parametrize(
    ("words", "code"), [(("train", "--help"), 0), (("train", "--pool", "nobody"), 1), (("train",), 2), (("trian",), 1)]
)
def test_exit_codes(
    words: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr("sys.argv", ["manage.py", *words])
    with pytest.raises(SystemExit) as ended:
        execute_from_command_line()
    assert ended.value.code == code
    capsys.readouterr()


def test_progress_is_a_line_for_each_phase_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 1.0, 2.0, 20.0])
    monkeypatch.setattr("training_app.management.commands.train.time.monotonic", lambda: next(clock))
    bar = Bar()
    for phase, step in (("scorer", 1), ("policy", 0), ("policy", 100), ("policy", 4_000)):
        bar(Progress(phase, step, 10_000))
    bar.close()
    assert capsys.readouterr().err == "  scorer, 1 of 10,000\n  policy, 0 of 10,000\n  policy, 4,000 of 10,000\n"
