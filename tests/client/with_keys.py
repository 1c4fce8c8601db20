"""A file that `manage.py export_model` could have written: a small router whose agents have keys."""

from dataclasses import replace
from pathlib import Path

from tests.training_app import trained
from training_app.engine.data import artifact

KEYS = {0: "billing", 1: "shipping", 2: "technical"}


def write(path: Path) -> Path:
    """Write the file, and return its path."""
    parts = artifact.read(trained.result().artifact)
    agents = [agent | {"key": KEYS[agent["id"]]} for agent in parts.config["agents"]]
    replace(parts, config=parts.config | {"agents": agents}).write(path)
    return path
