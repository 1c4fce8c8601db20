"""Which encoders a run may name: those of packages, and folders in TEACHERS_DIR, whoever asks.

Runs are launched by people who may train but have no account on the server. Without this check their settings could name any path of
the worker's machine, and the error would say what lies there. A check looks at no disk, because the folder is the worker's. What a
form offers is what the web server's machine has.
"""

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from training_app.engine.config import Config, ConfigError
from training_app.engine.reading.teaching.packaged import PACKAGED
from training_app.engine.reading.teaching.teacher import missing_packages
from training_app.engine.reading.teaching.teacher_folder import WEIGHTS, is_hub_name
from training_app.versions.kinds import Choice, Offered


def router_config(values: Mapping[str, Any]) -> Config:
    """The settings of a set router's run, checked, the encoders they name with their whole paths. Raises ConfigError."""
    config = Config.from_mapping(values)
    if config.teacher and config.teacher not in PACKAGED and not is_hub_name(config.teacher):
        config = replace(config, teacher=_allowed("teacher", config.teacher))
    if config.embedding_path:
        config = replace(config, embedding_path=_allowed("embedding_path", config.embedding_path))
    return config


def teachers() -> Choice:
    """The teachers that a form offers: none, those of packages, installed or not, and the folders in TEACHERS_DIR."""
    trainable = not missing_packages()
    offered = [Offered("", _("None"))]
    missing = []
    for name, encoder in PACKAGED.items():
        title = f"{encoder.title}, {encoder.languages}"
        if trainable and encoder.place() is not None:
            offered.append(Offered(name, _("%(encoder)s (packaged)") % {"encoder": title}))
        else:
            offered.append(Offered(name, _("%(encoder)s (not installed)") % {"encoder": title}, usable=False))
            missing.append(encoder.title)
    offered += [Offered(path, os.path.basename(path), trainable) for path in _folders()]
    text = _(
        "A model that already knows a language. It is trained further on this pool's labels and joins the router if that helps, which "
        "is likeliest with 50 to 200 labels. Training takes ten times as long or more, a route 2 to 5 ms more if the teacher serves."
    )
    if missing:
        text += " " + _(
            "%(names)s: whoever runs the server installs Routerweb's teacher packages, on the workers and here; the documentation "
            "says how under “A teacher”."
        ) % {"names": ", ".join(missing)}
    return Choice(tuple(offered), text)


def _folders() -> list[str]:
    """The paths of the encoders in TEACHERS_DIR on this machine, by name; none where the folder cannot be read."""
    try:
        with os.scandir(settings.TEACHERS_DIR) as entries:
            return sorted(entry.path for entry in entries if os.path.isfile(os.path.join(entry.path, WEIGHTS)))
    except OSError:
        return []


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
