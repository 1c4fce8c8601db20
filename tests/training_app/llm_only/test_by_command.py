"""Queries that nobody has labeled, an LLM, and commands: labels, splits, a router, an answer."""

import json
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from agents_app import keys
from agents_app.models import ApiKey, Pool
from datasets_app.models import Snapshot, SplitGroup
from tests.llm_server import Server
from tests.training_app.llm_only.conftest import said, texts
from training_app.answering import serving
from training_app.models import RouterModel
from training_app.versions import gate, headlines, registry, scorecards, verdict

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.both_databases]
QUICK = ("total_steps=200", "encoder=linear", "judging_folds=0", "sentences=false", "unlabeled=false", "tidy=false")


@pytest.fixture
def walked(folder: Path, llm: Server, capsys: pytest.CaptureFixture[str]) -> Pool:
    """The pool after load, label, split, train and promote."""
    call_command("load_pool", str(folder), slug="desk", name="Desk")
    said(capsys, "label", "--pool", "desk", "--base-url", llm.url, "--model", "m", "--concurrency", "8")
    split = said(capsys, "dataset_split", "--pool", "desk")
    assert "train 0" not in split
    assert "val 0" not in split
    assert "test 0" not in split
    sets = [word for setting in QUICK for word in ("--set", setting)]
    told = said(capsys, "train", "--pool", "desk", "--promote", *sets)
    assert "promoted" in told
    assert "Judged by an LLM's labels." in told
    return Pool.objects.get(slug="desk")


@pytest.mark.process
def test_an_llm_alone_leads_to_a_router_that_answers(walked: Pool, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = Snapshot.objects.get(pool=walked)
    assert snapshot.rows == len(texts())
    assert min(snapshot.split_sizes.values()) > 15, snapshot.split_sizes
    assert snapshot.judged_by == "llm"
    told = said(capsys, "route", "a refund and a parcel in the shop", "--pool", "desk")
    assert set(told.splitlines()[0].split(", ")) == {"Billing", "Shipping"}

    model = registry.active(walked)
    assert model is not None
    assert scorecards.verdict(model).endswith("Judged by an LLM's labels.")
    assert "Judged by an LLM's labels." in gate.judge(model).findings[0].text
    found = verdict.of(model)
    assert found is not None
    assert found.judge == "Judged by an LLM's labels."
    assert headlines.with_headlines([model])[0].judged_by == "llm"  # type: ignore[attr-defined]
    secret = keys.create_key("ops", [walked], [ApiKey.Scope.OPS])[1]
    serving.forget()  # as a process that has served nothing yet
    answer = Client().get("/api/models/?pool=desk", headers={"Authorization": f"Bearer {secret}"})
    assert answer.json()["models"][0]["judged_by"] == "llm"


@pytest.mark.at_length
def test_too_few_are_refused_and_nothing_changes(folder: Path, llm: Server, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("load_pool", str(folder), slug="desk", name="Desk")
    said(capsys, "label", "--pool", "desk", "--base-url", llm.url, "--model", "m", "--limit", "6")
    before = said(capsys, "dumpdata")
    for words in (("--promote",), ("--include-llm",), ("--no-include-llm",)):
        with pytest.raises(CommandError):
            call_command("train", "--pool", "desk", *words)
        capsys.readouterr()
        assert said(capsys, "dumpdata") == before
    assert not SplitGroup.objects.exclude(split="").exists()
    assert not Snapshot.objects.exists()
    assert not RouterModel.objects.exists()
    # So the pool is as free as before: its splits can still be given.
    assert json.loads(before)
    assert "train 5" in said(capsys, "dataset_split", "--pool", "desk", "--ratios", "80/10/10")
