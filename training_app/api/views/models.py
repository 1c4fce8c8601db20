"""Models: listed, promoted, rolled back, pinned; as shadows and canaries."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib.auth.models import User
from rest_framework.request import Request
from rest_framework.response import Response

from agents_app.audit import Actor
from training_app.api import examples
from training_app.api.errors import Refused, refused_as
from training_app.api.once import once
from training_app.api.schema import operation
from training_app.api.serializers import models as shapes
from training_app.api.serializers.runs import PageParameters
from training_app.api.views.runs import ListView, OpsView
from training_app.models import Canary, PromotionRequest, RouterModel
from training_app.rollout import live_figures, trials
from training_app.versions import approvals, gate, headlines, keeping, registry, verdict

OF = "Models"
OF_A_MODEL = ("not_found",)


class ModelsView(ListView):
    """A pool's models."""

    order = ("-version", "-pk")

    @operation(
        "models", "The pool's models, newest first", of=OF, query_string=PageParameters,
        answers={200: (shapes.ModelsSerializer, "The models", {"pool": "support", "models": [examples.MODEL]})},
    )  # fmt: skip
    def get(self, request: Request) -> Response:
        """The models of a pool with their test figures. At most a hundred at a time; the header Link leads on."""
        self.chosen = self.query_string(PageParameters)
        pool = self.pool(self.chosen["pool"])
        rows = verdict.for_list(headlines.with_headlines(self.part(registry.models(pool).select_related("learnt"))))
        return self.listed(shapes.ModelsSerializer({"pool": pool.slug, "models": rows}).data)


class ModelView(OpsView):
    """One model."""

    def model(self, name: str) -> RouterModel:
        """The model of that name; refused where the key does not open its pool as where there is none."""
        try:
            model = registry.find(name)
        except registry.RegistryError:
            model = None
        if model is None or model.pool.slug not in self.access.caller.pools:
            raise Refused(404, "not_found", f"There is no model {name[:80]} in the pools that this API key opens.")
        return model

    def waiting(self, name: str) -> PromotionRequest:
        """The request for the promotion of the model of that name, or for its canary; refused where there is none."""
        request = approvals.waiting_for(self.model(name))
        if request is None:
            raise Refused(
                409, "cannot_promote", f"Neither a promotion of {name[:80]} nor its canary waits for anybody."
            )
        return request

    def by(self) -> Actor:
        """The key, for the person who made it: with four eyes it matters who that is."""
        maker = self.access.caller.maker
        return Actor(self.access.actor.name, User.objects.filter(username=maker).first() if maker else None)


class PromoteView(ModelView):
    """Promoting."""

    @operation(
        "promote", "Make a model answer, if it passes the gate", of=OF, keyed=True,
        body=shapes.PromoteRequest, parts=("name",), any_pool=False,
        example={"reason": "better on sets of two"},
        answers={
            200: (shapes.PromotionSerializer, "It answers within two seconds", examples.PROMOTION),
            202: (shapes.PromotionRequestSerializer, "It waits for a second person", examples.ASKED),
        },
        errors=(*OF_A_MODEL, "too_long", "gate_refused", "cannot_promote"),
    )  # fmt: skip
    @once
    def post(self, request: Request, name: str) -> Response:
        """Make the model answer, if it passes the gate or `override` says why it does all the same. A refusal lists the findings.

        Where promotions need a second person, it is asked for and waits: `approve` is that person's.
        """
        body = self.body(shapes.PromoteRequest)
        model = self.model(name)
        with _through_gate("cannot_promote", "promote it"):
            promotion = gate.promote(model, actor=self.by(), reason=body["reason"], override=body["override"])
        if isinstance(promotion, PromotionRequest):
            return Response(shapes.PromotionRequestSerializer(promotion).data, status=202)
        return Response(shapes.PromotionSerializer(promotion).data)


class ApproveView(ModelView):
    """The second person's yes."""

    @operation(
        "approve", "Approve a promotion, or a canary, that somebody else asked for", of=OF, keyed=True,
        body=shapes.NoteRequest, parts=("name",), any_pool=False,
        example={"note": "looked at the errors"},
        answers={
            200: (shapes.PromotionSerializer, "It answers within two seconds", examples.PROMOTION),
            201: (shapes.CanarySerializer, "It was a canary: it answers its share within two seconds", examples.CANARY),
        },
        errors=(*OF_A_MODEL, "too_long", "gate_refused", "cannot_promote"),
    )  # fmt: skip
    @once
    def post(self, request: Request, name: str) -> Response:
        """Let the model answer, as the person who made the key: a key of whoever asked is refused."""
        body = self.body(shapes.NoteRequest)
        with _through_gate("cannot_promote", "ask for it again"):
            approved = trials.approve(self.waiting(name), actor=self.by(), note=body["note"])
        if isinstance(approved, Canary):
            return Response(shapes.CanarySerializer(approved).data, status=201)
        return Response(shapes.PromotionSerializer(approved).data)


class DeclineView(ModelView):
    """The second person's no."""

    settle = staticmethod(approvals.decline)

    @operation(
        "decline", "Decline a promotion, or a canary, that somebody else asked for", of=OF, keyed=True,
        body=shapes.NoteRequest, parts=("name",), any_pool=False,
        example={"note": "not before the holidays"},
        answers={200: (shapes.PromotionRequestSerializer, "The request as it is now", examples.ASKED | {"state": "declined"})},
        errors=(*OF_A_MODEL, "too_long", "cannot_promote"),
    )  # fmt: skip
    @once
    def post(self, request: Request, name: str) -> Response:
        """Say no to it; the model stays a candidate and can be asked for again."""
        return self._settle(name)

    def _settle(self, name: str) -> Response:
        body = self.body(shapes.NoteRequest)
        request = self.waiting(name)
        with refused_as(409, "cannot_promote", registry.RegistryError):
            self.settle(request, actor=self.by(), note=body["note"])
        return Response(shapes.PromotionRequestSerializer(request).data)


class WithdrawView(DeclineView):
    """The first person's second thought."""

    settle = staticmethod(approvals.withdraw)

    @operation(
        "withdraw", "Withdraw a promotion, or a canary, that the key's maker asked for", of=OF, keyed=True,
        body=shapes.NoteRequest, parts=("name",), any_pool=False, example={"note": "a better one is training"},
        answers={200: (shapes.PromotionRequestSerializer, "The request as it is now", examples.ASKED | {"state": "withdrawn"})},
        errors=(*OF_A_MODEL, "too_long", "cannot_promote"),
    )  # fmt: skip
    @once
    def post(self, request: Request, name: str) -> Response:
        """Take the request back; the model stays a candidate. A key of somebody else cannot: it declines."""
        return self._settle(name)


class PinView(ModelView):
    """Keeping an artifact."""

    pinned = True

    @operation(
        "pin", "Keep a model's artifact whatever comes", of=OF, keyed=True, parts=("name",), any_pool=False,
        answers={200: (shapes.ModelSerializer, "The model", examples.MODEL | {"pinned": True})},
        errors=(*OF_A_MODEL, "cannot_pin"),
    )  # fmt: skip
    @once
    def post(self, request: Request, name: str) -> Response:
        """Keep the model's artifact, however old it grows. No body is needed."""
        return self._pin(name)

    def _pin(self, name: str) -> Response:
        model = self.model(name)
        with refused_as(409, "cannot_pin", registry.RegistryError):
            keeping.pin(model, self.pinned, actor=self.access.actor)
        return Response(shapes.ModelSerializer(verdict.for_list(headlines.with_headlines([model]))[0]).data)


class UnpinView(PinView):
    """Letting an artifact go."""

    pinned = False

    @operation(
        "unpin", "Let a model's artifact grow old like others", of=OF, keyed=True, parts=("name",), any_pool=False,
        answers={200: (shapes.ModelSerializer, "The model", examples.MODEL)}, errors=(*OF_A_MODEL, "cannot_pin"),
    )  # fmt: skip
    @once
    def post(self, request: Request, name: str) -> Response:
        """Let the model's artifact be pruned in its time. No body is needed."""
        return self._pin(name)


class RollBackView(OpsView):
    """Going back."""

    @operation(
        "rollback", "Go back to the model that was active before", of=OF, keyed=True, body=shapes.RollBackRequest,
        example={"pool": "support", "reason": "it is slower"},
        answers={200: (shapes.PromotionSerializer, "The earlier model answers within two seconds",
                       examples.PROMOTION | {"kind": "rollback"})},
        errors=("cannot_roll_back", "gate_refused", "too_long"),
    )  # fmt: skip
    @once
    def post(self, request: Request) -> Response:
        """Go back to the model that was active before; again, one further. A model that breaks a must-pass case is refused without
        `override`."""
        body = self.body(shapes.RollBackRequest)
        pool = self.pool(body["pool"])
        with _through_gate("cannot_roll_back", "go back to it"):
            promotion = gate.rollback(
                pool, body["kind"], actor=self.access.actor, reason=body["reason"], override=body["override"]
            )
        return Response(shapes.PromotionSerializer(promotion).data)


# --- On live traffic ------------------------------------------------------------------------------------------------


class StartShadowView(ModelView):
    """A shadow begins."""

    @operation(
        "startShadow", "Let a model score live texts and answer nothing", of=OF, keyed=True,
        parts=("name",), any_pool=False,
        answers={200: (shapes.ModelRoleSerializer, "The model's state", examples.MODEL_STATE)},
        errors=(*OF_A_MODEL, "cannot_shadow"),
    )  # fmt: skip
    @once
    def post(self, request: Request, name: str) -> Response:
        """Let the model score live texts beside the active one, in the background. No body is needed."""
        return self._shadow(name, trials.start_shadow)

    def _shadow(self, name: str, change: object) -> Response:
        model = self.model(name)
        with refused_as(409, "cannot_shadow", registry.RegistryError):
            change(model, actor=self.access.actor)  # type: ignore[operator]
        return Response(shapes.ModelRoleSerializer(model).data)


class StopShadowView(StartShadowView):
    """A shadow ends."""

    @operation(
        "stopShadow", "Let it score no more", of=OF, keyed=True, parts=("name",), any_pool=False,
        answers={200: (shapes.ModelRoleSerializer, "The model's state", examples.MODEL_STATE | {"state": "candidate"})},
        errors=(*OF_A_MODEL, "cannot_shadow"),
    )  # fmt: skip
    @once
    def post(self, request: Request, name: str) -> Response:
        """Let it score no more; what it scored is kept. No body is needed."""
        return self._shadow(name, trials.stop_shadow)


class StartCanaryView(ModelView):
    """A canary begins."""

    @operation(
        "startCanary", "Let a model answer a share of the traffic, if it passes the gate", of=OF, keyed=True,
        body=shapes.CanaryRequest,
        parts=("name",), any_pool=False, example={"share": 0.1},
        answers={
            200: (shapes.CanarySerializer, "The canary", examples.CANARY),
            202: (shapes.PromotionRequestSerializer, "It waits for a second person", examples.ASKED | {"share": 0.1}),
        },
        errors=(*OF_A_MODEL, "too_long", "gate_refused", "cannot_canary"),
    )  # fmt: skip
    @once
    def post(self, request: Request, name: str) -> Response:
        """Let the model answer a share of the traffic, through the gate or with `override`; sent again, the share changes.

        Where promotions need a second person, a canary does too, and so does a larger share: it is asked for and waits.
        """
        body = self.body(shapes.CanaryRequest)
        model = self.model(name)
        with _through_gate("cannot_canary", "let it answer a share"):
            canary = trials.start_canary(
                model,
                body["share"],
                actor=self.by(),
                reason=body["reason"],
                override=body["override"],
            )
        if isinstance(canary, PromotionRequest):
            return Response(shapes.PromotionRequestSerializer(canary).data, status=202)
        return Response(shapes.CanarySerializer(canary).data)


class StopCanaryView(ModelView):
    """A canary ends."""

    @operation(
        "stopCanary", "Let the active model answer everything again", of=OF, keyed=True,
        parts=("name",), any_pool=False,
        answers={200: (shapes.CanarySerializer, "The canary that ended", examples.CANARY | {"ended_at": examples.AT})},
        errors=(*OF_A_MODEL, "cannot_canary"),
    )  # fmt: skip
    @once
    def post(self, request: Request, name: str) -> Response:
        """Let the active model answer everything again. No body is needed."""
        model = self.model(name)
        canary = trials.canary_of(model.pool, model.kind)
        if canary is None or canary.model_id != model.pk:
            raise Refused(409, "cannot_canary", f"{model.name} is not the canary of {model.pool.slug}.")
        ended = trials.stop_canary(model.pool, model.kind, actor=self.access.actor)
        return Response(shapes.CanarySerializer(ended).data)


class LiveView(ModelView):
    """How a trial goes."""

    @operation(
        "live", "How a shadow or a canary compares with the active model on live decisions", of=OF, parts=("name",), any_pool=False,
        answers={200: (shapes.LiveSerializer, "The figures, with intervals", examples.LIVE)}, errors=OF_A_MODEL,
    )  # fmt: skip
    def get(self, request: Request, name: str) -> Response:
        """Counts, means and 95 % intervals as a shadow and as a canary; null where it is neither."""
        model = self.model(name)
        canary = trials.canary_of(model.pool, model.kind)
        shadow = model.state == RouterModel.State.SHADOW
        answer = {
            "model": model.name,
            "state": model.state,
            "shadow": live_figures.shadow_json(model) if shadow else None,
            "canary": live_figures.canary_json(canary) if canary and canary.model_id == model.pk else None,
        }
        return Response(shapes.LiveSerializer(answer).data)


@contextmanager
def _through_gate(code: str, instead: str) -> Iterator[None]:
    """Refuse the request with what the gate found, or under `code` with what the registry says; a reason lets it `instead`."""
    try:
        yield
    except gate.GateRefused as refused:
        raise Refused(
            409,
            "gate_refused",
            str(refused),
            hint=f"Send override with a reason to {instead} all the same.",
            findings=[
                {"check": finding.check, "passed": finding.passed, "text": finding.text}
                for finding in refused.verdict.findings
            ],
        ) from None
    except registry.RegistryError as error:
        raise Refused(409, code, str(error)) from None
