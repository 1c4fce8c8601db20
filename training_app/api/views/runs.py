"""Runs and sweeps."""

from collections.abc import Callable, Sequence
from typing import Any

from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from agents_app.models import Pool
from datasets_app.models import Snapshot
from training_app.api import examples
from training_app.api.errors import Refused, refused_as
from training_app.api.once import once
from training_app.api.paging import ByStatus, Part
from training_app.api.schema import operation
from training_app.api.serializers import runs as shapes
from training_app.api.views.base import ApiView
from training_app.engine.config import ConfigError
from training_app.models import Run, Sweep
from training_app.training import runs, sweeps

OF = "Runs"


class OpsView(ApiView):
    """For the keys of operators."""

    scope = "ops"


class ListView(OpsView, GenericAPIView):
    """A list that comes in parts; `chosen` is what was asked for."""

    pagination_class = Part
    chosen: dict[str, Any]
    #: Columns by which the list is ordered, all with a minus or none; the last is the key.
    order: Sequence[str] = ("-pk",)

    @property
    def fits(self) -> Callable[[Any], Any] | None:
        """What narrows the rows beside `part`'s where no index finds those that are left; None where an index does."""
        return None

    def part(self, rows: Any) -> list[Any]:
        """The rows that were asked for."""
        return self.paginate_queryset(self.filter_queryset(rows)) or []

    def listed(self, data: Any) -> Response:
        """The answer, with where it goes on."""
        return Response(data, headers=self.paginator.headers())  # type: ignore[union-attr]


class RunsView(ListView):
    """A pool's runs."""

    filter_backends = [ByStatus]

    @operation(
        "runs", "The pool's runs, newest first", of=OF, query_string=shapes.RunsParameters,
        answers={200: (shapes.RunsSerializer, "The runs", {"pool": "support", "runs": [examples.RUN]})},
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """The runs of a pool, of one status where it is asked for. At most a hundred at a time; the header Link leads on."""
        self.chosen = self.query_string(shapes.RunsParameters)
        pool = self.pool(self.chosen["pool"])
        rows = Run.objects.filter(pool=pool).select_related("pool", "snapshot__pool", "model__pool")
        return self.listed(shapes.RunsSerializer({"pool": pool.slug, "runs": self.part(rows)}).data)

    @operation(
        "launchRun", "Train a model", of=OF, keyed=True, body=shapes.LaunchRun,
        example={"pool": "support", "config": {"total_steps": 5000}, "promote": True},
        answers={201: (shapes.RunSerializer, "The queued run", examples.RUN)}, errors=("cannot_launch",),
    )  # fmt: skip
    @once
    def post(self, request: Request) -> Response:
        """Train on the pool's gold labels as they are now, or on a snapshot. The run is queued; ask for it to see how far it is."""
        body = self.body(shapes.LaunchRun)
        pool = self.pool(body["pool"])
        try:
            run = runs.launch(
                pool, kind=body["kind"], config=body["config"], snapshot=snapshot_of(body["snapshot"], pool), promote=body["promote"],
                include_llm=body["include_llm"], author=self.access.actor,
            )  # fmt: skip
        except ConfigError as error:
            raise bad_config(error) from None
        except runs.RunError as error:
            raise Refused(409, "cannot_launch", str(error)) from None
        return Response(shapes.RunSerializer(run).data, status=201)


class OfRun(OpsView):
    """One run."""

    def run(self, run_id: int) -> Run:
        """The run of that id. Raises Refused."""
        return self.one_of(Run.objects.select_related("pool", "snapshot__pool", "model__pool"), run_id, "run")


class RunView(OfRun):
    """How a run is."""

    @operation(
        "run", "One run", of=OF, parts=("run_id",), any_pool=False,
        answers={200: (shapes.RunSerializer, "The run", examples.RUN | {"status": "running", "step": 1200, "total": 5000})},
        errors=("not_found",),
    )  # fmt: skip
    def get(self, request: Request, run_id: int) -> Response:
        """One run: how far it is, its latest figures, and what it made."""
        return Response(shapes.RunSerializer(self.run(run_id)).data)


class CancelRunView(OfRun):
    """Ending a run."""

    @operation(
        "cancelRun", "End a queued or running run", of=OF, keyed=True, parts=("run_id",), any_pool=False,
        answers={200: (shapes.RunSerializer, "The cancelled run", examples.RUN | {"status": "cancelled"})},
        errors=("not_found", "ended"),
    )  # fmt: skip
    @once
    def post(self, request: Request, run_id: int) -> Response:
        """End a run that is queued or running. No body is needed."""
        run = self.run(run_id)
        with refused_as(409, "ended", runs.RunError):
            runs.cancel(run, actor=self.access.actor)
        return Response(shapes.RunSerializer(run).data)


class SweepsView(OpsView):
    """Launching a sweep."""

    @operation(
        "launchSweep", "Launch a grid or a random search over settings and seeds", of=OF, keyed=True, body=shapes.LaunchSweep,
        example={"space": {"gamma": [0.9, 1.0]}, "seeds": 3, "config": {"total_steps": 5000}},
        answers={201: (shapes.SweepSerializer, "The sweep with its queued runs", examples.SWEEP)}, errors=("cannot_launch",),
    )  # fmt: skip
    @once
    def post(self, request: Request) -> Response:
        """Launch a run for each combination of settings, or for `runs` random points, with `seeds` seeds each."""
        body = self.body(shapes.LaunchSweep)
        pool = self.pool(body["pool"])
        try:
            sweep = sweeps.launch(
                pool, base=body["config"], space=body["space"], method=body["method"], count=body["runs"], seeds=body["seeds"],
                snapshot=snapshot_of(body["snapshot"], pool), author=self.access.actor,
            )  # fmt: skip
        except sweeps.SweepError as error:
            field = error.field if error.field in ("space", "runs") else f"config.{error.field}"
            raise Refused(400, "invalid", str(error), field=field) from None
        except runs.RunError as error:
            raise Refused(409, "cannot_launch", str(error)) from None
        return _sweep(sweep, 201)


class OfSweep(OpsView):
    """One sweep."""

    def sweep(self, sweep_id: int) -> Sweep:
        """The sweep of that id. Raises Refused."""
        return self.one_of(Sweep.objects.select_related("pool", "snapshot__pool"), sweep_id, "sweep")


class SweepView(OfSweep):
    """How a sweep is."""

    @operation(
        "sweep", "One sweep", of=OF, parts=("sweep_id",), any_pool=False,
        answers={200: (shapes.SweepSerializer, "The sweep", examples.SWEEP)}, errors=("not_found",),
    )  # fmt: skip
    def get(self, request: Request, sweep_id: int) -> Response:
        """A sweep with its runs, best validation first. It holds no test figure, as the best is not to be chosen by one."""
        return _sweep(self.sweep(sweep_id))


class CancelSweepView(OfSweep):
    """Ending a sweep."""

    @operation(
        "cancelSweep", "End every run of the sweep that has not ended", of=OF, keyed=True, parts=("sweep_id",), any_pool=False,
        answers={200: (shapes.SweepSerializer, "The sweep", examples.SWEEP)}, errors=("not_found",),
    )  # fmt: skip
    @once
    def post(self, request: Request, sweep_id: int) -> Response:
        """End every run of it that has not ended. No body is needed."""
        sweep = self.sweep(sweep_id)
        sweeps.cancel(sweep, actor=self.access.actor)
        return _sweep(sweep)


def _sweep(sweep: Sweep, status: int = 200) -> Response:
    rows = sweeps.ranked(sweeps.results(sweep), "validation", True)
    return Response(shapes.SweepSerializer(sweep, context={"rows": rows}).data, status=status)


def snapshot_of(number: int | None, pool: Pool) -> Snapshot | None:
    """The snapshot of that number, None for none. Raises Refused."""
    if number is None:
        return None
    snapshot = Snapshot.objects.filter(pool=pool, number=number).first()
    if snapshot is None:
        raise Refused(
            400, "invalid", "snapshot must be the number of a snapshot of this pool.", field="snapshot",
            hint="Leave it out to train on the gold labels as they are now.",
        )  # fmt: skip
    return snapshot


def bad_config(error: ConfigError) -> Refused:
    """What the engine found wrong with a setting."""
    field = f"config.{error.field}"
    return Refused(400, "invalid", f"{field}: {error.reason}", field=field)
