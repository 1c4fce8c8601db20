"""Kept decisions: a list of them, one, and the same again."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from uuid import UUID

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from rest_framework.request import Request
from rest_framework.response import Response

from agents_app.models import Pool
from routerweb.pages.downloads import download
from training_app.answering import explanations, nearest, replays, serving
from training_app.api import examples, paging
from training_app.api.errors import Refused, refused_as
from training_app.api.schema import operation
from training_app.api.serializers import decisions as shapes
from training_app.api.views.runs import ListView, OpsView
from training_app.decision_archive import reading
from training_app.decision_archive.storage import ArchiveError
from training_app.engine.routing.router import ArtifactError
from training_app.models import Decision, Outcome
from training_app.rollout import decision_exports
from training_app.versions import registry

OF = "Decisions"
#: The one type of any file that generators of clients know.
FILE = "application/octet-stream"


def _archive_read(hint: str) -> AbstractContextManager[None]:
    """Refuses the request where the archive of decisions cannot be read."""
    return refused_as(503, "archive_away", ArchiveError, hint=hint)


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
        errors=("archive_away",),
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """Decisions of a pool that are kept, each with the outcome that was reported of it: those of the database, then those of the
        archive. An answer is among them a second after it was given. At most a hundred at a time, fewer, or none, where those that fit
        are rare or the archive begins; the header Link leads on. A decision that goes to the archive meanwhile may come twice."""
        self.chosen = self.query_string(shapes.DecisionsParameters)
        pool = self.pool(self.chosen["pool"])
        search = self._search(pool)
        place = paging.archived_place(self.chosen["cursor"])
        if place is not None:
            decisions, outcomes = self._archived(request, pool, search, place)
        else:
            rows = Decision.objects.filter(pool=pool).select_related("pool", "model__pool")
            decisions = self.part(self._those(rows, search))
            outcomes = _outcomes(decisions)
            if not self.paginator.headers() and reading.has_some(pool, search):  # type: ignore[union-attr]
                self.paginator.lead_to_archive(request, "")  # type: ignore[union-attr]
        answer = {"pool": pool.slug, "decisions": decisions}
        return self.listed(shapes.DecisionsSerializer(answer, context={"outcomes": outcomes}).data)

    def _search(self, pool: Pool) -> reading.Search:
        """What was asked for. Raises Refused."""
        values, model = self.chosen, None
        descriptions = values["model"] == Decision.DESCRIPTIONS
        if values["model"] and not descriptions:
            try:
                model = registry.chosen(pool, values["model"]).pk
            except registry.RegistryError as error:
                raise Refused(400, "invalid", f"model: {error}", field="model") from None
        if values["agent"] is not None and not pool.agents.filter(number=values["agent"]).exists():
            raise Refused(400, "invalid", f"agent: the pool has no agent {values['agent']}.", field="agent")
        return reading.Search(
            agent=values["agent"], model=model, descriptions=descriptions, reason=values["stop_reason"], since=values["since"],
            until=values["until"],
        )  # fmt: skip

    def _archived(
        self, request: Request, pool: Pool, search: reading.Search, place: str
    ) -> tuple[list[Decision], dict[UUID, Outcome]]:
        """A part of the archive, and what was reported of its decisions. Raises Refused."""
        if not reading.has_some(pool, search):
            return [], {}
        with _archive_read("Try again later; decisions before this part were not affected."):
            part = reading.part(pool, search, place, self.chosen["limit"])
        if part.next:
            self.paginator.lead_to_archive(request, part.next)  # type: ignore[union-attr]
        rows = reading.not_stored(part.rows)
        return [row.decision for row in rows], {row.decision.pk: row.outcome for row in rows if row.outcome is not None}

    def _those(self, rows: Any, search: reading.Search) -> Any:
        if search.descriptions:
            rows = rows.filter(model=None)
        elif search.model is not None:
            rows = rows.filter(model=search.model)
        if search.since is not None:
            rows = rows.filter(at__gte=search.since)
        return rows if search.until is None else rows.filter(at__lt=search.until)

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
        answers={200: (OpenApiTypes.BINARY, "Parquet, JSON lines, or a zip of a dataset folder", "…")},
        errors=("cannot_export", "archive_away"),
    )  # fmt: skip
    def get(self, request: Request) -> HttpResponseBase:
        """Every decision of the pool and that time, archived ones too, with its outcome, as `manage.py export_decisions` writes
        them."""
        values = self.query_string(shapes.ExportParameters)
        pool, kind = self.pool(values["pool"]), values["format"]
        chosen = decision_exports.kept(pool, values["since"], values["until"])
        archived = reading.Search(since=values["since"], until=values["until"])
        with refused_as(409, "cannot_export", decision_exports.ExportError):
            pieces = decision_exports.download(pool, kind, chosen, words=not values["without_text"], archived=archived)
        with _archive_read("Try again later, or export the days since the archive ends."):
            return download(pieces, FILE, decision_exports.file_name(pool, kind))


class OfDecision(OpsView):
    """One decision."""

    outcome: Outcome | None

    def decision(self, decision_id: UUID) -> Decision:
        """The decision of that id, stored or archived; `outcome` is what was reported of it. Raises Refused."""
        with _archive_read("It may be an archived decision: try again later."):
            kept = reading.kept(decision_id, Pool.objects.filter(slug__in=self.access.caller.pools))
        if kept is None:
            raise Refused(
                404, "not_found", f"There is no decision {decision_id} in the pools that this API key opens.",
                hint="It is there a second after the answer, for DECISION_DAYS days and then archived, if DECISION_SHARE kept it.",
            )  # fmt: skip
        self.outcome = kept.outcome
        return kept.decision


class DecisionView(OfDecision):
    """A decision."""

    @operation(
        "decision", "A kept decision", of=OF, parts=("decision_id",), any_pool=False,
        answers={200: (shapes.DecisionSerializer, "As it was answered, with its outcome", examples.KEPT)},
        errors=("not_found", "archive_away"),
    )  # fmt: skip
    def get(self, request: Request, decision_id: UUID) -> Response:
        """The decision as it was kept, in the database or in the archive, with the outcome that was reported of it."""
        decision = self.decision(decision_id)
        outcomes = {decision.pk: self.outcome} if self.outcome is not None else {}
        return Response(shapes.DecisionSerializer(decision, context={"outcomes": outcomes}).data)


class ReplayView(OfDecision):
    """A decision again."""

    @operation(
        "replay", "A kept decision, routed again on the version that made it", of=OF, parts=("decision_id",), any_pool=False,
        answers={200: (shapes.ReplaySerializer, "Both answers, and whether they are identical", examples.REPLAY)},
        errors=("not_found", "cannot_replay", "archive_away"),
    )  # fmt: skip
    def get(self, request: Request, decision_id: UUID) -> Response:
        """The decision as it was kept, what the same model version answers now, and why. It is there a second after the answer, for
        DECISION_DAYS days and then in the archive, where DECISION_SHARE kept it."""
        decision = self.decision(decision_id)
        if not decision.text:
            raise Refused(409, "cannot_replay", "The text of this decision was erased.")
        loaded = serving.current(decision.pool.slug)
        cold = loaded.live.cold if loaded is not None and loaded.live is not None else None
        with refused_as(409, "cannot_replay", registry.RegistryError, ArtifactError):
            replay = replays.replay(decision, replays.router_of(decision), cold)
        answer = {
            "decision": decision,
            "replay": replay,
            "explanation": explanations.as_json(replay.explanation, loaded.names if loaded is not None else {}),
            "nearest": nearest.to(decision.pool, decision.text),
        }
        return Response(shapes.ReplaySerializer(answer).data)


def _outcomes(decisions: list[Decision]) -> dict[UUID, Outcome]:
    """What was reported of them."""
    outcomes = Outcome.objects.filter(decision_id__in=[decision.pk for decision in decisions])
    return {outcome.decision_id: outcome for outcome in outcomes}
