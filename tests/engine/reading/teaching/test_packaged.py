"""Encoders that packages bring: found without their code, read only where each file is the known one, and minilm itself where
`make teacher` has installed it."""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.engine.synthetic import AGENTS, examples
from training_app.engine.config import ConfigError
from training_app.engine.data.rows import rows_of
from training_app.engine.reading.teaching import packaged
from training_app.engine.reading.teaching.packaged import PACKAGED, PackagedEncoder
from training_app.engine.reading.teaching.teacher_folder import teacher_folder

CONTENTS = {
    "config.json": json.dumps({"model_type": "bert", "max_position_embeddings": 64}),
    "tokenizer.json": "{}",
    "model.safetensors": "weights",
    "1_Pooling/config.json": json.dumps({"pooling_mode_mean_tokens": True}),
}
MINILM = Path(__file__).parents[4] / ".venv-teacher"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages with a made-up encoder in it, whose code must never run, as the name `tiny`."""
    (tmp_path / "tiny_encoder-1.0.dist-info").mkdir()
    (tmp_path / "tiny_encoder-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: tiny-encoder\n")
    (tmp_path / "tiny_encoder" / "data" / "1_Pooling").mkdir(parents=True)
    (tmp_path / "tiny_encoder" / "__init__.py").write_text("raise SystemExit('its code ran')\n")
    for name, content in CONTENTS.items():
        (tmp_path / "tiny_encoder" / "data" / name).write_text(content)
    hashes = {name: hashlib.sha256(content.encode()).hexdigest() for name, content in CONTENTS.items()}
    tiny = PackagedEncoder("tiny-encoder", "1.0", "tiny_encoder/data", "tiny-of-all", "Tiny", "English", "mit", hashes)
    monkeypatch.setitem(PACKAGED, "tiny", tiny)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "tiny_encoder" / "data"


def test_a_short_name_is_the_packages_folder(site: Path) -> None:
    found = teacher_folder("tiny")
    assert (found.path, found.name, found.licence, found.tokens) == (site, "tiny-of-all", "mit", 64)
    assert found.about()["sha256"] == hashlib.sha256(b"weights").hexdigest()


@pytest.mark.parametrize("name", CONTENTS)
def test_a_file_that_was_changed_is_not_read(site: Path, name: str) -> None:
    (site / name).write_text(CONTENTS[name] + " ")
    with pytest.raises(
        ConfigError, match=r"is not the file that this version.*: install tiny-encoder==1\.0"
    ) as refused:
        teacher_folder("tiny")
    assert name in refused.value.reason
    assert refused.value.field == "teacher"


@pytest.mark.parametrize("name", CONTENTS)
def test_a_file_that_is_missing_is_named(site: Path, name: str) -> None:
    (site / name).unlink()
    with pytest.raises(ConfigError, match=f"holds no {name}: install tiny-encoder==1.0"):
        teacher_folder("tiny")


def test_a_file_that_the_package_does_not_have_is_refused(site: Path) -> None:
    """transformers would read adapter_config.json, whoever put it there."""
    (site / "adapter_config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"holds adapter_config\.json, which is no file of the package"):
        teacher_folder("tiny")


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = PackagedEncoder("no-such-encoder", "1.0", "x", "x", "X", "English", "mit", {})
    monkeypatch.setitem(PACKAGED, "minilm", nowhere)
    assert nowhere.place() is None
    with pytest.raises(ConfigError, match=r"^teacher: needs the package no-such-encoder: install requirements-encoder"):
        teacher_folder("minilm")


def test_a_folder_of_that_name_is_still_read_by_its_path(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own").mkdir()
    site.rename(tmp_path / "own" / "tiny")
    monkeypatch.chdir(tmp_path / "own")
    assert teacher_folder("./tiny").name == "tiny"
    with pytest.raises(ConfigError, match=r"holds no 1_Pooling/config\.json"):
        teacher_folder("tiny")


def test_the_versions_that_pip_brings_are_those_that_the_code_knows() -> None:
    root = Path(__file__).parents[4]
    pinned = f"{PACKAGED['minilm'].package}=={PACKAGED['minilm'].version}"
    assert pinned in (root / "requirements-encoder.txt").read_text().splitlines()
    assert f'"{pinned}"' in (root / "engine" / "pyproject.toml").read_text()
    assert "requirements-encoder.txt" in packaged.INSTALL


@pytest.mark.at_length
def test_minilm_is_fine_tuned_on_a_small_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    if not MINILM.exists() and os.environ.get("REQUIRE_TEACHER") != "1":
        pytest.skip("The encoder minilm is not installed: `make teacher` does it.")
    from training_app.engine.reading.teaching import coaching
    from training_app.engine.reading.teaching.teacher_fit import TeacherScorer

    monkeypatch.syspath_prepend(next(MINILM.glob("lib/python*/site-packages")))
    folder = coaching.checked("minilm")
    assert folder is not None
    rows, others = rows_of(examples(32), AGENTS), rows_of(examples(40, seed=7), AGENTS)
    fitted = TeacherScorer(folder).fit(rows.texts, rows.required, rows.asked, seed=0)
    assert fitted.about["name"] == "all-MiniLM-L6-v2"
    assert fitted.about["licence"] == "apache-2.0"
    assert fitted.about["sha256"] == PACKAGED["minilm"].files["model.safetensors"]
    assert fitted.about["int8"] is True
    right = ((fitted.logits(others.texts) > 0) == others.required).mean()
    assert right > max(0.9, 1 - others.required.mean()), "no better than naming nobody"
    assert np.isfinite(fitted.logits([""])).all()
