"""A run names encoders that lie in TEACHERS_DIR, and no other path of the server."""

from pathlib import Path

import pytest

from training_app.engine.config import ConfigError
from training_app.engine.reading.teaching import teacher
from training_app.engine.reading.teaching.packaged import PackagedEncoder
from training_app.versions import kinds
from training_app.versions.encoder_folders import router_config, teachers

OUTSIDE = ["/etc", "..", ".", "../elsewhere", "mini/../../elsewhere", "/srv/encoders-of-others/mini", "/srv/encoders"]


@pytest.fixture(autouse=True)
def home(settings: object) -> None:
    settings.TEACHERS_DIR = "/srv/encoders"  # type: ignore[attr-defined]


@pytest.mark.parametrize("told", ["mini", "/srv/encoders/mini", "./mini", "x/../mini"])
def test_a_folder_is_told_by_its_name_or_its_path(told: str) -> None:
    assert router_config({"teacher": told}).teacher == "/srv/encoders/mini"
    assert router_config({"encoder": "embedding", "embedding_path": told}).embedding_path == "/srv/encoders/mini"


def test_a_name_of_the_hub_is_left_as_it_is() -> None:
    assert router_config({"teacher": "intfloat/multilingual-e5-small"}).teacher == "intfloat/multilingual-e5-small"


@pytest.mark.parametrize("told", OUTSIDE)
def test_what_lies_elsewhere_is_refused_unseen(told: str) -> None:
    with pytest.raises(ConfigError, match="set TEACHERS_DIR") as refused:
        kinds.of("set_router").config({"teacher": told})
    assert refused.value.field == "teacher"
    with pytest.raises(ConfigError, match="set TEACHERS_DIR") as refused:
        router_config({"encoder": "embedding", "embedding_path": told})
    assert refused.value.field == "embedding_path"


def test_a_packaged_encoder_is_left_as_it_is_and_a_folder_of_its_name_has_a_path() -> None:
    assert router_config({"teacher": "minilm"}).teacher == "minilm"
    assert router_config({"teacher": "./minilm"}).teacher == "/srv/encoders/minilm"


def offered() -> dict[str, tuple[str, bool]]:
    return {one.value: (one.label, one.usable) for one in teachers().values}


def test_a_form_offers_the_package_and_the_folders(
    settings: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TEACHERS_DIR = str(tmp_path)  # type: ignore[attr-defined]
    for name in ("mini", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_text("")
    (tmp_path / "no encoder").mkdir()
    (tmp_path / "a file").write_text("")
    folders = {str(tmp_path / "mini"): ("mini", True), str(tmp_path / "other"): ("other", True)}
    monkeypatch.setattr(PackagedEncoder, "place", lambda self: tmp_path)
    monkeypatch.setattr(teacher, "find_spec", lambda name: object())
    assert offered() == {"": ("None", True), "minilm": ("MiniLM, English (packaged)", True), **folders}
    assert "whoever runs the server" not in teachers().help
    monkeypatch.setattr(PackagedEncoder, "place", lambda self: None)
    assert offered() == {"": ("None", True), "minilm": ("MiniLM, English (not installed)", False), **folders}
    assert "MiniLM: whoever runs the server installs" in teachers().help


def test_without_what_trains_a_teacher_none_can_be_chosen(
    settings: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.TEACHERS_DIR = str(tmp_path)  # type: ignore[attr-defined]
    (tmp_path / "mini").mkdir()
    (tmp_path / "mini" / "model.safetensors").write_text("")
    monkeypatch.setattr(PackagedEncoder, "place", lambda self: tmp_path)
    monkeypatch.setattr(teacher, "find_spec", lambda name: None if name == "onnx" else object())
    assert [value for value, (_, usable) in offered().items() if usable] == [""]


def test_a_folder_that_is_not_there_offers_nothing(settings: object, tmp_path: Path) -> None:
    settings.TEACHERS_DIR = str(tmp_path / "nowhere")  # type: ignore[attr-defined]
    assert list(offered()) == ["", "minilm"]


def test_without_either_settings_are_as_told() -> None:
    assert router_config({"seed": 3}).changed() == {"seed": 3}
