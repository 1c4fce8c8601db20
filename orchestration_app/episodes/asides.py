"""Calls that wait for a person: an agent asked something before it goes on, or somebody approves the call first.

Such a call is a step in state `waiting`, its episode waits with it, and no process holds it. What a person says makes the step
`answered` and queues the episode, whose next process goes on: a question's answer goes to the agent that asked, an approved call is
made. A call that was not approved has failed as `denied`. All of it is in the step's `metadata`, under KEY.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from agents_app import audit, privacy
from agents_app.models import Agent
from orchestration_app.calls.parts import Exchange, Reply, Spec
from orchestration_app.models import Episode, Executor, Step

KEY = "aside"
INPUT, APPROVAL = "input", "approval"
LONGEST = 20_000
#: Codes that stand right before an amount (EUR5000); other letters before digits make a number of a flight or an order.
_CURRENCIES = "AED|ARS|AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|HUF|ILS|INR|JPY|KRW|KZT|MXN|NOK|NZD|PLN|RUB|SEK|SGD|TRY|UAH|USD|ZAR"
#: Words behind a number, and what they multiply it by.
_THOUSANDS, _MILLIONS = (
    r"k|thousand|tsd|tausend|mil|тыс|тысяч\w*",
    r"mio|mn|mln|million\w*|millón|millones|млн|миллион\w*",
)
_AMOUNT = re.compile(
    rf"(?<![\w.])(?:{_CURRENCIES})?(\d[\d'\u2019\u00a0,.]*)(?:[ \u00a0]?(?:(?P<k>{_THOUSANDS})|(?P<m>{_MILLIONS}))(?!\w))?",
    re.IGNORECASE,
)


class AsideError(Exception):
    """Why nothing can be said now, in words; `code` is a word for programs."""

    def __init__(self, message: str, code: str = "invalid", field: str = "") -> None:
        super().__init__(message)
        self.code, self.field = code, field


@dataclass(frozen=True, slots=True)
class Aside:
    """What a call waits for and what was said. `cost` is what it has cost so far, `question` what is asked now, "" for nothing."""

    kind: str = ""
    question: str = ""
    exchanges: tuple[Exchange, ...] = ()
    resume: Mapping[str, Any] = field(default_factory=dict)
    approved: bool = False
    cost: float = 0.0

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> "Aside":
        """What a step's metadata hold."""
        stored = metadata.get(KEY)
        if not isinstance(stored, Mapping):
            return cls()
        exchanges = tuple(
            Exchange(exchange["question"], exchange["answer"]) for exchange in stored.get("exchanges", ())
        )
        rest = {name: stored[name] for name in ("kind", "question", "resume", "approved", "cost") if name in stored}
        return cls(exchanges=exchanges, **rest)

    def as_json(self) -> dict[str, Any]:
        """For a step's metadata."""
        return {
            "kind": self.kind, "question": self.question, "exchanges": [exchange.as_json() for exchange in self.exchanges],
            "resume": dict(self.resume), "approved": self.approved, "cost": self.cost,
        }  # fmt: skip


def asked(before: Aside, reply: Reply) -> Aside:
    """The aside of a call whose agent asked something now."""
    return Aside(INPUT, reply.content, before.exchanges, reply.resume, before.approved, before.cost + reply.cost)


# --- Approval ---------------------------------------------------------------------------------------------------------


def needs_approval(spec: Spec, task: Sequence[str], beside: Sequence[str] = ()) -> bool:
    """Whether a person approves a call first: always, or where the largest amount in the task, or in what stands `beside` it for the
    agent, is above the limit. Where the task names no amount, nobody knows that it is not."""
    if spec.approval == Executor.Approval.NEVER:
        return False
    if spec.approval == Executor.Approval.ALWAYS:
        return True
    named = [amount for text in task for amount in amounts(text)]
    return not named or max(named + [amount for text in beside for amount in amounts(text)]) > spec.approval_above


def read_by_agent(messages: Sequence[Mapping[str, Any]], exchanges: Sequence[Exchange] = ()) -> str:
    """What an agent reads of the user and what it asked before, for who approves its call. A message alone stands as it is; where
    there are more, each begins with who said it."""
    turns = [(str(message.get("role", "")), str(message.get("content", ""))) for message in messages]
    turns += [turn for exchange in exchanges for turn in (("agent", exchange.question), ("user", exchange.answer))]
    return turns[0][1] if len(turns) == 1 else "\n\n".join(f"{role}: {content}" for role, content in turns)


def contents(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """The texts of a conversation, all of which its agents read."""
    return [str(message.get("content", "")) for message in messages]


def said_in(exchanges: Sequence[Exchange]) -> list[str]:
    """What an agent asked and what it was answered."""
    return [text for exchange in exchanges for text in (exchange.question, exchange.answer)]


def amounts(text: str) -> list[float]:
    """The numbers in a text, read as people write amounts: 1,250.00, 1.250,00 and 1 250 are the same, EUR5000 and 5k too."""
    result = []
    for found in _AMOUNT.finditer(re.sub(r"(?<=\d) (?=\d{3}(?!\d))", "", text)):
        digits = re.sub(r"['\u2019\u00a0]", "", found[1]).rstrip(",.")
        last = max(digits.rfind(","), digits.rfind("."))
        # A mark that stands alone before three digits groups thousands; else the last one is the decimal mark.
        marks = digits.count(",") + digits.count(".")
        grouped = last >= 0 and len(digits) - last - 1 == 3 and (marks == 1 or digits.count(digits[last]) == marks)
        whole = digits if last < 0 or grouped else digits[:last]
        part = "" if last < 0 or grouped else digits[last + 1 :]
        number = float(f"{re.sub(r'[,.]', '', whole)}.{part or 0}")
        result.append(number * (1e3 if found["k"] else 1e6 if found["m"] else 1.0))
    return result


# --- What a person says -----------------------------------------------------------------------------------------------


def waiting(episode: Episode) -> list[Step]:
    """The steps of an episode that wait for a person, in their order."""
    return [row for row in episode.trajectory.all() if row.status == Step.Status.WAITING]


def as_json(row: Step, names: Mapping[int, str]) -> dict[str, Any]:
    """What a step waits for, as the API says it."""
    aside = Aside.of(row.metadata)
    name = "" if row.agent is None else names.get(row.agent, str(row.agent))
    return {"call": row.call, "agent": row.agent, "name": name, "kind": aside.kind, "question": aside.question}


def answer(episode: Episode, text: str, call: int | None = None) -> None:
    """Answer the question of a call, the only one that waits where `call` is None; the episode goes on. Raises AsideError."""
    text = text.strip()
    if not text:
        raise AsideError(_("Write an answer first."), "missing", "text")
    if len(text) > LONGEST:
        words = _("An answer has at most %(most)d characters.") % {"most": LONGEST}
        raise AsideError(words, "too_long", "text")
    with transaction.atomic():
        row = _locked(episode.pk, call, INPUT)
        before = Aside.of(row.metadata)
        exchanges = (*before.exchanges, Exchange(before.question, text))
        after = Aside(INPUT, "", exchanges, before.resume, before.approved, before.cost)
        _go_on(row, after)
    episode.refresh_from_db()


def decide(episode: Episode, approve: bool, call: int | None = None, *, why: str = "", actor: audit.Who = None) -> None:
    """Approve a call or not; the episode goes on. Raises AsideError."""
    with transaction.atomic():
        row = _locked(episode.pk, call, APPROVAL)
        before = Aside.of(row.metadata)
        if approve:
            _check_agent(episode, row)
        detail = {"agent": row.agent, "call": row.call, "approved": approve}
        audit.record("call.decided", actor=actor, target=str(episode.pk), pool=episode.pool, detail=detail)
        if approve:
            _go_on(row, Aside(APPROVAL, "", before.exchanges, before.resume, True, before.cost))
        else:
            reason = privacy.redacted(episode.pool_id, [why.strip()])[0] or _("A person did not approve the call.")
            Step.objects.filter(pk=row.pk).update(status=Step.Status.FAILED, failure="denied", why=reason[:400])
            _queue(row.episode_id)
    episode.refresh_from_db()


def _locked(key: UUID, call: int | None, kind: str) -> Step:
    """The step that waits for that, its episode locked. Raises AsideError."""
    episode = Episode.objects.select_for_update(no_key=True).get(pk=key)
    rows = list(Step.objects.filter(episode=episode, status=Step.Status.WAITING).order_by("call"))
    fitting = [row for row in rows if Aside.of(row.metadata).kind == kind and call in (None, row.call)]
    if episode.ended or not fitting:
        raise AsideError(_why_not(episode, rows, kind, call), "not_waiting")
    if len(fitting) > 1:
        calls = ", ".join(str(row.call) for row in fitting)
        raise AsideError(_("Several calls wait: choose one of %(calls)s.") % {"calls": calls}, "missing", "call")
    return fitting[0]


def _check_agent(episode: Episode, row: Step) -> None:
    """Nothing, where the agent may be called now. Raises AsideError: it was paused or retired while its call waited."""
    agent = None if row.agent is None else Agent.objects.filter(pool_id=episode.pool_id, number=row.agent).first()
    if agent is None or (agent.state == Agent.State.ACTIVE and agent.available):
        return
    words = (
        _("%(agent)s is retired: its call cannot be made. Refuse it, or bring the agent back first.")
        if agent.state == Agent.State.RETIRED
        else _(
            "%(agent)s is paused: its call cannot be made. Refuse it, or approve it once the agent is available again."
        )
    )
    raise AsideError(words % {"agent": agent.name}, "agent_away", "approve")


def _why_not(episode: Episode, waiting_rows: Sequence[Step], kind: str, call: int | None) -> str:
    """Why no call of an episode can be told that now."""
    if waiting_rows and not episode.ended:
        words = {INPUT: _("call %(call)d for an answer"), APPROVAL: _("call %(call)d for approval")}
        each = [words[Aside.of(row.metadata).kind] % {"call": row.call} for row in waiting_rows]
        return _("Nothing in this episode waits for that. What waits: %(calls)s.") % {"calls": ", ".join(each)}
    decided = [
        row
        for row in Step.objects.filter(episode=episode, call__isnull=False).order_by("call")
        if Aside.of(row.metadata).kind == APPROVAL and call in (None, row.call) and row.status != Step.Status.WAITING
    ]
    if kind == APPROVAL and decided:
        refused = decided[-1].failure == "denied"
        words_ = _("Call %(call)d was refused before.") if refused else _("Call %(call)d was approved before.")
        return words_ % {"call": decided[-1].call}
    return _("Nothing in this episode waits for a person. Its state: %(state)s.") % {"state": episode.status}


def _go_on(row: Step, aside: Aside) -> None:
    metadata = {**row.metadata, KEY: aside.as_json()}
    Step.objects.filter(pk=row.pk).update(status=Step.Status.ANSWERED, metadata=metadata)
    _queue(row.episode_id)


def _queue(episode: UUID) -> None:
    """Queue the episode; one that runs already reads what was said when it stops to wait again."""
    waits = Episode.objects.filter(pk=episode, status=Episode.Status.WAITING)
    waits.update(status=Episode.Status.QUEUED, attempt=None, delivered_at=Now())
