from __future__ import annotations

import dataclasses

import pytest

from training_app.engine.config import PUBLISHED, Config, ConfigError


def test_every_setting_is_documented_and_its_default_within_bounds() -> None:
    for field in dataclasses.fields(Config):
        assert len(field.metadata["doc"]) > 20, field.name
        assert field.metadata["group"] in {"run", "scorer", "policy", "answer", "ablation"}
        if field.metadata["choices"]:
            assert field.default in field.metadata["choices"]
    assert Config().changed() == {}


def test_strings_are_read_as_the_fields_type() -> None:
    config = Config.from_mapping(
        {"gamma": "0.5", "total_steps": "1_000", "hidden_layers": "[8, 4]", "save_best": "no", "encoder": "linear"}
    )
    assert (config.gamma, config.total_steps, config.hidden_layers, config.save_best) == (0.5, 1000, (8, 4), False)
    assert Config.from_mapping(config.to_mapping()) == config
    assert config.changed()["hidden_layers"] == [8, 4]


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"gama": 1}, "gama"),
        ({"gamma": 2}, "gamma"),
        ({"gamma": "x"}, "gamma"),
        ({"gamma": float("nan")}, "gamma"),
        ({"gamma": None}, "gamma"),
        ({"gamma": True}, "gamma"),
        ({"gamma": 0}, "gamma"),
        ({"total_steps": 1.5}, "total_steps"),
        ({"total_steps": 0}, "total_steps"),
        ({"total_steps": "1e99"}, "total_steps"),
        ({"hidden_layers": []}, "hidden_layers"),
        ({"hidden_layers": [0]}, "hidden_layers"),
        ({"hidden_layers": 8}, "hidden_layers"),
        ({"save_best": "perhaps"}, "save_best"),
        ({"save_best": 1}, "save_best"),
        ({"encoder": "bert"}, "encoder"),
        ({"encoder": 1}, "encoder"),
        ({"encoder": "embedding"}, "embedding_path"),
        ({"min_agents": 3, "max_agents": 2}, "max_agents"),
        ({"min_replay_size": 10, "replay_buffer_size": 5}, "min_replay_size"),
        ({"folds": 1}, "folds"),
        ({"action_masking": False}, "action_masking"),
        ({"training": 3}, "training"),
    ],
)
def test_a_bad_setting_is_named(values: dict, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.from_mapping(values)
    assert caught.value.field == field
    assert str(caught.value).startswith(field)


def test_the_peers_file_is_read() -> None:
    settings = {k: v for k, v in PUBLISHED.items() if k not in ("recipe", "tau")}
    config = Config.from_mapping({"training": settings, "recipe": "tfidf", "tau": 0})
    assert config == Config.from_mapping(PUBLISHED)


def test_an_embedding_model_that_is_not_there_is_a_wrong_setting() -> None:
    from training_app.engine.reading.embedding import embed

    with pytest.raises(ConfigError, match=r"^(encoder|embedding_path): "):
        embed("/nowhere", ["a query"])
