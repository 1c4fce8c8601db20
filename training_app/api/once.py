"""Idempotency-Key on writes: a call that is sent again under the same key is answered as the first was, and done once.

`once` stands around a view's method. Claim, write and answer are one transaction, so two that come at once are done one after the
other, and a process that dies in between leaves nothing behind. What is refused is not kept: mended, it may be sent again. An episode
keeps its Idempotency-Key itself, as it is the answer (`orchestration.episodes`); header and refusal are the same.
"""

import hashlib
import json
from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from typing import Any, TypeVar

from django.db import IntegrityError, transaction
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from training_app.api.bodies import written
from training_app.api.errors import Refused
from training_app.models import KeptAnswer

View = TypeVar("View", bound=Callable[..., Any])

HEADER = "Idempotency-Key"
#: For how long an answer is kept, and how many of one API key.
KEPT, MOST = timedelta(days=1), 1_000


def key_of(request: Request) -> str:
    """The request's Idempotency-Key, "" without one. Raises Refused."""
    key = request.META.get("HTTP_IDEMPOTENCY_KEY", "").strip()
    if len(key) > 200 or not key.isascii() or not key.isprintable():
        words = f"The header {HEADER} must have at most 200 printable ASCII characters."
        raise Refused(400, "invalid", words, field=HEADER)
    return str(key)


def used(message: str = "This Idempotency-Key was used for another request.") -> Refused:
    """The key named another request."""
    return Refused(409, "key_used", message, hint="Use another key for another request.")


def once(method: View) -> View:
    """The view's method, done once for all requests of an API key that have the same Idempotency-Key."""

    @wraps(method)
    def once_only(view: Any, request: Request, *parts: Any, **named: Any) -> Response:
        key = key_of(request)
        if not key:
            return method(view, request, *parts, **named)
        api_key, digest = view.access.caller.pk, _digest(request)
        if (earlier := _known(api_key, key, digest)) is not None:
            return earlier
        try:
            with transaction.atomic():
                row = KeptAnswer.objects.create(api_key_id=api_key, key=key, digest=digest)
                response = method(view, request, *parts, **named)
                row.status, row.body = response.status_code, written(response.data).decode()
                row.save(update_fields=("status", "body"))
                forget(api_key)
        except IntegrityError:
            # The same call came at the same time, and is done.
            if (earlier := _known(api_key, key, digest)) is not None:
                return earlier
            raise
        return response

    once_only.keeps_answers = True  # type: ignore[attr-defined]
    return once_only  # type: ignore[return-value]


def forget(api_key: int) -> None:
    """Delete what is older than a day, and of one API key what came before its last thousand."""
    KeptAnswer.objects.filter(at__lt=timezone.now() - KEPT).delete()
    rows = KeptAnswer.objects.filter(api_key=api_key)
    over = rows.order_by("-pk").values_list("pk", flat=True)[MOST : MOST + 1]
    if last := next(iter(over), None):
        rows.filter(pk__lte=last).delete()


def _known(api_key: int, key: str, digest: str) -> Response | None:
    row = KeptAnswer.objects.filter(api_key=api_key, key=key, at__gte=timezone.now() - KEPT).first()
    if row is None:
        return None
    if row.digest != digest:
        raise used()
    return Response(json.loads(row.body), status=row.status, headers={"Idempotent-Replayed": "true"})


def _digest(request: Request) -> str:
    sent = request.data if request.META.get("CONTENT_LENGTH") not in (None, "", "0") else {}
    what = [request.method, request.path_info, sent]
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()
