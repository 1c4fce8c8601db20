"""How agents are called and what on, and what came of it, by subject."""

from orchestration_app.models.answers import AnswerRule
from orchestration_app.models.backends import Backend, BackendSettings, Provider
from orchestration_app.models.calls import BackendCall, BackendLoad
from orchestration_app.models.episodes import ANSWERED, CallPlaces, Episode, EpisodeMark, Step
from orchestration_app.models.executors import Executor

__all__ = (
    "ANSWERED",
    "AnswerRule",
    "Backend",
    "BackendCall",
    "BackendLoad",
    "BackendSettings",
    "CallPlaces",
    "Episode",
    "EpisodeMark",
    "Executor",
    "Provider",
    "Step",
)
