"""What a person says to an episode that waits: the answer to an agent's question, or whether a call is made."""

from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response

from orchestration_app.api import serializers as shapes
from orchestration_app.api.views import OF, OfEpisode, waited
from orchestration_app.episodes import asides, following, runner
from orchestration_app.episodes.asides import AsideError
from orchestration_app.models import Episode
from routerweb.serving import later
from training_app.api import examples
from training_app.api.errors import Refused
from training_app.api.schema import operation

RESULT = examples.EPISODE_RESULT


class ReplyView(OfEpisode):
    """Saying something to an episode."""

    def gone_on(self, episode: Episode, *, wait: bool) -> HttpResponse | Response:
        """What comes of the episode: at its end or its next question where somebody waits, else as it is now."""
        if wait and settings.BACKGROUND_THREADS:
            promise: later.Later | None = self.request.META.get(later.NAME)
            return waited(episode, promise)
        if wait:
            runner.go_on_here(episode)
        return Response(shapes.ResultSerializer(following.whole(episode)).data)


class InputView(ReplyView):
    """The answer to an agent's question."""

    @operation(
        "answerQuestion", "Answer the question of an agent, so that its episode goes on", of=OF, parts=("episode_id",),
        any_pool=False, body=shapes.InputRequest, example={"text": "The one that ends in 4711"},
        answers={200: (shapes.ResultSerializer, "What came of the episode", RESULT)},
        errors=("not_found", "not_waiting", "missing", "too_long"),
    )  # fmt: skip
    def post(self, request: Request, episode_id: UUID) -> HttpResponse | Response:
        """The agent that asked gets the answer and goes on. The reply comes when the episode ends or asks again."""
        body, episode = self.body(shapes.InputRequest), self.episode(episode_id)
        try:
            asides.answer(episode, body["text"], body["call"])
        except AsideError as error:
            raise _refused(error) from None
        return self.gone_on(episode, wait=body["wait"])


class ApprovalView(ReplyView):
    """Whether a call is made."""

    scope = "ops"

    @operation(
        "approveCall", "Approve a call that waits for a person, or refuse it", of=OF, parts=("episode_id",), any_pool=False,
        body=shapes.ApprovalRequest, example={"approve": True},
        answers={200: (shapes.ResultSerializer, "What came of the episode", RESULT)},
        errors=("not_found", "not_waiting", "agent_away", "missing"),
    )  # fmt: skip
    def post(self, request: Request, episode_id: UUID) -> HttpResponse | Response:
        """An approved call is made; one that is refused has failed as denied, and the answer names its part as missing."""
        body, episode = self.body(shapes.ApprovalRequest), self.episode(episode_id)
        try:
            asides.decide(episode, body["approve"], body["call"], why=body["why"], actor=self.access.actor)
        except AsideError as error:
            raise _refused(error) from None
        return self.gone_on(episode, wait=body["wait"])


def _refused(error: AsideError) -> Refused:
    status = 409 if error.code in ("not_waiting", "agent_away") else 400
    return Refused(status, error.code, str(error), field=error.field)
