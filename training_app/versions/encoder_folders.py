"""Which folders of encoders a run may name: those in TEACHERS_DIR, whoever asks.

Runs are launched by people who may train but have no account on the server. Without this door their settings could name any path of
the worker's machine, and the error would tell what lies there. Nothing here looks at the disk: the folder is the worker's.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from training_app.engine.config import Config, ConfigError
from training_app.engine.reading.teaching.teacher_folder import is_hub_name


def router_config(values: Mapping[str, Any]) -> Config:
    """The settings of a set router's run, checked, the encoders they name with their whole paths. Raises ConfigError."""
    config = Config.from_mapping(values)
    if config.teacher and not is_hub_name(config.teacher):
        config = replace(config, teacher=_allowed("teacher", config.teacher))
    if config.embedding_path:
        config = replace(config, embedding_path=_allowed("embedding_path", config.embedding_path))
    return config


def _allowed(field: str, name: str) -> str:
    """The path of a folder in TEACHERS_DIR, told as its name there or as a whole path."""
    home = os.path.abspath(settings.TEACHERS_DIR)
    path = os.path.normpath(os.path.join(home, name))
    if not path.startswith(home.rstrip(os.sep) + os.sep):
        raise ConfigError(
            field,
            _(
                "%(told)s is not in %(home)s, where this server keeps encoders: give the name of a folder in there. Whoever runs the "
                "server may add one, or set TEACHERS_DIR."
            )
            % {"told": name, "home": home},
        )
    return path
