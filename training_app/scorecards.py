"""A model's scorecard in the words and rows of a page."""

from collections.abc import Sequence
from typing import Any

from training_app.engine.data import Agent
from training_app.models import RouterModel


def headline(model: RouterModel) -> dict[str, float]:
    return {}


def with_headlines(models: Sequence[RouterModel]) -> Sequence[RouterModel]:
    return models


def verdict(model: RouterModel) -> str:
    return ""


def agents(model: RouterModel) -> tuple[Agent, ...]:
    """The roster that the model learnt."""
    return tuple(Agent(**{**entry, "keywords": tuple(entry["keywords"])}) for entry in model.roster)


def context(model: RouterModel) -> dict[str, Any]:
    return {}
