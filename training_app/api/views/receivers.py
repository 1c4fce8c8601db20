"""Receivers of alarms and of unsure decisions: listed, added, removed."""

from rest_framework.request import Request
from rest_framework.response import Response

from training_app.api import examples
from training_app.api.errors import Refused
from training_app.api.once import once
from training_app.api.schema import operation
from training_app.api.serializers import receivers as shapes
from training_app.api.serializers.runs import PageParameters
from training_app.api.views.runs import ListView, OpsView
from training_app.models import AlarmReceiver
from training_app.watching import deliveries

OF = "Receivers"


class ReceiversView(ListView):
    """A pool's receivers."""

    order = ("pk",)

    @operation(
        "receivers", "Whom the pool's alarms and unsure decisions are told to", of=OF, query_string=PageParameters,
        answers={200: (shapes.ReceiversSerializer, "The receivers", {"pool": "support", "receivers": [examples.RECEIVER]})},
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """The receivers of a pool. At most a hundred at a time; the header Link leads on."""
        self.chosen = self.query_string(PageParameters)
        pool = self.pool(self.chosen["pool"])
        rows = self.part(AlarmReceiver.objects.kept().filter(pool=pool))
        return self.listed(shapes.ReceiversSerializer({"pool": pool.slug, "receivers": rows}).data)

    @operation(
        "addReceiver", "Tell an address of alarms or of unsure decisions", of=OF, body=shapes.AddReceiver,
        example={"pool": "support", "kind": "unsure", "address": examples.RECEIVER["address"]},
        answers={201: (shapes.NewReceiverSerializer, "The receiver", examples.RECEIVER | {"secret": "whsec_…"})},
        errors=("missing", "too_long"),
    )  # fmt: skip
    def post(self, request: Request) -> Response:
        """Add a receiver. The secret of a webhook is in this answer alone, which no Idempotency-Key keeps."""
        body = self.body(shapes.AddReceiver)
        pool = self.pool(body["pool"])
        try:
            receiver = deliveries.add_receiver(pool, body["kind"], body["address"], self.access.actor)
        except deliveries.ReceiverRefused as error:
            raise Refused(400, "invalid", f"address: {error}", field="address") from None
        secret = deliveries.secret_of(receiver) if receiver.kind in AlarmReceiver.SIGNED else ""
        return Response(shapes.ReceiverSerializer(receiver).data | {"secret": secret}, status=201)


class RemoveReceiverView(OpsView):
    """Removing a receiver."""

    @operation(
        "removeReceiver", "Tell an address nothing more", of=OF, keyed=True, parts=("receiver_id",), any_pool=False,
        answers={200: (shapes.ReceiverSerializer, "The receiver as it was", examples.RECEIVER)}, errors=("not_found",),
    )  # fmt: skip
    @once
    def post(self, request: Request, receiver_id: int) -> Response:
        """Remove a receiver; what is on its way to it is given up. No body is needed."""
        receiver = self.one_of(AlarmReceiver.objects.kept().select_related("pool"), receiver_id, "receiver")
        deliveries.remove_receiver(receiver, self.access.actor)
        return Response(shapes.ReceiverSerializer(receiver).data)
