"""Executors: what may be set, how a secret is kept, and that running processes hear of a change."""

import math
import re
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from agents_app import audit, sealing
from agents_app.models import Agent, Pool, Stamp
from agents_app.outbound import guard
from orchestration_app.models import Executor
from training_app.engine.data import storable

Kind = Executor.Kind
#: What each kind needs beside its bounds.
NEEDS: dict[str, tuple[str, ...]] = {
    Kind.CHAT: ("address", "model"),
    Kind.WEBHOOK: ("address",),
    Kind.CALLABLE: ("function",),
    Kind.SCRIPTED: (),
}
LEAST_SECRET = 16
MOST_SECRET = 4_000
BOUNDS: dict[str, tuple[float, float]] = {
    "price_in": (0, 1e6), "price_out": (0, 1e6), "most_cost": (0, 1e9), "seconds": (0.1, 600), "retries": (0, 10),
    "most_tokens": (1, 1_000_000), "most_kb": (1, 65_536), "at_once": (0, 100_000), "per_minute": (0, 10_000_000),
}  # fmt: skip
_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


class ExecutorError(ValueError):
    """An executor that cannot be kept; the message says why, `field` names the input at fault."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


def save(agent: Agent, values: Mapping[str, Any], *, secret: str | None = None, actor: audit.Who) -> Executor:
    """Give the agent an executor, or change the one it has; fields that are left out stay. `secret` None keeps the one that is there,
    "" forgets it. Raises ExecutorError."""
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=agent.pool_id)
        executor = Executor.objects.filter(agent=agent).first() or Executor(agent=agent, kind=values.get("kind", ""))
        executor.agent = agent
        fresh = executor.pk is None
        if fresh:
            # Text made of text has no side effect; whether a webhook's work may be done twice, only its owner knows.
            executor.repeatable = executor.kind in (Kind.CHAT, Kind.SCRIPTED)
        before = {name: getattr(executor, name) for name in values}
        for name, value in values.items():
            setattr(executor, name, value)
        _check(executor)
        if secret is not None:
            executor.secret = sealing.seal(_checked_secret(executor, secret.strip()))
        if executor.kind == Kind.WEBHOOK and not executor.secret:
            raise ExecutorError(_("A webhook needs a secret, with which its requests are signed."), "secret")
        executor.save()
        changed = sorted(name for name in values if fresh or before[name] != values[name])
        detail = {"kind": executor.kind, "changed": changed + ([] if secret is None else ["secret"])}
        audit.record("executor.saved", actor=actor, target=str(agent), pool=agent.pool, detail=detail)
        Stamp.bump()
    return executor


def remove(executor: Executor, *, actor: audit.Who) -> None:
    """The agent is not called any more."""
    with transaction.atomic():
        executor.delete()
        agent = executor.agent
        audit.record("executor.removed", actor=actor, target=str(agent), pool=agent.pool)
        Stamp.bump()


def _check(executor: Executor) -> None:
    """Raises ExecutorError for what is wrong first."""
    if executor.kind not in Kind.values:
        raise ExecutorError(_("Choose one of: %(kinds)s.") % {"kinds": ", ".join(Kind.values)}, "kind")
    for name in NEEDS[executor.kind]:
        if not getattr(executor, name):
            raise ExecutorError(_("This kind of executor needs this."), name)
    for name, (low, high) in BOUNDS.items():
        value = getattr(executor, name)
        if value is None and name == "most_cost":
            continue
        if (
            not isinstance(value, int | float)
            or isinstance(value, bool)
            or not math.isfinite(value)
            or not low <= value <= high
        ):
            raise ExecutorError(_("A number from %(low)g to %(high)g.") % {"low": low, "high": high}, name)
    for name in ("address", "model", "instruction", "function", "tools", "script"):
        if (fault := storable.fault(getattr(executor, name))) is not None:
            raise ExecutorError(_("This cannot be stored: it %(why)s.") % {"why": fault.reason}, name)
    if executor.address:
        _check_address(executor.address)
    if executor.function and not _FUNCTION.fullmatch(executor.function):
        raise ExecutorError(_("A dotted path to a function, such as company.agents.answer."), "function")
    if not isinstance(executor.tools, list) or not all(isinstance(tool, dict) for tool in executor.tools):
        raise ExecutorError(_("A list of tools, each a JSON object as the provider takes it."), "tools")
    if not isinstance(executor.script, dict):
        raise ExecutorError(_("A JSON object."), "script")
    try:
        executor.clean_fields(exclude=("agent", "secret"))
    except ValidationError as error:
        for field, messages in error.message_dict.items():
            raise ExecutorError(str(messages[0]), field) from None


def _check_address(address: str) -> None:
    try:
        guard.check(address)
    except guard.Refused as refused:
        raise ExecutorError(str(refused), "address") from None
    except OSError:
        return  # not found today; a call will say so


def _checked_secret(executor: Executor, secret: str) -> str:
    if secret and (not secret.isascii() or not secret.isprintable() or len(secret) > MOST_SECRET):
        words = _("A secret has printable ASCII characters, at most %(most)d.") % {"most": MOST_SECRET}
        raise ExecutorError(words, "secret")
    if executor.kind == Kind.WEBHOOK and secret and len(secret) < LEAST_SECRET:
        raise ExecutorError(
            _("A webhook's secret has at least %(least)d characters.") % {"least": LEAST_SECRET}, "secret"
        )
    return secret
