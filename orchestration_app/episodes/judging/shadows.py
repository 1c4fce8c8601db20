"""Orchestrators that decide beside the one that does: what they would have done in the states of its episodes.

When an episode has ended, each of its decisions goes to `answering.shadowing`, which asks the shadow in the background and writes what
it says. A shadow calls nobody, so it is asked about the path that was walked, never about one of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from orchestration_app.engine.orchestrating import loop
from orchestration_app.engine.orchestrating.loop import Policy
from orchestration_app.engine.orchestrating.state import Call
from orchestration_app.engine.orchestrating.turns import Decision, Limits
from training_app.answering import shadowing


@dataclass(frozen=True, slots=True)
class Moment:
    """What an orchestrator had before it when it decided: the task, the calls of its path so far, and the limits."""

    messages: Sequence[Mapping[str, str]]
    calls: tuple[Call, ...]
    limits: Limits


@dataclass(frozen=True, slots=True)
class ShadowPolicy:
    """A version that decides beside the active one."""

    pk: int
    policy: Policy

    def says(self, moment: Moment) -> tuple[Sequence[int], bool]:
        """The agents (ids) that it would have called next, none where it would have stopped. It never abstains."""
        return loop.next_step(self.policy, moment.messages, moment.calls, moment.limits).chosen, False


def offer(
    shadows: Sequence[ShadowPolicy], against: int, episode: UUID, turn: int, decision: Decision, moment: Moment
) -> None:
    """Have every shadow asked about one decision of an episode; one that limits made is nobody's choice and is left out."""
    if not decision.chosen and decision.reason != "stop":
        return
    # An episode's id begins with its time; its last 16 bits give way to the decision's turn and path.
    number = episode.int >> 16 << 16 | (turn << 4 | decision.path) & 0xFFFF
    for shadow in shadows:
        shadowing.offer(shadowing.Task(shadow, against, number, moment, decision.chosen, 0))
