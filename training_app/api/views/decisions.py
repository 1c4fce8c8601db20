"""Kept decisions: a list of them, one, and the same again."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request
from rest_framework.response import Response

from agents_app.models import Pool
from routerweb.pages.downloads import download
from training_app.answering import explanations, nearest, replays, serving
from training_app.api import examples
from training_app.api.errors import Refused
from training_app.api.schema import operation
from training_app.api.serializers import decisions as shapes
from training_app.api.views.runs import ListView, OpsView
from training_app.engine.routing.router import ArtifactError
from training_app.models import Decision, Outcome
from training_app.rollout import decision_exports
from training_app.versions import registry

OF = "Decisions"
#: The one type of any file that generators of clients know.
FILE = "application/octet-stream"


class DecisionsView(ListView):
    """A pool's decisions."""

    order = ("-at", "-pk")

    @property
    def fits(self) -> Callable[[Any], Any] | None:
        """Those with an agent and of a reason, which may be rare: they are looked for from the newest on."""
        return self._fitting if self.chosen["agent"] is not None or self.chosen["stop_reason"] else None

    @operation(
        "decisions", "The pool's decisions, newest first", of=OF, query_string=shapes.DecisionsParameters,
        answers={200: (shapes.DecisionsSerializer, "The decisions", {"pool": "support", "decisions": [examples.KEPT]})},
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """Decisions of a pool that are kept, each with the outcome that was reported of it. An answer is among them a second after it
        was given. At most a hundred at a time, fewer where those that fit are rare; the header Link leads on."""
        self.chosen = self.query_string(shapes.DecisionsParameters)
        pool = self.pool(self.chosen["pool"])
        rows = Decision.objects.filter(pool=pool).select_related("pool", "model__pool")
        decisions = self.part(self._those(rows, pool))
        answer = {"pool": pool.slug, "decisions": decisions}
        return self.listed(shapes.DecisionsSerializer(answer, context=_outcomes(decisions)).data)

    def _those(self, rows: Any, pool: Pool) -> Any:
        values = self.chosen
        if values["model"] == Decision.DESCRIPTIONS:
            rows = rows.filter(model=None)
        elif values["model"]:
            try:
                rows = rows.filter(model=registry.chosen(pool, values["model"]))
            except registry.RegistryError as error:
                raise Refused(400, "invalid", f"model: {error}", field="model") from None
        if values["since"] is not None:
            rows = rows.filter(at__gte=values["since"])
        return rows if values["until"] is None else rows.filter(at__lt=values["until"])

    def _fitting(self, rows: Any) -> Any:
        agent, reason = self.chosen["agent"], self.chosen["stop_reason"]
        if agent is not None:
            rows = rows.choosing(agent)
        return rows.filter(stop_reason=reason) if reason else rows


class ExportView(OpsView):
    """A pool's decisions in a file."""

    @operation(
        "exportDecisions", "The pool's decisions in a file, oldest first", of=OF, query_string=shapes.ExportParameters,
        media=FILE,
        answers={200: (OpenApiTypes.BINARY, "Parquet, JSON lines, or a zip of a dataset folder", "…")}, errors=("cannot_export",),
    )  # fmt: skip
    def get(self, request: Request) -> HttpResponseBase:
        """Every decision of the pool and that time, with its outcome, as `manage.py export_decisions` writes them."""
        values = self.query_string(shapes.ExportParameters)
        pool, kind = self.pool(values["pool"]), values["format"]
        chosen = decision_exports.kept(pool, values["since"], values["until"])
        try:
            pieces = decision_exports.download(pool, kind, chosen, words=not values["without_text"])
        except decision_exports.ExportError as error:
            raise Refused(409, "cannot_export", str(error)) from None
        return download(pieces, FILE, decision_exports.file_name(pool, kind))


class OfDecision(OpsView):
    """One decision."""

    def decision(self, decision_id: UUID) -> Decision:
        """The decision of that id. Raises Refused."""
        return self.one_of(
            Decision.objects.select_related("pool", "model__pool"), decision_id, "decision",
            hint="It is there a second after the answer, for DECISION_DAYS days, where DECISION_SHARE kept it.",
        )  # fmt: skip


class DecisionView(OfDecision):
    """A decision."""

    @operation(
        "decision", "A kept decision", of=OF, parts=("decision_id",), any_pool=False,
        answers={200: (shapes.DecisionSerializer, "As it was answered, with its outcome", examples.KEPT)},
        errors=("not_found",),
    )  # fmt: skip
    def get(self, request: Request, decision_id: UUID) -> Response:
        """The decision as it was kept, with the outcome that was reported of it."""
        decision = self.decision(decision_id)
        return Response(shapes.DecisionSerializer(decision, context=_outcomes([decision])).data)


class ReplayView(OfDecision):
    """A decision again."""

    @operation(
        "replay", "A kept decision, routed again on the version that made it", of=OF, parts=("decision_id",), any_pool=False,
        answers={200: (shapes.ReplaySerializer, "Both answers, and whether they are identical", examples.REPLAY)},
        errors=("not_found", "cannot_replay"),
    )  # fmt: skip
    def get(self, request: Request, decision_id: UUID) -> Response:
        """The decision as it was kept, what the same model version answers now, and why. It is there a second after the answer, for
        DECISION_DAYS days, where DECISION_SHARE kept it."""
        kept = self.decision(decision_id)
        if not kept.text:
            raise Refused(409, "cannot_replay", "The text of this decision was erased.")
        loaded = serving.current(kept.pool.slug)
        cold = loaded.live.cold if loaded is not None and loaded.live is not None else None
        try:
            replay = replays.replay(kept, replays.router_of(kept), cold)
        except (registry.RegistryError, ArtifactError) as error:
            raise Refused(409, "cannot_replay", str(error)) from None
        answer = {
            "decision": kept,
            "replay": replay,
            "explanation": explanations.as_json(replay.explanation, loaded.names if loaded is not None else {}),
            "nearest": nearest.to(kept.pool, kept.text),
        }
        return Response(shapes.ReplaySerializer(answer).data)


def _outcomes(decisions: list[Decision]) -> dict[str, Any]:
    """What was reported of them, for their serializer."""
    outcomes = Outcome.objects.filter(decision_id__in=[decision.pk for decision in decisions])
    return {"outcomes": {outcome.decision_id: outcome for outcome in outcomes}}
