"""A conversation answered at once by the agents that it needs, in this process: for clients that wait on a stream.

Where the set router's set decides, its agents are called beside each other from the event loop of the web server. A single chat's
words are passed on as they come (`streamed`). What was called and said is stored as an episode once the answer is out; where an
agent asked something, it waits for a person and goes on as any other. Nothing else is resumed: who waited for the stream has gone when
the process dies. Whatever needs more than that, an orchestrator, a person's approval, a composer, is an episode of the usual kind
(`prepared` says so).
"""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from django.conf import settings
from django.db import close_old_connections, transaction
from django.utils import timezone

from agents_app.outbound.async_client import Client
from orchestration_app.calls import calling
from orchestration_app.calls.limits import Limits
from orchestration_app.calls.lines import Taking
from orchestration_app.calls.parts import AgentCall, Failure, Outcome, Reply
from orchestration_app.calls.streamed import CLIENT_LEFT, StreamedChat
from orchestration_app.calls.wire import Wire
from orchestration_app.engine.orchestrating.one_shot import NAME as ONE_SHOT
from orchestration_app.engine.orchestrating.state import task_of
from orchestration_app.episodes import asides, composing, waits
from orchestration_app.episodes.asides import Aside
from orchestration_app.episodes.policies import Decider, Orchestra
from orchestration_app.models import AnswerRule, Episode, Executor, Step
from routerweb import state
from training_app.answering.decisions import new_id
from training_app.engine.data import storable

log = logging.getLogger(__name__)
Messages = Sequence[Mapping[str, str]]
T = TypeVar("T")
_threads = ThreadPoolExecutor(4, thread_name_prefix="gateway")


class _Threads:
    """The database for event loops of the web server."""

    async def run(self, work: Callable[[], T]) -> T:
        """What `work` returns."""
        return await asyncio.get_running_loop().run_in_executor(_threads, _apart(work))

    def soon(self, work: Callable[[], object]) -> None:
        """Have it done."""
        _threads.submit(_apart(work))


def _apart(work: Callable[[], T]) -> Callable[[], T]:
    def done() -> T:
        close_old_connections()
        try:
            return work()
        except Exception:  # logged here, as nobody may wait for what is stored soon; then raised again
            log.exception("what the gateway had to store could not be stored")
            raise

    return done


@dataclass(slots=True)
class _Home:
    """What the calls of one event loop share."""

    client: Client
    limits: Limits
    task: "asyncio.Task[None]"


_homes: "WeakKeyDictionary[asyncio.AbstractEventLoop, _Home]" = WeakKeyDictionary()
state.keep(__name__, "_homes", "Event loops that call agents", "one for each loop")


def _home() -> _Home:
    loop = asyncio.get_running_loop()
    home = _homes.get(loop)
    if home is None:
        limits = Limits(_Threads())
        home = _homes[loop] = _Home(Client(), limits, loop.create_task(limits.settle_for_ever()))
    return home


@dataclass(slots=True)
class Direct:
    """One conversation and the agents that answer it, in the order of their costs. `outcomes` are by agent; `streams`: whether the
    client reads the words as they come."""

    orchestra: Orchestra
    decider: Decider
    messages: Messages
    agents: tuple[int, ...]
    api_key: int | None = None
    streams: bool = False
    key: uuid.UUID = field(default_factory=lambda: uuid.UUID(int=new_id(timezone.now().timestamp())))
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    @property
    def names(self) -> Mapping[int, str]:
        """The agents' names."""
        return self.orchestra.pool.names

    @property
    def as_said(self) -> bool:
        """Whether the words of the one agent are passed on as it says them."""
        spec, backends = self.orchestra.specs[self.agents[0]], self.orchestra.ways
        return self.streams and spec.kind == Executor.Kind.CHAT and not spec.tools and spec.agent not in backends

    def rows(self) -> list[Step]:
        """The calls as steps of an episode, and its stop; without the stop where an agent asks something."""
        rows = []
        for place, agent in enumerate(self.agents):
            outcome = self.outcomes.get(agent, CLIENT_LEFT)
            row = Step(
                episode_id=self.key, turn=0, path=0, place=place, number=0, call=place, agent=agent, candidates=[agent],
                probabilities=[1.0], call_key=f"{self.key.hex}-{place}", cost=outcome.cost, latency=outcome.latency,
                attempts=outcome.attempts, metadata=dict(outcome.metadata),
            )  # fmt: skip
            if isinstance(outcome, Failure):
                row.status, row.failure = Step.Status.FAILED, outcome.kind
                row.why = storable.mended_text(outcome.why)[:400]
            elif outcome.asks:
                aside = asides.asked(Aside(), outcome)
                row.status, row.metadata = Step.Status.WAITING, {asides.KEY: aside.as_json()}
            else:
                row.status, row.output, row.tokens = Step.Status.DONE, outcome.content, outcome.tokens
            rows.append(row)
        stop = Step(
            episode_id=self.key, turn=1, number=1, reason="stop", status=Step.Status.DONE, candidates=[None],
            probabilities=[1.0],
        )  # fmt: skip
        return rows if any(row.status == Step.Status.WAITING for row in rows) else [*rows, stop]

    def ended(self) -> dict[str, Any]:
        """How it ended: status, answer, missing parts, questions and usage, as an episode says it."""
        rows = self.rows()
        sums = {
            "cost": sum(row.cost for row in rows), "tokens": sum(row.tokens for row in rows),
            "tokens_in": composing.tokens_in(rows), "latency": time.monotonic() - self.began, "steps": 1 if self.agents else 0,
        }  # fmt: skip
        if waiting := [row for row in rows if row.status == Step.Status.WAITING]:
            questions = [asides.as_json(row, self.names) for row in waiting]
            open_ = {"answer": "", "missing": [], "composed": "", "error": "", "stop_reason": ""}
            return {"status": Episode.Status.WAITING, "questions": questions, **open_, **sums}
        lost = composing.missing(rows, self.names)
        # The first part is out under its heading before it is known whether another one follows.
        answer = composing.composed(self.rule, rows, self.names, lost, headed=len(self.agents) > 1)
        status = Episode.Status.FAILED if answer is None else Episode.Status.PARTIAL if lost else Episode.Status.DONE
        return {
            "status": status, "answer": answer or "", "missing": lost, "composed": self.rule if answer is not None else "",
            "error": composing.in_words(lost) if self.agents else composing.NONE_NEEDED,
            "questions": [], "stop_reason": "stop", **sums,
        }  # fmt: skip

    @property
    def rule(self) -> str:
        """How the outputs are made one answer."""
        return self.orchestra.answering.rule

    def store(self) -> None:
        """Store the episode; where an agent asked something, it waits for a person and goes on as any other."""
        ended, task = self.ended(), task_of(self.messages)
        waits_ = ended["status"] == Episode.Status.WAITING
        fields = {name: value for name, value in ended.items() if name not in ("questions", "tokens_in")}
        episode = Episode(
            id=self.key, pool_id=self.orchestra.pool.pk, policy=self.decider.name, api_key_id=self.api_key, task=task,
            messages=[dict(message) for message in self.messages],
            plan={"agents": list(self.agents), "gateway": True, "compose": self.rule},
            max_steps=getattr(self.decider.policy, "max_steps", settings.EPISODE_STEPS),
            finished_at=None if waits_ else timezone.now(), **fields,
        )  # fmt: skip
        with transaction.atomic():
            episode.save(force_insert=True)
            # It is stored at its end, and began before.
            began = timezone.now() - timedelta(seconds=time.monotonic() - self.began)
            Episode.objects.filter(pk=self.key).update(created_at=began)
            Step.objects.bulk_create(self.rows())
            if waits_:
                waits.begun(self.key)


def prepared(
    orchestra: Orchestra, decider: Decider, messages: Messages, api_key: int | None, *, streams: bool = False
) -> Direct | None:
    """The conversation with the agents that it needs; None where it takes an episode."""
    if decider.model is not None or decider.name != ONE_SHOT or orchestra.limits:
        return None
    if orchestra.answering.rule not in (AnswerRule.Rule.JOINED, AnswerRule.Rule.LAST):
        return None
    state_ = decider.policy.begin(messages)
    callable_ = orchestra.callable
    chosen = [
        (float(state_.costs[at]), agent) for at, agent in enumerate(decider.policy.ids) if state_.one_shot[at] and agent in callable_
    ]  # fmt: skip
    agents = tuple(agent for _cost, agent in sorted(chosen))
    specs = [orchestra.specs[agent] for agent in agents]
    needed, beside = sum(state_.one_shot), asides.contents(messages)
    if needed != len(agents) or any(asides.needs_approval(spec, [task_of(messages)], beside) for spec in specs):
        return None
    if len(specs) > 1 and any(spec.reads_others for spec in specs):
        return None
    return Direct(orchestra, decider, messages, agents, api_key, streams)


async def pieces(direct: Direct) -> AsyncGenerator[str, None]:
    """The answer in pieces, each agent's under its name where there are several; it is stored before the last words are out of reach,
    so that the next response can go on from it, and where the client leaves early too."""
    whole = False
    try:
        async with aclosing(_said(direct)) as parts:
            async for piece in parts:
                yield piece
        whole = True
    finally:
        if not whole:
            _threads.submit(_apart(direct.store))
    await _Threads().run(direct.store)


async def _said(direct: Direct) -> AsyncGenerator[str, None]:
    if not direct.agents:
        yield f"There is no answer. {composing.NONE_NEEDED}"
    elif len(direct.agents) > 1:
        async with aclosing(_several(direct)) as parts:
            async for piece in parts:
                yield piece
    elif direct.as_said:
        async with aclosing(_chat(direct, direct.agents[0])) as parts:
            async for piece in parts:
                yield piece
    else:
        outcome = await _called(direct, direct.agents[0])
        yield _part(outcome) if isinstance(outcome, Reply) else f"No answer: {outcome.why}"


async def _several(direct: Direct) -> AsyncGenerator[str, None]:
    """All agents beside each other, each part as soon as it and those before it are there; one answer of them once all are there."""
    tasks = {agent: asyncio.ensure_future(_called(direct, agent)) for agent in direct.agents}
    between = ""
    try:
        if direct.rule != AnswerRule.Rule.JOINED:
            await asyncio.gather(*tasks.values())
            ended = direct.ended()
            questions = [question["question"] for question in ended["questions"]]
            yield ended["answer"] or "\n\n".join(questions) or f"There is no answer. {ended['error']}"
            return
        for agent in direct.agents:
            text = _part(await tasks[agent])
            if text:
                yield between + composing.section(composing.name_of(direct.names, agent), text)
                between = "\n\n"
    finally:
        for task in tasks.values():
            task.cancel()


def _part(outcome: Outcome) -> str:
    """An agent's part of the answer; "" where it says itself that it has none."""
    if isinstance(outcome, Failure):
        return composing.NO_ANSWER
    answer = outcome.metadata.get("answer", outcome.content if outcome.content.strip() else composing.NO_ANSWER)
    return answer if isinstance(answer, str) and answer.strip() else ""


def _call_of(direct: Direct, agent: int) -> AgentCall:
    place = direct.agents.index(agent)
    return AgentCall(f"{direct.key.hex}-{place}", task_of(direct.messages), direct.messages, (), str(direct.key))


async def _called(direct: Direct, agent: int) -> Outcome:
    """The agent's answer as a whole."""
    outcome = await call(direct.orchestra, agent, _call_of(direct, agent))
    direct.outcomes[agent] = outcome
    return outcome


async def call(orchestra: Orchestra, agent: int, words: AgentCall) -> Outcome:
    """What comes of a call that this event loop makes: within the limits of the agent and its server, at the backend that is chosen
    now, and repeated as any other."""
    home, ways = _home(), orchestra.ways.get(agent)
    taking = None if ways is None else Taking(ways, _Threads(), words.key, words.task)
    return await calling.call(orchestra.specs[agent], words, Wire(home.client), home.limits, calling.Purse(), taking)


async def kept(work: Callable[[], T]) -> T:
    """What `work` returns, which asks the database in a thread of its own."""
    return await _Threads().run(work)


async def _chat(direct: Direct, agent: int) -> AsyncGenerator[str, None]:
    """A chat's words as they come, and why there are none or no more."""
    home = _home()
    streamed = StreamedChat(direct.orchestra.specs[agent], _call_of(direct, agent), home.client, home.limits)
    started = False
    try:
        async with aclosing(streamed.pieces()) as words:
            async for word in words:
                started = True
                yield word
    finally:
        direct.outcomes[agent] = streamed.outcome
    if isinstance(streamed.outcome, Failure):
        yield f"\n\nThe answer broke off: {streamed.outcome.why}" if started else f"No answer: {streamed.outcome.why}"
