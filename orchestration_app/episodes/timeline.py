"""One episode to read: its steps path by path, with who else could have been chosen and why it was this one; and as JSON to export."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from agents_app.models import Agent
from orchestration_app.calls.parts import FAILURES, Exchange
from orchestration_app.engine.orchestrating.state import Allowance
from orchestration_app.episodes import policies, turn_rows
from orchestration_app.episodes.asides import Aside
from orchestration_app.models import Episode, Step
from training_app.models import RouterModel
from training_app.versions import registry

log = logging.getLogger(__name__)

#: What the policy sees, in words; what stands for all agents has no "(all)" here.
WORDS = {
    "task": _("what the task reads like"), "needed": _("how likely the task needs it"), "one_shot": _("the router would call it"),
    "pending": _("the router would, and nobody has"), "called": _("it was called"), "times": _("how often it was called"),
    "failed": _("how often it failed"), "empty": _("how often it said nothing"), "last_says": _("the last output points to it"),
    "most_says": _("an output points to it"), "cost": _("its cost"), "share": _("its cost by the budget left"),
    "last": _("it spoke last"),
    "steps": _("steps so far"), "left": _("steps left"), "spent": _("cost so far"), "budget": _("budget left"),
    "begun": _("whether any agent was called"), "distinct": _("how many were called"), "expected": _("how many are still needed"),
    "likeliest": _("the likeliest that is still needed"), "last_failed": _("the last call failed"),
    "last_empty": _("the last output was empty"), "length": _("how long the last output is"),
    "what the outputs say": _("what the outputs say"), "who answered last": _("who spoke last"),
}  # fmt: skip
#: What spoke for a choice, at most so many reasons; and so many choices beside the one that was taken.
REASONS, OTHERS = 4, 4
#: Characters of an output that is shown without a click.
SHORT = 600


@dataclass(frozen=True, slots=True)
class Card:
    """One row of the timeline. `others` are the likeliest choices, (agent or None for stopping, probability, whether it was taken);
    `why` what moved the policy most, (feature, by how much)."""

    step: Step
    agent: Agent | None
    probability: float | None
    others: list[tuple[Agent | None, float, bool]]
    why: list[tuple[str | Promise, float]] = field(default_factory=list)
    together: int = 1

    @property
    def sentence(self) -> str:
        """Who was called and why, in words."""
        if self.step.metadata.get("arguments") is not None and self.step.metadata.get("tool"):
            return gettext("Its tool %(tool)s was called.") % {"tool": self.step.metadata["tool"]}
        if self.together > 1:
            return gettext("Called at the same time as others: none of them needs another's output.")
        if self.why:
            return gettext("Called mainly because: %(why)s.") % {"why": self.why[0][0]}
        return gettext("Called next.")

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """Questions that the agent asked, with the answers."""
        return Aside.of(self.step.metadata).exchanges

    @property
    def failed(self) -> str:
        """Why the call has no answer, in words."""
        return str(FAILURES.get(self.step.failure, self.step.failure))

    @property
    def open(self) -> bool:
        """Whether the output is short enough to be shown at once."""
        return len(self.step.output) <= SHORT


@dataclass(frozen=True, slots=True)
class Lane:
    """One path: its number from 1 and its cards in order."""

    number: int
    cards: list[Card]


def parts(answer: str) -> list[tuple[str, str]]:
    """An answer by its headings, each with the text below it; "" for what has none."""
    pieces = re.split(r"(?m)^## (.+)$", answer)
    result = [("", pieces[0].strip())] if pieces[0].strip() else []
    return result + [(heading.strip(), text.strip()) for heading, text in zip(pieces[1::2], pieces[2::2], strict=True)]


def in_a_line(answer: str) -> str:
    """An answer for a list: each part behind its heading."""
    return " · ".join(f"{heading}: {text}" if heading else text for heading, text in parts(answer))


def read(episode: Episode, agents: Mapping[int, Agent]) -> list[Lane]:
    """The episode path by path; the call that makes one answer of several stands last in the first."""
    rows = list(episode.trajectory.all())
    whys = _whys(episode, rows)
    beside: dict[tuple[int, int], int] = {}
    for row in rows:
        beside[row.turn, row.path] = beside.get((row.turn, row.path), 0) + 1
    lanes: dict[int, list[Card]] = {}
    for row in rows:
        chosen = dict(zip(row.candidates, row.probabilities, strict=True))
        likely = sorted(chosen.items(), key=lambda choice: -choice[1])[:OTHERS]
        others = [(agents.get(number) if number is not None else None, p, number == row.agent) for number, p in likely]
        agent = agents.get(row.agent) if row.agent is not None else None
        together, probability = beside[row.turn, row.path], chosen.get(row.agent)
        if episode.model_id is None and together > 1:  # a set is chosen as a whole: no agent of it has a probability
            probability, others = None, []
        why = whys.get((row.turn, row.path, row.place), [])
        card = Card(row, agent, probability, others, why, together)
        lanes.setdefault(row.path, []).append(card)
    return [Lane(path + 1, lanes[path]) for path in sorted(lanes)]


def _whys(episode: Episode, rows: list[Step]) -> dict[tuple[int, int, int], list[tuple[str | Promise, float]]]:
    """Why each choice was made, by what the version makes of the same state again; nothing where it cannot be loaded."""
    if episode.model_id is None:
        return {}
    model = RouterModel.objects.only("pk", "artifact_digest").get(pk=episode.model_id)
    try:
        policy: Any = policies.version(model.pk, model.artifact_digest)
    except registry.RegistryError as error:
        log.info("episode %s is shown without reasons: %s", episode.pk, error)
        return {}
    if not hasattr(policy, "why"):
        return {}
    reasons: dict[tuple[int, int, int], list[tuple[str | Promise, float]]] = {}
    for path in {row.path for row in rows}:
        answers = [row for row in rows if row.path == path and row.aim == "answer"]
        state = policy.begin(episode.messages, Allowance(episode.max_steps, episode.budget))
        for turn in dict.fromkeys(row.turn for row in answers):
            now = [row for row in answers if row.turn == turn]
            for row in now:
                if row.agent is None or row.agent in policy.ids:
                    why = policy.why(state, row.agent, REASONS)
                    reasons[row.turn, row.path, row.place] = [
                        (WORDS.get(name.removesuffix(" (all)"), name), part) for name, part in why
                    ]
            if any(row.status not in turn_rows.ENDED for row in now):
                break
            if calls := turn_rows.calls_of(now, path):
                state = policy.after(state, calls)
    return reasons


def as_json(episode: Episode) -> dict[str, Any]:
    """An episode with its trajectory, for a file."""
    return {
        "episode_id": str(episode.pk),
        "at": episode.created_at.isoformat(),
        "policy": episode.policy,
        "status": episode.status,
        "messages": episode.messages,
        "plan": episode.plan,
        "max_steps": episode.max_steps,
        "budget": episode.budget,
        "answer": episode.answer,
        "composed": episode.composed,
        "missing": episode.missing,
        "stop_reason": episode.stop_reason,
        "error": episode.error,
        "cost": episode.cost,
        "tokens": episode.tokens,
        "latency": episode.latency,
        "success": episode.success,
        "rating": episode.rating,
        "comment": episode.comment,
        "trajectory": [
            {**turn_rows.as_json(row, {}), "state": row.state, "reward": row.reward} for row in episode.trajectory.all()
        ],
    }
