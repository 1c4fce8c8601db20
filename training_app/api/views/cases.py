"""Must-pass cases: listed, made, removed, and run against a model."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from training_app.api import examples
from training_app.api.errors import Refused, refused_as
from training_app.api.once import once
from training_app.api.schema import operation
from training_app.api.serializers import cases as shapes
from training_app.api.serializers.runs import PageParameters
from training_app.api.views.models import ModelView
from training_app.api.views.runs import ListView, OpsView
from training_app.models import MustPassCase
from training_app.versions import cases, registry

OF = "Must-pass cases"
#: What a field is called in the body, by its name in `CaseError`.
FIELDS = {"text": "query", "required": "agents", "reason": "reason"}


class CasesView(ListView):
    """A pool's cases."""

    order = ("pk",)

    @operation(
        "cases", "The pool's must-pass cases", of=OF, query_string=PageParameters,
        answers={200: (shapes.CasesSerializer, "The cases", {"pool": "support", "cases": [examples.CASE]})},
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """The cases of a pool. At most a hundred at a time; the header Link leads on."""
        self.chosen = self.query_string(PageParameters)
        pool = self.pool(self.chosen["pool"])
        rows = self.part(MustPassCase.objects.filter(pool=pool))
        return self.listed(shapes.CasesSerializer({"pool": pool.slug, "cases": rows}).data)

    @operation(
        "makeCase", "Hold every model of the pool to a query's set", of=OF, keyed=True, body=shapes.MakeCase,
        example={"pool": "support", "query": examples.CASE["query"], "agents": [0], "reason": examples.CASE["reason"]},
        answers={201: (shapes.CaseSerializer, "The case", examples.CASE)}, errors=("blank", "too_long", "too_many"),
    )  # fmt: skip
    @once
    def post(self, request: Request) -> Response:
        """Make a case, or change the one of the same text. A model that breaks it is not promoted."""
        body = self.body(shapes.MakeCase)
        try:
            case = cases.add(
                self.pool(body["pool"]),
                body["query"],
                body["agents"],
                owner=self.access.actor,
                reason=body["reason"],
            )
        except cases.CaseError as error:
            raise Refused(400, "invalid", str(error), field=FIELDS[error.field]) from None
        return Response(shapes.CaseSerializer(case).data, status=201)


class DeleteCaseView(OpsView):
    """Removing a case."""

    @operation(
        "deleteCase", "Hold models to a case no longer", of=OF, keyed=True, parts=("case_id",), any_pool=False,
        answers={200: (shapes.CaseSerializer, "The case as it was", examples.CASE)}, errors=("not_found",),
    )  # fmt: skip
    @once
    def post(self, request: Request, case_id: int) -> Response:
        """Remove a case: models may route its query as they see fit. No body is needed."""
        case = self.one_of(MustPassCase.objects.select_related("pool"), case_id, "case")
        answer: Any = shapes.CaseSerializer(case).data
        cases.remove(case, actor=self.access.actor)
        return Response(answer)


class CheckView(ModelView):
    """A model beside the cases."""

    @operation(
        "checkCases", "Run the pool's must-pass cases against a model", of=OF, parts=("name",), any_pool=False,
        answers={200: (shapes.CheckSerializer, "Each case beside the model's answer", examples.CHECK)},
        errors=("not_found", "cannot_check"),
    )  # fmt: skip
    def get(self, request: Request, name: str) -> Response:
        """Each case beside the model's answer now. `broken` is 0 where all of them hold."""
        model = self.model(name)
        with refused_as(409, "cannot_check", registry.RegistryError):
            checked = cases.check(model)
        answer = {
            "model": model.name,
            "cases": len(checked),
            "broken": len(cases.broken(checked)),
            "summary": cases.summary(checked),
            "results": checked,
        }
        return Response(shapes.CheckSerializer(answer).data)
