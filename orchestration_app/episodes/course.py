"""The course of one episode: the engine's loop decides, agents are called, and every step is stored before the next begins.

Pure but for what it is handed: where to write, how to call. What an episode that goes on has stored already is neither
decided nor called again; a call whose start is stored and whose end is not is made again under the same key where its executor may be
called again, and counts as failed where not. A call that still waits for a place was made by nobody, and is made.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models.functions import Now

from orchestration_app.calls import calling, parts, spending
from orchestration_app.calls.calling import Places, Purse
from orchestration_app.calls.ledger import Ended as EndedCall
from orchestration_app.calls.ledger import Entry, Ledger
from orchestration_app.calls.lines import Taking, Ways
from orchestration_app.calls.parts import AgentCall, EarlierOutput, Spec
from orchestration_app.calls.queued import StoredPlaces
from orchestration_app.calls.spending import Limited
from orchestration_app.calls.wire import Wire
from orchestration_app.engine.orchestrating import loop
from orchestration_app.engine.orchestrating.state import Call, State
from orchestration_app.engine.orchestrating.turns import (
    Decision,
    Ended,
    Limits,
    Request,
    Turn,
)
from orchestration_app.episodes import asides, composing, waits
from orchestration_app.episodes.asides import Aside
from orchestration_app.episodes.deciding import Deciding
from orchestration_app.episodes.judging import shadows
from orchestration_app.episodes.judging.shadows import Moment, ShadowPolicy
from orchestration_app.episodes.policies import Decider
from orchestration_app.episodes.turn_rows import ENDED, as_outcome, calls_of, ended_call, rows_of, stored_turns
from orchestration_app.models import AnswerRule, Episode, Step
from training_app.engine.data import storable

#: Bytes that the frame of an instruction and each earlier output may add to a prompt, for the worst case that the loop sets aside.
FRAME, AROUND_AN_OUTPUT = 2_048, 256
#: Calls at once that end within so much of each other are stored together.
TOGETHER_SECONDS = 0.05
NOTHING_SAID = Aside()

Turns = Generator[Turn | loop.Question, Any, Ended]
Made = list[tuple[Request, parts.Outcome]]


@dataclass(frozen=True, slots=True)
class Waits:
    """A call that goes on once a person has said something."""

    aside: Aside
    latency: float = 0.0
    attempts: int = 0


@dataclass(slots=True)
class Course:
    """One episode under way in this process. `stored` are its steps so far, in order; `between` lets in the episodes that are between
    two calls; `shadows` are asked about its decisions once it has ended; `callable` are the agents that may be
    called now, None for all."""

    episode: Episode
    decider: Decider
    specs: Mapping[int, Spec]
    names: Mapping[int, str]
    ledger: Ledger
    wire: Wire
    places: Places
    deciding: Deciding
    between: asyncio.Semaphore
    stored: Sequence[Step] = ()
    ways: Mapping[int, Ways] = field(default_factory=dict)
    shadows: Sequence[ShadowPolicy] = ()
    pool: str = ""
    limited: Limited | None = None
    callable: frozenset[int] | None = None
    _decisions: list[tuple[int, Decision]] = field(default_factory=list)
    _sized: tuple[tuple[Call, ...], int] | None = None
    _worsts: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    _turns_stored: set[int] = field(default_factory=set)
    _begun_before: set[int | None] = field(default_factory=set)
    _rows: dict[int, Step] = field(default_factory=dict)

    async def run(self) -> None:
        """Go on to the end. Raises AttemptLost, and django.db.Error where the database stayed away."""
        until = time.monotonic() + settings.EPISODE_SECONDS
        turns, finished = self._turns(), None
        while True:
            async with self.between:
                turn = await self._written(turns, finished, late=time.monotonic() >= until)
            if turn is None:
                self._offer()
                return
            came = await self._made(turn.requests, until)
            finished = [(request, outcome) for request, outcome in came if not isinstance(outcome, Waits)]
            if len(finished) < len(came):
                await self._wait(came)
                return

    async def _written(self, turns: Turns, finished: Made | None, *, late: bool) -> Turn | None:
        """The next turn, stored together with what came of the calls before it (None at the beginning); None where the episode ended,
        which is stored too."""
        ends = self._ends(finished or ())
        if late and finished is not None:
            await self._finish(self._broken("timeout"), ends)
            return None
        outcomes = None if finished is None else {request.number: as_outcome(outcome) for request, outcome in finished}
        try:
            turn = await self._turn(turns, turns.send(outcomes))
        except StopIteration as stopped:
            await self._finish(stopped.value, ends)
            return None
        begins = self._begun(turn)
        if begins or ends:
            await self.ledger.write(
                Entry(self.episode.pk, self._attempt, ends, begins, limited=self.limited, unused=self._unused(ends))
            )
        return turn

    def _unused(self, ends: Sequence[EndedCall]) -> float:
        """What calls that ended did not cost of what was set aside for them in this month."""
        if self.limited is None:
            return 0.0
        rows = {(row.turn, row.path, row.place): row for row in self._rows.values()}
        ended = [(rows[end.turn, end.path, end.place], end.cost) for end in ends if end.status in ENDED]
        return sum(row.worst - cost for row, cost in ended if spending.begun_now(row))

    @property
    def _attempt(self) -> UUID:
        assert self.episode.attempt is not None
        return self.episode.attempt

    async def _wait(self, came: Sequence[tuple[Request, parts.Outcome | Waits]]) -> None:
        """Store what came of the calls, those that wait for a person among them, and leave the episode to them."""
        ends = self._ends(came)
        for request, outcome in came:
            if not isinstance(outcome, Waits):
                continue
            row = self._rows[request.number]
            row.status, row.cost = Step.Status.WAITING, outcome.aside.cost
            row.metadata = {**row.metadata, asides.KEY: outcome.aside.as_json()}
            row.latency, row.attempts = row.latency + outcome.latency, row.attempts + outcome.attempts
            ends.append(ended_call(row))
        fields = {"status": Episode.Status.WAITING, "attempt": None, **self._sums()}
        key = self.episode.pk
        entry = Entry(
            key, self._attempt, ends, (), fields, lambda: waits.begun(key), self.limited, self._unused(ends)
        )  # fmt: skip
        await self.ledger.write(entry)
        self.episode.status = Episode.Status.WAITING

    # --- The loop -------------------------------------------------------------------------------------------------

    async def _turn(self, turns: Turns, step: Turn | loop.Question) -> Turn:
        """The next turn, once the policy has answered what comes before it."""
        while isinstance(step, loop.Question):
            step = turns.send(await self.deciding.answer(self.decider.policy, step))
        return step

    def _turns(self) -> Turns:
        plan = self.episode.plan
        turns = stored_turns(self.stored)
        self._turns_stored = {row.turn for row in self.stored}
        self._begun_before = {row.call for row in self.stored if row.status == Step.Status.RUNNING}
        for row in self.stored:
            if row.call is not None:
                self._rows[row.call] = row
        limits = Limits(
            max_steps=self.episode.max_steps, budget=self.episode.budget, paths=self.episode.paths,
            together=plan.get("together", 1), available=frozenset(plan["agents"]), aggregator=plan.get("aggregator"),
            after=frozenset(agent for agent, spec in self.specs.items() if spec.reads_others),
        )  # fmt: skip
        costs = {agent: spec.most_cost for agent, spec in self.specs.items()}
        return loop.questioned(
            self.decider.policy, self.episode.messages, limits, costs=costs, worst=self._worst, seed=plan.get("seed"), stored=turns
        )  # fmt: skip

    def _worst(self, agent: int, state: State) -> float:
        """The most that one attempt of a call may cost; a chat whose prompt comes out longer than this is not sent. Of an agent with
        backends: on the dearest that what is left pays, on the cheapest where it pays none."""
        lines = self._worsts.get(agent)
        if lines is None:
            spec, ways = self.specs.get(agent), self.ways.get(agent)
            specs: Iterable[Spec] = () if spec is None else (spec,) if ways is None else ways.specs.values()
            lines = self._worsts[agent] = [_worst_of(spec) for spec in specs]
        each = [fixed + a_byte * self._said(state) if a_byte else fixed for fixed, a_byte in lines]
        if len(each) < 2:
            return each[0] if each else 0.0
        return max([worst for worst in each if worst <= state.left], default=min(each))

    def _said(self, state: State) -> int:
        """Bytes of all that a prompt repeats; asked for each agent, so what was found for a state is kept."""
        if self._sized is None or self._sized[0] is not state.calls:
            texts = [call.output for call in state.calls] + [message["content"] for message in state.messages]
            self._sized = state.calls, sum(len(text.encode("utf-8", "replace")) + AROUND_AN_OUTPUT for text in texts)
        return self._sized[1]

    def _begun(self, turn: Turn) -> list[Step]:
        """The new rows of a turn: one for each call, and one for each path that ends. All of a turn's are stored at once."""
        if turn.number in self._turns_stored:
            return []
        if self.shadows:
            self._decisions += [(turn.number, decision) for decision in turn.decisions]
        rows = rows_of(self.episode.pk, turn)
        for row in rows:
            spec = None if row.agent is None else self.specs.get(row.agent)
            if spec is not None and row.aim == "answer" and self._approved_first(spec):
                # Waiting from the first: there is no moment in which it could look as if it had been made.
                row.status = Step.Status.WAITING
                row.metadata = {
                    asides.KEY: Aside(asides.APPROVAL, asides.read_by_agent(self.episode.messages)).as_json()
                }
        self._rows |= {row.call: row for row in rows if row.call is not None}
        return rows

    def _approved_first(self, spec: Spec, aside: Aside = NOTHING_SAID) -> bool:
        """Whether a person approves a call of that agent first, after what was said beside the task."""
        beside = [*asides.contents(self.episode.messages), *asides.said_in(aside.exchanges)]
        return asides.needs_approval(spec, [self.episode.task], beside)

    # --- Calls ----------------------------------------------------------------------------------------------------

    async def _made(self, requests: Sequence[Request], until: float) -> list[tuple[Request, parts.Outcome | Waits]]:
        """What came of each call, in the requests' order; of one that outlasts the episode, that it did. What has ended while others
        go on is stored meanwhile, so that a process that dies loses no answer that it had."""
        if len(requests) == 1:
            return [(requests[0], await self._in_time(requests[0], until))]
        requested = {asyncio.ensure_future(self._in_time(request, until)): request for request in requests}
        under_way = set(requested)
        try:
            while under_way:
                done, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
                if under_way:
                    soon, under_way = await asyncio.wait(under_way, timeout=TOGETHER_SECONDS)
                    done |= soon
                if under_way:  # what ends last is stored with what follows it
                    await self._keep([(requested[task], task.result()) for task in done])
            return [(request, task.result()) for task, request in requested.items()]
        finally:
            for task in requested:
                task.cancel()

    async def _keep(self, came: Iterable[tuple[Request, parts.Outcome | Waits]]) -> None:
        """Store the calls that ended."""
        if ends := self._ends(came):
            await self.ledger.write(
                Entry(self.episode.pk, self._attempt, ends, limited=self.limited, unused=self._unused(ends))
            )

    async def _in_time(self, request: Request, until: float) -> parts.Outcome | Waits:
        started = time.monotonic()
        try:
            async with asyncio.timeout(max(until - started, 0.0)):
                return await self._call(request)
        except TimeoutError:
            why = f"the episode took longer than {settings.EPISODE_SECONDS:g} seconds"
            return parts.Failure("timeout", why, request.worst, time.monotonic() - started)

    async def _call(self, request: Request) -> parts.Outcome | Waits:
        spec, row = self.specs.get(request.agent), self._rows[request.number]
        aside = Aside.of(row.metadata)
        if row.status == Step.Status.FAILED:  # it does not fit what may be spent in the month
            return parts.Failure(row.failure, row.why, attempts=0)
        if row.status == Step.Status.WAITING:
            return Waits(aside)
        if row.status == Step.Status.ANSWERED:
            if self.callable is not None and request.agent not in self.callable and spec is not None:
                # It was paused or retired while the call waited.
                return parts.Failure("not_now", parts.FAILURES["not_now"], aside.cost, attempts=0)
            if (
                aside.kind == asides.INPUT
                and spec is not None
                and not aside.approved
                and self._approved_first(spec, aside)
            ):
                # What was answered names an amount that nobody has approved.
                question = asides.read_by_agent(self.episode.messages, aside.exchanges)
                return Waits(replace(aside, kind=asides.APPROVAL, question=question))
            row.status = Step.Status.RUNNING
            await self.ledger.write(Entry(self.episode.pk, self._attempt, [ended_call(row)]))
        elif request.number in self._begun_before and not (spec is not None and spec.repeatable):
            return parts.Failure("interrupted", parts.FAILURES["interrupted"], request.worst)
        history = tuple(
            EarlierOutput(self.names.get(earlier.agent, str(earlier.agent)), earlier.output, earlier.failed)
            for earlier in request.calls
        )
        call = AgentCall(
            row.call_key, self.episode.task, self.episode.messages, history, str(self.episode.pk), request.step, aside.exchanges,
            aside.resume,
        )  # fmt: skip
        purse = Purse(None if self.episode.budget is None else max(request.worst - aside.cost, 0.0))
        ways = self.ways.get(request.agent)
        taking = None
        if ways is not None:
            before = self._before(row)
            taking = Taking(
                ways, self.ledger, row.call_key, self.episode.task, self.episode.plan.get("preference"), before
            )

        async def store(status: Step.Status) -> None:
            row.status = status
            await self.ledger.write(Entry(self.episode.pk, self._attempt, [ended_call(row)]))

        places = StoredPlaces(self.places, store, queued=row.status == Step.Status.QUEUED)
        outcome = await calling.call(spec, call, self.wire, places, purse, taking)
        if isinstance(outcome, parts.Reply) and outcome.asks:
            return Waits(asides.asked(aside, outcome), outcome.latency, outcome.attempts)
        return replace(outcome, cost=aside.cost + outcome.cost) if aside.cost else outcome

    def _before(self, row: Step) -> int | None:
        """The backend that answered last on the same path."""
        earlier = [step for step in self._rows.values() if step.path == row.path and step.turn < row.turn]
        for last in sorted(earlier, key=lambda step: (-step.turn, -step.place)):
            if last.status == Step.Status.DONE and (backend := last.metadata.get("backend")):
                return int(backend["id"])
        return None

    def _ends(self, came: Iterable[tuple[Request, parts.Outcome | Waits]]) -> list[EndedCall]:
        """What is to be stored of the calls that ended and are not stored yet."""
        return [
            self._ended(request, outcome)
            for request, outcome in came
            if not isinstance(outcome, Waits) and self._rows[request.number].status not in ENDED
        ]

    def _ended(self, request: Request, outcome: parts.Outcome) -> EndedCall:
        """Keep what came of a call; what is to be stored of it."""
        row = self._rows[request.number]
        failed = isinstance(outcome, parts.Failure)
        row.status = Step.Status.FAILED if failed else Step.Status.DONE
        row.cost, row.latency, row.attempts = (
            outcome.cost,
            row.latency + outcome.latency,
            row.attempts + outcome.attempts,
        )
        aside = {asides.KEY: row.metadata[asides.KEY]} if asides.KEY in row.metadata else {}
        row.metadata = {**outcome.metadata, **aside}
        if isinstance(outcome, parts.Failure):
            row.failure, row.why = outcome.kind, storable.mended_text(outcome.why)[:400]
        else:
            row.output, row.tokens = outcome.content, outcome.tokens
        return ended_call(row)

    # --- The end --------------------------------------------------------------------------------------------------

    def _broken(self, reason: str) -> Ended:
        """How an episode ends that its loop did not end: with the answers that there are."""
        return Ended(None, 0, 0, 0.0, 0, 0.0, reason)  # type: ignore[arg-type]

    async def _finish(self, ended: Ended, ends: Sequence[EndedCall]) -> None:
        rows, rule = list(self._rows.values()), self.episode.plan.get("compose") or AnswerRule.Rule.JOINED
        missing = composing.missing(rows, self.names)
        reasons = dict(enumerate(ended.reasons)) or dict.fromkeys(range(self.episode.paths), ended.stop_reason)
        if open_ := {path: reason for path, reason in reasons.items() if reason != "stop"}:
            missing += composing.not_called(
                self.decider.policy,
                self.episode.messages,
                rows,
                self.names,
                open_,
                self.episode.plan["agents"],
                self._lacked,
            )
        answer = composing.composed(rule, rows, self.names, missing)
        status = Episode.Status.PARTIAL if missing else Episode.Status.DONE
        fields: dict[str, Any] = {
            "status": status if answer is not None else Episode.Status.FAILED,
            "answer": answer or "",
            "composed": rule if answer is not None else "",
            "missing": missing,
            "stop_reason": ended.stop_reason,
            "error": composing.in_words(missing) or ("" if answer is not None else self._why(ended.stop_reason)),
            **self._sums(),
        }
        stored = {**fields, "finished_at": Now()}
        await self.ledger.write(
            Entry(self.episode.pk, self._attempt, ends, (), stored, limited=self.limited, unused=self._unused(ends))
        )
        for name, value in fields.items():
            setattr(self.episode, name, value)

    def _lacked(self, agent: int) -> str:
        """What a call of that agent needed beyond what was left at the end; "" where that is not why it was not made."""
        budget, writer = self.episode.budget, self.episode.plan.get("aggregator")
        if budget is None:
            return ""
        rows = list(self._rows.values())
        state = replace(self.decider.policy.begin(self.episode.messages), budget=budget, calls=tuple(calls_of(rows, 0)))
        aside = 0.0 if writer is None else self._worst(writer, state)
        needed, left = self._worst(agent, state), max(budget - sum(row.cost for row in rows) - aside, 0.0)
        return f"needs up to {needed:g}, and {left:g} of {budget:g} is left" if needed > left + 1e-12 else ""

    def _offer(self) -> None:
        """Have the shadows asked about what was decided here."""
        plan, rows = self.episode.plan, sorted(self._rows.values(), key=lambda row: (row.turn, row.place))
        limits = Limits(
            max_steps=self.episode.max_steps, budget=self.episode.budget, together=plan.get("together", 1),
            available=frozenset(plan["agents"]),
        )  # fmt: skip
        for turn, decision in self._decisions:
            assert self.decider.model is not None
            before = calls_of([row for row in rows if row.turn < turn], decision.path)
            moment = Moment(self.episode.messages, tuple(before), limits)
            shadows.offer(self.shadows, self.decider.model, self.episode.pk, turn, decision, moment)

    def _sums(self) -> dict[str, Any]:
        """Steps, cost, tokens and seconds of all calls, those included that an earlier process made."""
        steps: dict[int, set[int]] = defaultdict(set)
        longest: dict[int, float] = defaultdict(float)
        for row in self._rows.values():
            longest[row.turn] = max(longest[row.turn], row.latency)
            if row.aim == "answer":
                steps[row.path].add(row.number)
        return {
            "steps": max((len(numbers) for numbers in steps.values()), default=0),
            "cost": sum(row.cost for row in self._rows.values()),
            "tokens": sum(row.tokens for row in self._rows.values()),
            "latency": sum(longest.values()),
        }

    def _why(self, reason: str) -> str:
        """Why there is no answer, of an episode that ended for that reason."""
        failed = [row for row in self._rows.values() if row.failure]
        if failed:
            return f"{failed[-1].failure}: {failed[-1].why}"
        if self._rows:
            return "No agent that was called gave an answer."
        return composing.NONE_NEEDED if reason == "stop" else "No agent was called."


def _worst_of(spec: Spec) -> tuple[float, float]:
    """The most that an attempt may cost: whatever was said, and more for each byte of it."""
    if not spec.is_language_model or not (spec.price_in or spec.price_out):
        return spec.most_cost, 0.0
    instruction_bytes = len(spec.instruction.encode()) + len(spec.description.encode()) + len(str(spec.tools)) + FRAME
    return (instruction_bytes * spec.price_in + spec.most_tokens * spec.price_out) / 1e6, spec.price_in / 1e6
