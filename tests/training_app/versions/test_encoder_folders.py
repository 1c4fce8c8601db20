"""A run names encoders that lie in TEACHERS_DIR, and no other path of the server."""

import pytest

from training_app.engine.config import ConfigError
from training_app.versions import kinds
from training_app.versions.encoder_folders import router_config

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


def test_without_either_settings_are_as_told() -> None:
    assert router_config({"seed": 3}).changed() == {"seed": 3}
