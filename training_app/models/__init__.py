"""Everything that training, answering and watching keep, by subject."""

from training_app.models.approvals import PromotionRequest
from training_app.models.backends import BackendCall, BackendLoad
from training_app.models.decisions import Decision, Outcome
from training_app.models.episodes import CallPlaces, Episode, EpisodeMark, Step
from training_app.models.idempotency import KeptAnswer
from training_app.models.kinds import BACKEND_CHOOSER, ORCHESTRATOR, SET_ROUTER
from training_app.models.launching import LaunchRule, Sweep
from training_app.models.live import Canary, LiveSettings, LiveTally, ShadowScore
from training_app.models.packed import PackedDecisions
from training_app.models.runs import Checkpoint, Run, RunEvent
from training_app.models.scorecards import Baseline, Card, Folded, Interval, LearntRoster, Scorecard
from training_app.models.throttling import KeyMinute
from training_app.models.versions import Artifact, Comparison, Judgement, Promotion, RouterModel
from training_app.models.watching import (
    Alarm,
    AlarmDelivery,
    AlarmMute,
    AlarmReceiver,
    DriftPoint,
    DriftReference,
    ProcessSign,
    WatchTurn,
)

__all__ = (
    "BACKEND_CHOOSER",
    "ORCHESTRATOR",
    "SET_ROUTER",
    "Alarm",
    "AlarmDelivery",
    "AlarmMute",
    "AlarmReceiver",
    "Artifact",
    "BackendCall",
    "BackendLoad",
    "Baseline",
    "CallPlaces",
    "Canary",
    "Card",
    "Checkpoint",
    "Comparison",
    "Decision",
    "DriftPoint",
    "DriftReference",
    "Episode",
    "EpisodeMark",
    "Folded",
    "Interval",
    "Judgement",
    "KeptAnswer",
    "KeyMinute",
    "LaunchRule",
    "LearntRoster",
    "LiveSettings",
    "LiveTally",
    "Outcome",
    "PackedDecisions",
    "ProcessSign",
    "Promotion",
    "PromotionRequest",
    "RouterModel",
    "Run",
    "RunEvent",
    "Scorecard",
    "ShadowScore",
    "Step",
    "Sweep",
    "WatchTurn",
)
