"""Everything that training, answering and watching keep, by subject."""

from training_app.models.approvals import PromotionRequest
from training_app.models.archived_days import ArchivedDay
from training_app.models.cases import MustPassCase
from training_app.models.decisions import Decision, Outcome
from training_app.models.idempotency import KeptAnswer
from training_app.models.kinds import SET_ROUTER
from training_app.models.launching import LaunchRule, Sweep
from training_app.models.live import Canary, LiveSettings, LiveTally, ShadowScore
from training_app.models.promises import CheckedAnswer, TrafficLook
from training_app.models.proposals import AgentProposal
from training_app.models.runs import Checkpoint, Run, RunEvent
from training_app.models.scorecards import Baseline, Card, Folded, Interval, LearntRoster, Scorecard
from training_app.models.standings import Standing
from training_app.models.throttling import KeyMinute
from training_app.models.traffic import TrafficHour
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
