"""How agents are called and what on, and what came of it, by subject."""

from orchestration_app.models.answers import AnswerRule
from orchestration_app.models.backends import Backend, BackendSettings, Provider
from orchestration_app.models.calls import BackendCall, BackendLoad
from orchestration_app.models.episodes import ANSWERED, NO_OUTCOME, UNDER_WAY, CallPlaces, Episode, EpisodeMark, Step
from orchestration_app.models.executors import LANGUAGE_MODELS, Executor
from orchestration_app.models.learning import EpisodeLearning
from orchestration_app.models.spending import ExecutorCheck, MonthSpend, SpendLimit
