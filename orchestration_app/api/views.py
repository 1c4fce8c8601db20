"""Orchestration: a task that agents work on one after another, step by step or to its end, and what became of it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from orchestration_app.api import serializers as shapes
from orchestration_app.engine.orchestrating import loop
from orchestration_app.engine.orchestrating.state import Call
from orchestration_app.engine.orchestrating.turns import Limits
from orchestration_app.episodes import episodes, following, policies, runner
from orchestration_app.episodes.policies import Orchestra
from orchestration_app.episodes.turn_rows import as_json, by_name
from orchestration_app.models import AnswerRule, Episode
from routerweb.serving import later
from training_app.answering.loaded import LoadedPool
from training_app.api import examples, once
from training_app.api.bodies import written
from training_app.api.errors import Refused
from training_app.api.keys import KeyThrottle
from training_app.api.paging import ByStatus
from training_app.api.schema import operation
from training_app.api.views.base import ApiView
from training_app.api.views.runs import ListView

OF = "Orchestration"
OF_A_TASK = ("too_long", "too_many", "too_many_requests", "quota_exhausted", "no_orchestrator")
STREAM = "text/event-stream"


class TaskView(ApiView):
    """Takes tasks, within what the key may send a minute."""

    scope = "route"
    throttle_classes = [KeyThrottle]
    asks: Any

    def orchestra(self, body: dict[str, Any]) -> tuple[LoadedPool, Orchestra]:
        """The pool that is meant and who plays in it, once the key may send the task. Raises Refused and NoPolicy."""
        pool = self.access.pool(body["pool"])
        orchestra = policies.orchestra(pool, self.access.state.stamp)
        orchestra.deciding()
        if strange := set(body["agents"] or ()) - set(policies.roster(pool)):
            words = f"agents names {min(strange)}, which is no agent of {pool.slug}."
            raise Refused(400, "invalid", words, field="agents")
        self.asks = _Texts([body["task"], *(message["content"] for message in body["messages"] or ())])
        self.check_throttles(self.request)
        return pool, orchestra


class _Texts:
    """What the throttle counts."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = [text for text in texts if text]


class OrchestrateView(TaskView):
    """A task, to its end."""

    @operation(
        "orchestrate", "Have a pool's agents work on a task, one after another", of=OF, keyed=True,
        body=shapes.OrchestrateRequest,
        example={"task": "I was charged twice and cannot log in", "pool": "support", "max_steps": 6, "budget": 0.05},
        answers={
            200: (shapes.ResultSerializer, "How the episode ended", examples.EPISODE_RESULT),
            202: (shapes.QueuedSerializer, "It goes on, with wait false", examples.QUEUED_EPISODE),
        },
        errors=(*OF_A_TASK, "no_executor", "pool_not_ready", "no_runner"),
    )  # fmt: skip
    def post(self, request: Request) -> HttpResponse | Response:
        """The active orchestrator picks an agent, sees what it said, picks the next, and stops. The answer comes when the episode
        ends; with `Accept: text/event-stream` as events, `chosen` and `step` as they happen and `end` with what is answered otherwise;
        with `wait` false as an address to ask. An `Idempotency-Key` makes a retry the same episode."""
        body = self.body(shapes.OrchestrateRequest)
        pool, orchestra = self.orchestra(body)
        wanted = shapes.wanted(body)
        if wanted.aggregator is not None and wanted.aggregator not in orchestra.callable:
            words = f"aggregator names {wanted.aggregator}, which cannot be called in {pool.slug}."
            raise Refused(400, "invalid", words, field="aggregator")
        if wanted.compose == AnswerRule.Rule.COMPOSER and orchestra.answering.composer is None:
            words = f"compose is composer, and nobody in {pool.slug} writes answers: choose an agent under Settings, Executors."
            raise Refused(400, "invalid", words, field="compose")
        promise: later.Later | None = request.META.get(later.NAME)
        try:
            episode, new = runner.launch(
                pool.pk, wanted, orchestra, wait=body["wait"], api_key=self.access.caller.pk,
                idempotency_key=once.key_of(self.request),
            )  # fmt: skip
        except episodes.EpisodeError as error:
            raise once.used(str(error)) from None
        answer = self._answer(episode, promise, wait=body["wait"])
        if not new:
            answer["Idempotent-Replayed"] = "true"
        return answer

    def _answer(self, episode: Episode, promise: later.Later | None, *, wait: bool) -> HttpResponse | Response:
        if not wait:
            return self._accepted(episode)
        streams = STREAM in self.request.META.get("HTTP_ACCEPT", "")
        return _streamed(episode, promise) if streams else waited(episode, promise)

    def _accepted(self, episode: Episode) -> Response:
        address = reverse("api_episode", args=(episode.pk,))
        answer = {"episode_id": episode.pk, "status": episode.status, "address": address}
        return Response(shapes.QueuedSerializer(answer).data, status=202, headers={"Location": address})


def waited(episode: Episode, promise: later.Later | None) -> HttpResponse:
    """The answer once the episode has ended; without an event loop, this thread waits."""
    if promise is None:
        return HttpResponse(written(_ended_here(episode)), content_type="application/json")

    async def pieces() -> AsyncIterator[bytes]:
        yield written(await following.end(episode.pk))

    promise.pieces = pieces
    return HttpResponse(content_type="application/json")


def _streamed(episode: Episode, promise: later.Later | None) -> HttpResponse:
    """Events as they happen; without an event loop, all of them at the end."""
    if promise is None:
        end = _ended_here(episode)
        names = dict(episode.pool.agents.values_list("number", "name"))
        steps = [("step", as_json(row, names)) for row in episode.trajectory.filter(call__isnull=False)]
        last = "waiting" if episode.status == Episode.Status.WAITING else "end"
        return HttpResponse(b"".join(_event(*event) for event in [*steps, (last, end)]), content_type=STREAM)

    async def pieces() -> AsyncIterator[bytes]:
        yield _event("episode", {"episode_id": str(episode.pk)})
        events = following.events(episode.pk)
        async with contextlib.aclosing(following.with_signs_of_life(events)) as stream:  # type: ignore[type-var]
            async for event in stream:
                # A comment, which readers of events pass over: so that no proxy takes the stream for dead.
                yield b": still working\n\n" if event is None else _event(*event)

    promise.pieces = pieces
    return HttpResponse(content_type=STREAM)


def _event(word: str, value: dict[str, Any]) -> bytes:
    return f"event: {word}\ndata: {json.dumps(value, ensure_ascii=False)}\n\n".encode("utf-8", "replace")


def _ended_here(episode: Episode) -> dict[str, Any]:
    if episode.status in following.GOES_ON:
        asyncio.run(following.end(episode.pk))
    episode.refresh_from_db()
    return following.whole(episode)


class NextView(TaskView):
    """One decision."""

    @operation(
        "orchestrateNext", "The next agent of an episode whose calls the application makes itself", of=OF, body=shapes.NextRequest,
        example={"task": "I was charged twice", "pool": "support", "history": [{"agent": 0, "output": "Two charges found."}]},
        answers={200: (shapes.NextSerializer, "Who is called next, or that it is time to stop", examples.NEXT)}, errors=OF_A_TASK,
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """A pure decision: task and history in, the next agent or the stop out. Nothing is called, and nothing is kept."""
        body = self.body(shapes.NextRequest)
        pool, orchestra = self.orchestra(body)
        decider = orchestra.deciding(at_once=True)
        roster = policies.roster(pool)
        for place, past_call in enumerate(body["history"]):
            if past_call["agent"] not in roster:
                field = f"history[{place}].agent"
                words = f"{field} names {past_call['agent']}, which is no agent of {pool.slug}."
                raise Refused(400, "invalid", words, field=field)
        calls = [
            Call(
                past_call["agent"], past_call["output"], past_call["failed"], past_call["cost"],
                answer=None if past_call["failed"] else past_call["answer"] or past_call["output"] or None,
            )
            for past_call in body["history"]
        ]  # fmt: skip
        routable = frozenset(agent.id for agent in roster.values() if agent.state == "active" and agent.available)
        limits = Limits(
            max_steps=min(body["max_steps"] or 0, settings.EPISODE_STEPS), budget=body["budget"],
            available=routable if body["agents"] is None else routable & frozenset(body["agents"]),
        )  # fmt: skip
        messages = body["messages"] or body["task"]
        costs = {agent.id: agent.cost for agent in roster.values()}
        decision = loop.next_step(decider.policy, messages, calls, limits, costs=costs, seed=body["seed"])
        agent = decision.chosen[0] if decision.chosen else None
        answer = {
            "agent": agent, "name": "" if agent is None else pool.names.get(agent, str(agent)),
            "stop_reason": decision.reason or "", "probabilities": by_name(decision.candidates, decision.probabilities),
            "propensity": decision.propensity, "step": decision.step, "policy": decider.name,
        }  # fmt: skip
        return Response(shapes.NextSerializer(answer).data)


class EpisodesView(ListView):
    """A pool's episodes."""

    order = ("-created_at", "-pk")

    filter_backends = [ByStatus]

    @operation(
        "episodes", "The pool's episodes, newest first", of=OF, query_string=shapes.EpisodesParameters,
        answers={200: (shapes.EpisodesSerializer, "The episodes", {"pool": "support", "episodes": [examples.EPISODE]})},
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """The episodes of a pool, of one status where it is asked for. At most a hundred at a time; the header Link leads on."""
        self.chosen = self.query_string(shapes.EpisodesParameters)
        pool = self.pool(self.chosen["pool"])
        rows = [following.answer(episode) for episode in self.part(episodes.of_pool(pool))]
        return self.listed(shapes.EpisodesSerializer({"pool": pool.slug, "episodes": rows}).data)


class OfEpisode(ApiView):
    """One episode."""

    scope = "route"

    def episode(self, episode_id: UUID) -> Episode:
        """The episode of that id. Raises Refused."""
        return self.one_of(Episode.objects.select_related("pool"), episode_id, "episode")

    def shown(self, episode: Episode) -> Response:
        """The episode with its steps."""
        names = dict(episode.pool.agents.values_list("number", "name"))
        answer = following.whole(episode) | {
            "pool": episode.pool.slug, "task": episode.task, "budget": episode.budget, "success": episode.success,
            "rating": episode.rating, "created_at": episode.created_at, "finished_at": episode.finished_at,
            "trajectory": [as_json(row, names) for row in episode.trajectory.all()],
            "page": reverse("episode", args=(episode.pool.slug, episode.pk), urlconf="routerweb.urls"),
        }  # fmt: skip
        return Response(shapes.EpisodeDetailSerializer(answer).data)


class EpisodeView(OfEpisode):
    """How an episode is."""

    @operation(
        "episode", "One episode and its steps", of=OF, parts=("episode_id",), any_pool=False,
        answers={200: (shapes.EpisodeDetailSerializer, "The episode", examples.EPISODE_DETAIL)}, errors=("not_found",),
    )  # fmt: skip
    def get(self, request: Request, episode_id: UUID) -> Response:
        """How far it is, or how it ended, and every step so far: who was chosen with what probability, what came back, its cost."""
        return self.shown(self.episode(episode_id))


class CancelEpisodeView(OfEpisode):
    """Ending an episode."""

    @operation(
        "cancelEpisode", "Cancel an episode", of=OF, parts=("episode_id",), any_pool=False,
        answers={200: (
            shapes.EpisodeDetailSerializer, "The episode, cancelled",
            examples.EPISODE_DETAIL | {"status": "cancelled", "stop_reason": "cancelled", "answer": None},
        )},
        errors=("not_found", "ended"),
    )  # fmt: skip
    def post(self, request: Request, episode_id: UUID) -> Response:
        """Nothing more is called. What a call under way says is not kept."""
        episode = self.episode(episode_id)
        try:
            episodes.cancel(episode, actor=self.access.actor)
        except episodes.EpisodeError as error:
            raise Refused(409, error.code, str(error)) from None
        return self.shown(episode)


class JudgeView(OfEpisode):
    """What became of an episode."""

    @operation(
        "judgeEpisode", "What became of an episode", of=OF, parts=("episode_id",), any_pool=False, body=shapes.JudgeRequest,
        example={"success": True, "rating": 0.8, "comment": "right, but slow"},
        answers={200: (shapes.EpisodeDetailSerializer, "The episode", examples.EPISODE_DETAIL | {"success": True, "rating": 0.8})},
        errors=("not_found", "running", "too_long"),
    )  # fmt: skip
    def post(self, request: Request, episode_id: UUID) -> Response:
        """Report how it worked out; orchestrators learn from it. A second report replaces the first."""
        body, episode = self.body(shapes.JudgeRequest), self.episode(episode_id)
        try:
            episodes.judge(episode, success=body["success"], rating=body["rating"], comment=body["comment"])
        except episodes.EpisodeError as error:
            raise Refused(409, error.code, str(error)) from None
        return self.shown(episode)
