"""Files of queries, labels and suggestions."""

from dataclasses import dataclass, replace
from io import BytesIO
from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile
from rest_framework.request import Request
from rest_framework.response import Response

from agents_app import audit, pools
from agents_app.files.formats import Reading, Unreadable
from agents_app.models import Pool
from datasets_app.files import checking, ddqn_router, imports, looking, meanings, undoing, uploads
from datasets_app.models import Import
from datasets_app.queries import adding
from training_app.api import examples
from training_app.api.errors import Refused, refused_as
from training_app.api.once import once
from training_app.api.schema import operation
from training_app.api.serializers import imports as shapes
from training_app.api.views.runs import OpsView

OF = "Labeling"
#: Labels that are not understood and that an error names.
NAMED = 3


class ImportsView(OpsView):
    """Files."""

    @operation(
        "importFile", "Import a file", of=OF, keyed=True, body=shapes.ImportRequest,
        example={"pool": "support", "file_name": "tickets.csv", "content": "Message;Team\nWhere is my parcel?;Shipping\n"},
        answers={200: (shapes.SentFileSerializer, "What an import would keep", {"check": examples.FILE_CHECK, "upload": None}),
                 201: (shapes.SentFileSerializer, "It waits for a worker", {"check": examples.FILE_CHECK, "upload": examples.IMPORT})},
        errors=("not_understood",),
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """Read a file in as the page Import does: queries, labels and suggestions of any form that it knows, columns found by what
        they hold. Where labels are not understood nothing is stored: say what they mean, or leave them out."""
        body = self.body(shapes.ImportRequest)
        pool = self.pool(body["pool"])
        answers = {
            meanings.key_of(label): agents
            for label, agents in shapes.meanings_of(body["map"], pools.roster(pool, retired=True), pool).items()
        }
        try:
            reading, checked = _examined(pool, body, answers)
        except Unreadable as error:
            raise Refused(400, "invalid", f"content: {error}", field="content") from None
        if body["check_only"]:
            return Response(shapes.SentFileSerializer({"check": checked, "upload": None}).data)
        if checked.lost and not body["leave_out"]:
            raise _not_understood(checked)
        try:
            ddqn_router.add_agents(pool, BytesIO(body["bytes"]), self.access.actor)
        except pools.PoolError as error:
            raise Refused(400, "invalid", f"content: {error}", field="content") from None
        return self._begun(request, _Sent(pool, body, reading, answers, checked))

    @once
    def _begun(self, request: Request, sent: "_Sent") -> Response:
        """Store the file and queue its import. What reads it has ended: no transaction waits for a child process."""
        pool, name = sent.pool, sent.body["dataset"]
        existing = pool.datasets.filter(name__iexact=name) if name else pool.datasets.all()
        new = not existing.exists()
        upload = uploads.receive(
            adding.dataset_of(pool, name), SimpleUploadedFile(sent.body["file_name"], sent.body["bytes"]),
            author=audit.actor_of(self.access.actor).user, reading=sent.reading, made_dataset=new,
        )  # fmt: skip
        meanings.remember(upload, sent.meanings)
        imports.begin(upload, sent.reading, sent.body["split"])
        upload.refresh_from_db()
        return Response(shapes.SentFileSerializer({"check": sent.checked, "upload": upload}).data, status=201)


@dataclass(frozen=True, slots=True)
class _Sent:
    """A file that is to be imported: what the request says, how it is read, what was said of its labels and what would be kept."""

    pool: Pool
    body: dict[str, Any]
    reading: Reading
    meanings: dict[str, list[int] | None]
    checked: checking.Check


def _examined(pool: Pool, body: dict[str, Any], answers: dict[str, list[int] | None]) -> tuple[Reading, checking.Check]:
    """How the file is read, and what an import of it would keep. Raises Unreadable and Refused."""
    content: bytes = body["bytes"]
    agents = pools.roster(pool, retired=True) or ddqn_router.agents_in_archive(BytesIO(content))
    looked = looking.look(BytesIO(content), body["file_name"], agents)
    reading = replace(looked.reading, values={**meanings.remembered(pool), **answers}, empty=body["empty"])
    if not reading.shape and not {"text", "messages"} & set(reading.columns):
        raise Refused(
            400, "invalid", "content: none of its columns looks like the query's text.", field="content",
            hint="Name that column text.",
        )  # fmt: skip
    return reading, checking.check(BytesIO(content), reading, agents)


def _not_understood(checked: checking.Check) -> Refused:
    strange = [dict(value) for value in shapes.StrangeSerializer(checked.strange, many=True).data]
    named = ", ".join(f"“{value['value']}”" for value in strange[:NAMED])
    return Refused(
        409, "not_understood", f"{checked.kept} of {checked.labels} labels are understood; no agent is called {named}.",
        hint="Say in map what they mean, or leave_out.", findings=strange,
    )  # fmt: skip


class OfImport(OpsView):
    """One import."""

    def upload(self, import_id: int) -> Import:
        """The import of that id. Raises Refused."""
        return self.one_of(Import.objects.select_related("dataset__pool"), import_id, "import", path="dataset__pool")


class ImportView(OfImport):
    """How far it is."""

    @operation(
        "readImport", "An import, how far it is", of=OF, parts=("import_id",),
        answers={200: (shapes.ImportSerializer, "The import", examples.IMPORT)}, any_pool=False, errors=("not_found",),
    )  # fmt: skip
    def get(self, request: Request, import_id: int) -> Response:
        """What has been read so far, and what came of it."""
        return Response(shapes.ImportSerializer(self.upload(import_id)).data)


class UndoImportView(OfImport):
    """All that it brought is gone."""

    @operation(
        "undoImport", "Undo an import", of=OF, keyed=True, parts=("import_id",),
        answers={200: (shapes.UndoneImportSerializer, "What is gone", {"queries": 58, "labels": 58, "kept": 2})},
        any_pool=False, errors=("not_found", "cannot_undo"),
    )  # fmt: skip
    @once
    def post(self, request: Request, import_id: int) -> Response:
        """Take out the queries, labels, suggestions, people and agents that an import brought, but for queries that somebody has
        worked on since."""
        upload = self.upload(import_id)
        with refused_as(409, "cannot_undo", undoing.UndoError):
            undone = undoing.undo(upload, self.access.actor)
        return Response(shapes.UndoneImportSerializer(undone).data)
