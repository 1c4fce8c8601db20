"""A conversation answered at once by the agents that it needs, in this process: for clients that wait on a stream.

Where the set router's set decides, its agents are called beside each other from the event loop of the web server. A single chat's
words are passed on as they come. What was called and said is stored as an episode once the answer is out. Nothing is resumed: who
waited for the stream has gone when the process dies. Whatever needs more than that, an orchestrator, a person's approval, a
composer, is an episode of the usual kind (`fits` says so).
"""

import asyncio
import json
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from django.db import close_old_connections, transaction
from django.utils import timezone

from agents_app.outbound import guard
from agents_app.outbound.async_client import CallFault, Client
from orchestration_app.engine.orchestrating.one_shot import NAME as ONE_SHOT
from orchestration_app.engine.orchestrating.state import task_of
from orchestration_app.episodes import asides, asking, calling, composing
from orchestration_app.episodes.calls import Ask, Failure, Outcome, Reply, Spec
from orchestration_app.episodes.limits import Limits
from orchestration_app.episodes.lines import Taking
from orchestration_app.episodes.policies import Decider, Orchestra
from orchestration_app.episodes.protocols.responses import count
from orchestration_app.episodes.wire import Wire, masked, written
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
    """One conversation and the agents that answer it, in the order of their costs. `outcomes` are by agent."""

    orchestra: Orchestra
    decider: Decider
    messages: Messages
    agents: tuple[int, ...]
    api_key: int | None = None
    key: uuid.UUID = field(default_factory=lambda: uuid.UUID(int=new_id(timezone.now().timestamp())))
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)

    @property
    def names(self) -> Mapping[int, str]:
        """The agents' names."""
        return self.orchestra.pool.names

    def rows(self) -> list[Step]:
        """The calls as steps of an episode, and its stop."""
        made = []
        for place, agent in enumerate(self.agents):
            outcome = self.outcomes.get(agent, Failure("cut_off", "The client left before the agent answered."))
            row = Step(
                episode_id=self.key, turn=0, path=0, place=place, number=0, call=place, agent=agent, candidates=[agent],
                probabilities=[1.0], call_key=f"{self.key.hex}-{place}", cost=outcome.cost, latency=outcome.latency,
                attempts=outcome.attempts, metadata=dict(outcome.metadata),
            )  # fmt: skip
            if isinstance(outcome, Failure):
                row.status, row.failure = Step.Status.FAILED, outcome.kind
                row.why = storable.mended_text(outcome.why)[:400]
            else:
                row.status, row.output, row.tokens = Step.Status.DONE, outcome.content, outcome.tokens
            made.append(row)
        stop = Step(
            episode_id=self.key, turn=1, number=1, reason="stop", status=Step.Status.DONE, candidates=[None],
            probabilities=[1.0],
        )  # fmt: skip
        return [*made, stop]

    def ended(self) -> dict[str, Any]:
        """How it ended: status, answer, missing parts and usage, as an episode says it."""
        rows = self.rows()
        lost = composing.missing(rows, self.names)
        answer = composing.composed(self.rule, rows, self.names, lost)
        status = Episode.Status.FAILED if answer is None else Episode.Status.PARTIAL if lost else Episode.Status.DONE
        return {
            "status": status, "answer": answer or "", "missing": lost, "composed": self.rule if answer is not None else "",
            "error": composing.in_words(lost), "cost": sum(row.cost for row in rows), "tokens": sum(row.tokens for row in rows),
            "latency": time.monotonic() - self.began, "steps": 1 if self.agents else 0, "stop_reason": "stop",
        }  # fmt: skip

    @property
    def rule(self) -> str:
        """How the outputs are made one answer."""
        return self.orchestra.answering.rule

    def store(self) -> None:
        """Store the episode."""
        ended, task = self.ended(), task_of(self.messages)
        made = Episode(
            id=self.key, pool_id=self.orchestra.pool.pk, policy=self.decider.name, api_key_id=self.api_key, task=task,
            messages=[dict(message) for message in self.messages], plan={"agents": list(self.agents), "gateway": True},
            max_steps=max(len(self.agents), 1), finished_at=timezone.now(), **ended,
        )  # fmt: skip
        with transaction.atomic():
            made.save(force_insert=True)
            Step.objects.bulk_create(self.rows())


def prepared(orchestra: Orchestra, decider: Decider, messages: Messages, api_key: int | None) -> Direct | None:
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
    needed = sum(state_.one_shot)
    if needed != len(agents) or any(asides.needs_approval(spec, [task_of(messages)]) for spec in specs):
        return None
    if len(specs) > 1 and any(spec.reads_others for spec in specs):
        return None
    return Direct(orchestra, decider, messages, agents, api_key)


async def pieces(direct: Direct) -> AsyncIterator[str]:
    """The answer in pieces, each agent's under its name where there are several; it is stored before the last words are out of reach,
    so that the next response can go on from it, and where the client leaves early too."""
    whole = False
    try:
        if len(direct.agents) == 1:
            async for piece in _one(direct, direct.agents[0]):
                yield piece
        elif direct.agents:
            async for piece in _several(direct):
                yield piece
        whole = True
    finally:
        if not whole:
            _threads.submit(_apart(direct.store))
    await _Threads().run(direct.store)


async def _several(direct: Direct) -> AsyncIterator[str]:
    """All agents beside each other, each part as soon as it and those before it are there."""
    tasks = {agent: asyncio.ensure_future(_called(direct, agent)) for agent in direct.agents}
    between = ""
    try:
        for agent in direct.agents:
            text = _part(await tasks[agent])
            yield f"{between}## {direct.names.get(agent, agent)}\n\n{text}"
            between = "\n\n"
    finally:
        for task in tasks.values():
            task.cancel()


def _part(outcome: Outcome) -> str:
    if isinstance(outcome, Failure):
        return "No answer."
    answer = outcome.metadata.get("answer", outcome.content)
    return answer if isinstance(answer, str) else ""


def _ask(direct: Direct, agent: int) -> Ask:
    place = direct.agents.index(agent)
    return Ask(f"{direct.key.hex}-{place}", task_of(direct.messages), direct.messages, (), str(direct.key))


async def _called(direct: Direct, agent: int) -> Outcome:
    """The agent's answer as a whole."""
    home, spec, asked = _home(), direct.orchestra.specs[agent], _ask(direct, agent)
    ways = direct.orchestra.ways.get(agent)
    taking = None if ways is None else Taking(ways, _Threads(), asked.key, asked.task)
    outcome = await calling.call(spec, asked, Wire(home.client), home.limits, calling.Purse(), taking)
    direct.outcomes[agent] = outcome
    return outcome


async def _one(direct: Direct, agent: int) -> AsyncIterator[str]:
    """One agent: a chat's words as they come, anything else at once."""
    spec = direct.orchestra.specs[agent]
    if spec.kind != Executor.Kind.CHAT or agent in direct.orchestra.ways:
        outcome = await _called(direct, agent)
        yield _part(outcome) if isinstance(outcome, Reply) else f"No answer: {outcome.why}"
        return
    started = False
    async for piece in _chat(direct, spec, agent):
        started = True
        yield piece
    if not started:
        outcome = direct.outcomes[agent]
        yield f"No answer: {outcome.why}" if isinstance(outcome, Failure) else ""


async def _chat(direct: Direct, spec: Spec, agent: int) -> AsyncIterator[str]:
    """A chat's words as they come; what came of it is in `outcomes` afterwards."""
    home, asked, began = _home(), _ask(direct, agent), time.monotonic()
    pieces: list[str] = []
    usage: Any = {}
    failed: Failure | None = Failure("cut_off", "The client left before the agent answered.")
    try:
        if not await home.limits.take(spec):
            failed = Failure("busy", "no place within the limits of the agent and its provider became free in time")
            return
        try:
            prepared_ = await asking.prepare(spec, asked, Wire(home.client))
            body = {
                "model": spec.model, "messages": prepared_.messages, "max_tokens": spec.most_tokens, "stream": True,
                "stream_options": {"include_usage": True}, **({"tools": list(spec.tools)} if spec.tools else {}),
            }  # fmt: skip
            headers = {"Content-Type": "application/json", "Idempotency-Key": asked.attempt_key}
            if spec.secret:
                headers["Authorization"] = f"Bearer {spec.secret}"
            address = spec.address.rstrip("/") + "/chat/completions"
            sent = home.client.streamed(address, written(body), headers, seconds=spec.seconds)
            async with sent as (status, parts):
                if not 200 <= status < 300:
                    first = await anext(aiter(parts), b"")
                    why = masked(first[:300].decode("utf-8", "replace"), spec.secret)
                    failed = Failure("failed" if status >= 500 else "refused", f"HTTP {status}: {why}")
                    return
                async for chunk in _chunks(parts, spec.most_bytes):
                    usage = chunk.get("usage") or usage
                    piece = _delta(chunk)
                    if piece:
                        pieces.append(piece)
                        yield piece
            failed = None if pieces else Failure("malformed", "the stream holds no words")
        finally:
            home.limits.leave(spec)
    except CallFault as fault:
        failed = Failure(fault.kind, masked(str(fault), spec.secret))
    except guard.Refused as refused:
        failed = Failure("not_allowed", str(refused))
    except asking.CallFailed as error:
        failed = Failure(error.kind, str(error))
    finally:
        tokens = count(usage, "prompt_tokens"), count(usage, "completion_tokens")
        cost = (tokens[0] * spec.price_in + tokens[1] * spec.price_out) / 1e6 if any(tokens) else spec.most_cost
        seconds = time.monotonic() - began
        if failed is None:
            figures = {"model": spec.model, "tokens_in": tokens[0], "tokens_out": tokens[1]}
            direct.outcomes[agent] = Reply(storable.mended_text("".join(pieces)), cost, sum(tokens), seconds, figures)
        else:
            direct.outcomes[agent] = Failure(failed.kind, failed.why, cost if pieces else 0.0, seconds)


async def _chunks(parts: AsyncIterator[bytes], max_bytes: int) -> AsyncIterator[dict[str, Any]]:
    """The chunks of a streamed completion. Raises CallFault for one larger than `max_bytes` bytes."""
    left, size = b"", 0
    async for part in parts:
        size += len(part)
        if size > max_bytes:
            raise CallFault("too_large", f"the answer is larger than {max_bytes // 1024:,} KiB")
        *lines, left = (left + part).split(b"\n")
        for line in lines:
            data = line.strip().removeprefix(b"data:").strip() if line.startswith(b"data:") else b""
            if data and data != b"[DONE]":
                try:
                    chunk = json.loads(data)
                except ValueError:
                    continue
                if isinstance(chunk, dict):
                    yield chunk


def _delta(chunk: Mapping[str, Any]) -> str:
    try:
        content = chunk["choices"][0]["delta"].get("content")
    except (KeyError, IndexError, TypeError, AttributeError):
        return ""
    return content if isinstance(content, str) else ""
