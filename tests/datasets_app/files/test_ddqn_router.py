"""Moving in from ddqn-router: what is taken, what is said of the rest, and what stops it."""

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from agents_app.models import Pool
from datasets_app.files import ddqn_router
from datasets_app.models import Label, Query, Split
from training_app.management.commands import import_ddqn_router
from training_app.models import RouterModel

CONFIG = """
agents:
  - {id: 0, name: Billing, description: invoice payment refund}
  - {id: 1, name: Technical, description: bug error crash}
labeler:
  model: gpt-4o-mini
  api_key: sk-never-shown
  input: ./data/raw_texts.txt
  cache: ./cache/label_cache.jsonl
dataset:
  input: ./data/tasks.jsonl
training:
  seed: 7
  total_steps: 10000
  hidden_layers: [128, 64]
  checkpoint_freq: 10
output_dir: ./artifacts/
"""
pytestmark = [pytest.mark.django_db, pytest.mark.both_databases, pytest.mark.commits_for_others]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as ddqn-router leaves it, before its queries were split."""
    place = tmp_path / "07_help_desk"
    for name in ("data", "cache", "artifacts"):
        (place / name).mkdir(parents=True)
    (place / "config.yaml").write_text(CONFIG, encoding="utf-8")
    tasks = [
        {"id": f"ex_{n}", "text": f"{('refund', 'crash')[n % 2]} {n}", "required_agents": [n % 2]} for n in range(40)
    ]
    (place / "data" / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks), encoding="utf-8")
    (place / "data" / "raw_texts.txt").write_text("refund 0\nstill waiting\nnever asked\n", encoding="utf-8")
    known = ddqn_router.cache_key("still waiting", "gpt-4o-mini", "v1")
    answers = [
        json.dumps({"cache_key": known, "model": "gpt-4o-mini", "prompt_version": "v1", "required_agents": [0, 1]}),
        json.dumps({"cache_key": ddqn_router.cache_key("refund 0", "gpt-4o-mini", "v1"), "required_agents": [1]}),
        json.dumps({"cache_key": ddqn_router.cache_key("never asked", "other", "v1"), "required_agents": [1]}),
        "not json", "[]", json.dumps({"cache_key": known + "0", "required_agents": [9]}),
    ]  # fmt: skip
    (place / "cache" / "label_cache.jsonl").write_text("\n".join(answers), encoding="utf-8")
    (place / "artifacts" / "model.pt").write_bytes(b"\x80\x04never opened")
    return place


def moved(folder: Path, *words: str) -> str:
    out = StringIO()
    call_command("import_ddqn_router", str(folder), *words, stdout=out)
    return out.getvalue()


def test_agents_labels_splits_and_the_cache_go_in_and_the_rest_is_said(folder: Path) -> None:
    said = moved(folder)
    pool = Pool.objects.get(slug="help_desk")
    assert list(pool.agents.values_list("number", "name")) == [(0, "Billing"), (1, "Technical")]
    assert Query.objects.filter(dataset__pool=pool, gold__isnull=False).count() == 40
    splits = set(Query.objects.filter(gold__isnull=False).values_list("group__split", flat=True))
    assert splits == set(Split.values)
    label = Label.objects.get(source=Label.Source.LLM)
    assert (label.query.text, sorted(label.required)) == ("still waiting", [0, 1])
    for line in (
        "taken    agents: 2 added",
        "answers for 1 unlabeled texts",
        "differs  training.total_steps counts steps",
        "differs  training.checkpoint_freq has no counterpart",
        "left     labeler.api_key is not read",
        "left     model.pt is a PyTorch file",
    ):
        assert line in said
    assert "sk-never-shown" not in said


def test_a_second_time_adds_what_is_new(folder: Path) -> None:
    moved(folder)
    with (folder / "data" / "tasks.jsonl").open("a") as tasks:
        tasks.write('{"text": "one more crash", "required_agents": [1]}\n{"text": "who?", "required_agents": [5]}\n')
    said = moved(folder)
    assert "1 queries added" in said
    assert "who?" not in Query.objects.values_list("text", flat=True)
    assert Query.objects.count() == 43
    assert Label.objects.filter(source=Label.Source.LLM).count() == 1


def test_splits_that_it_made_are_kept(folder: Path) -> None:
    for name, number in (("train", 0), ("val", 1), ("test", 2)):
        (folder / "data" / f"{name}.jsonl").write_text(
            json.dumps({"text": f"refund {number * 2}", "required_agents": [0]}) + "\n", encoding="utf-8"
        )
    moved(folder)
    found = dict(
        Query.objects.filter(text__in=("refund 0", "refund 2", "refund 4")).values_list("text", "group__split")
    )
    assert found == {"refund 0": "train", "refund 2": "val", "refund 4": "test"}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("agents: []\n", "names no agents"),
        ("- 1\n", "holds no settings"),
        ("agents: [{id: 0, name: A}, {id: 0, name: B}]\n", "stands on line 1 already"),
        ("agents: [{id: zero, name: A}]\n", "must be a whole number"),
        ("agents: [{id: 0, name: A}]\ndataset: 3\n", "dataset must hold settings"),
        ("agents: [{id: 0, name: A}]\ndataset: {train_ratio: much}\n", "must be numbers"),
        ("a: !!python/object/apply:os.system ['true']\n", "is not YAML"),
        ("\0", "is not YAML"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_said_and_nothing_is_made(folder: Path, config: str, said: str) -> None:
    (folder / "config.yaml").write_text(config, encoding="utf-8")
    with pytest.raises(CommandError, match=said):
        moved(folder)
    assert not Pool.objects.exists()


def test_a_folder_without_a_configuration(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="No such file"):
        moved(tmp_path)
    with pytest.raises(CommandError, match="needs --train"):
        moved(tmp_path, "--promote")


# The heartbeat of a training has a connection of its own.
@pytest.mark.at_length
@pytest.mark.django_db(transaction=True)
def test_train_takes_its_configuration_for_the_published_recipe(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved(folder)
    (folder / "config.yaml").write_text(CONFIG.replace("10000", "60"), encoding="utf-8")
    quick = ("val_eval_freq=30", "min_replay_size=10", "baselines=false", "tfidf_max_features=50")
    words = [word for setting in quick for word in ("--set", setting)]
    call_command("train", "--pool", "help_desk", "--config", str(folder / "config.yaml"), *words, stdout=StringIO())
    config = RouterModel.objects.get().run.config
    assert (config["recipe"], config["total_steps"], config["seed"], config["hidden_layers"]) == (
        "tfidf",
        60,
        7,
        [128, 64],
    )
    assert "not read: agents, labeler, dataset, output_dir, training.checkpoint_freq" in capsys.readouterr().err


def test_train_and_promote_start_a_run_with_its_seed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(import_ddqn_router, "call_command", lambda *words, stdout: ran.append(words))
    said = moved(folder, "--slug", "moved", "--train", "--promote")
    assert ran == [("train", "--pool", "moved", "--set", "seed=7", "--promote")]
    assert said.rstrip().endswith('python manage.py route "your query" --pool moved')
