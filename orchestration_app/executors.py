"""Executors: what may be set, how a secret is kept, and that running processes hear of a change."""

import math
import re
from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from agents_app import audit, sealing
from agents_app.checks import FieldError
from agents_app.llm import server_of
from agents_app.models import Agent, Pool, Stamp
from agents_app.outbound import guard
from orchestration_app.models import Executor, ExecutorCheck
from training_app.engine.data import storable

Kind = Executor.Kind
#: What each kind needs beside its bounds.
NEEDS: dict[str, tuple[str, ...]] = {
    Kind.CHAT: ("address", "model"),
    Kind.WEBHOOK: ("address",),
    Kind.CALLABLE: ("function",),
    Kind.SCRIPTED: (),
    Kind.A2A: ("address",),
    Kind.MCP: (),
    Kind.RESPONSES: ("address", "model"),
    Kind.HTTP: ("address",),
}
#: The options of each kind: their names, and what each holds.
OPTIONS: dict[str, dict[str, type]] = {
    Kind.A2A: {"version": str, "streaming": bool},
    Kind.MCP: {"tool": str, "arguments": str, "command": list, "secret_name": str},
    Kind.HTTP: {"method": str, "headers": dict, "body": str, "query": str, "answer": str},
}
CHOICES = {"version": ("1.0", "0.3"), "method": ("POST", "PUT", "PATCH", "GET")}
#: What calls of a kind add to its address.
PATHS: dict[str, str] = {Kind.CHAT: "/chat/completions", Kind.RESPONSES: "/responses"}
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
#: Text made of text has no side effect; whether the work of others may be done twice, only their owner knows.
REPEATABLE = frozenset({Kind.CHAT, Kind.RESPONSES, Kind.SCRIPTED})
LEAST_SECRET = 16
MOST_SECRET = 4_000
BOUNDS: dict[str, tuple[float, float]] = {
    "price_in": (0, 1e6), "price_out": (0, 1e6), "most_cost": (0, 1e9), "seconds": (0.1, 600), "retries": (0, 10),
    "approval_above": (0, 1e12),
    "most_tokens": (1, 1_000_000), "most_kb": (1, 65_536), "at_once": (0, 100_000), "per_minute": (0, 10_000_000),
}  # fmt: skip
_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")


class ExecutorError(FieldError, ValueError):
    """An executor that cannot be kept."""


def save(agent: Agent, values: Mapping[str, Any], *, secret: str | None = None, actor: audit.Who) -> Executor:
    """Give the agent an executor, or change the one it has; fields that are left out stay. `secret` None keeps the one that is there,
    "" forgets it; a key is kept for its server alone. Raises ExecutorError."""
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=agent.pool_id)
        executor = Executor.objects.filter(agent=agent).first() or Executor(agent=agent, kind=values.get("kind", ""))
        executor.agent = agent
        fresh, signed, server = executor.pk is None, executor.kind == Kind.WEBHOOK, server_of(executor.address)
        if fresh:
            executor.repeatable = executor.kind in REPEATABLE
        before = {name: getattr(executor, name) for name in values}
        for name, value in values.items():
            setattr(executor, name, value)
        executor.address = _without_path(executor)
        _check(executor)
        signs = executor.kind == Kind.WEBHOOK  # its key signs requests and is never sent
        if secret is not None:
            executor.secret = sealing.seal(_checked_secret(executor, secret.strip()))
        elif executor.secret and (signed != signs or (server != server_of(executor.address) and not signs)):
            words = _(
                "The key stays with the server that it was entered for. Enter the new server's key, or forget this one."
            )
            raise ExecutorError(words, "secret")
        if executor.kind == Kind.WEBHOOK and not executor.secret:
            raise ExecutorError(_("A webhook needs a secret, with which its requests are signed."), "secret")
        executor.save()
        ExecutorCheck.objects.filter(executor=executor).delete()  # what it did is no longer what it does
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


def _without_path(executor: Executor) -> str:
    """The address up to the path that calls add, where somebody copied it with that path."""
    path = PATHS.get(executor.kind, "")
    address = executor.address.strip().rstrip("/") if path else executor.address
    return address.removesuffix(path) if path and address.endswith(path) else executor.address


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
    for name in ("address", "model", "instruction", "function", "tools", "script", "options"):
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
    _check_options(executor)
    try:
        executor.clean_fields(exclude=("agent", "secret"))
    except ValidationError as error:
        for field, messages in error.message_dict.items():
            raise ExecutorError(str(messages[0]), field) from None


def _check_options(executor: Executor) -> None:
    allowed = OPTIONS.get(executor.kind, {})
    if not isinstance(executor.options, dict):
        raise ExecutorError(_("A JSON object."), "options")
    for name, value in executor.options.items():
        if name not in allowed:
            raise ExecutorError(_("There is no such option: %(name)s.") % {"name": name}, "options")
        if not isinstance(value, allowed[name]):
            raise ExecutorError(_("This option's value has the wrong form: %(name)s.") % {"name": name}, name)
        if value and name in CHOICES and value not in CHOICES[name]:
            raise ExecutorError(_("Choose one of: %(kinds)s.") % {"kinds": ", ".join(CHOICES[name])}, name)
    command = executor.options.get("command") or []
    if executor.kind == Kind.MCP and bool(executor.address) == bool(command):
        raise ExecutorError(_("Give the server's address, or for admins the command that starts it."), "address")
    if command and not (all(isinstance(part, str) for part in command) and runs(command)):
        words = _("The setting MCP_COMMANDS of this site does not name this program.")
        raise ExecutorError(words, "command")
    name = executor.options.get("secret_name", "")
    if name and not _VARIABLE.fullmatch(name):
        raise ExecutorError(_("The name of an environment variable: letters, digits and _."), "secret_name")
    for header, value in (executor.options.get("headers") or {}).items():
        fits = isinstance(value, str) and value.isascii() and value.isprintable()
        if not fits or not _HEADER.fullmatch(header):
            raise ExecutorError(_("%(name)s is not a valid HTTP header.") % {"name": header[:60]}, "headers")


def runs(command: list[str]) -> bool:
    """Whether MCP_COMMANDS names the program; an entry that ends in `*` names all that begin so."""
    entries = settings.MCP_COMMANDS
    return any(command[0] == entry or (entry.endswith("*") and command[0].startswith(entry[:-1])) for entry in entries)


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
