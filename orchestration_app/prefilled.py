"""Executors that need not be typed in: from the card or the server that an agent was imported from, or from its backends."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from agents_app import audit, sealing
from agents_app.models import Agent, AgentSource, Pool
from agents_app.sources import tools
from agents_app.sources.described import SourceError
from orchestration_app import executors
from orchestration_app.executors import ExecutorError
from orchestration_app.models import Backend, Executor

Kind = Executor.Kind


@dataclass(frozen=True, slots=True)
class Prefilled:
    """How an agent is called: what `executors.save` takes, the sealed secret, and the address where it was found."""

    values: Mapping[str, Any]
    secret: str
    address: str


def of(agent: Agent) -> Prefilled | None:
    """What the agent's newest source says, else its first backend; None where neither does."""
    source = next((source for source in agent.sources.order_by("-pk") if source.calling), None)
    backends = agent.backends.filter(active=True).exclude(provider__address="").select_related("provider")
    return _prefilled(source, None if source else backends.first())


def waiting(pool: Pool) -> list[tuple[Agent, Prefilled]]:
    """The active agents without an executor that can be given one."""
    agents = list(pool.agents.active().filter(executor=None))
    sources = {row.agent_id: row for row in AgentSource.objects.filter(agent__in=agents).order_by("pk") if row.calling}
    backends = Backend.objects.filter(agent__in=agents, active=True).exclude(provider__address="")
    first = {row.agent_id: row for row in backends.select_related("provider").order_by("-order", "-pk")}
    prefilled = ((agent, _prefilled(sources.get(agent.pk), first.get(agent.pk))) for agent in agents)
    return [(agent, values) for agent, values in prefilled if values is not None]


def _prefilled(source: AgentSource | None, backend: Backend | None) -> Prefilled | None:
    if source is not None:
        return Prefilled(_described(source), source.secret, source.address)
    if backend is not None:
        provider = backend.provider
        values = {"kind": Kind.CHAT, "address": provider.address, "model": backend.model}
        return Prefilled(values, provider.secret, provider.address)
    return None


def _described(source: AgentSource) -> dict[str, Any]:
    calling = source.calling
    if source.kind == AgentSource.Kind.CARD:
        options = {name: calling[name] for name in ("version", "streaming") if calling.get(name)}
        return {"kind": Kind.A2A, "address": calling["address"], "options": options}
    options = {"tool": calling["tool"]} if calling.get("tool") else {}
    return {"kind": Kind.MCP, "address": calling["address"], "tools": calling["tools"], "options": options}


def set_up(pool: Pool, *, actor: audit.Who) -> tuple[list[Agent], list[str]]:
    """Give every active agent without an executor one, where something says how. Returns those agents, and why others failed."""
    agents, problems = [], []
    for agent, prefilled in waiting(pool):
        try:
            executors.save(agent, dict(prefilled.values), secret=sealing.opened(prefilled.secret) or None, actor=actor)
        except (ExecutorError, sealing.CannotOpen) as error:
            problems.append(f"{agent.name}: {error}")
        else:
            agents.append(agent)
    return agents, problems


def with_tools(values: dict[str, Any], secret: str) -> dict[str, Any]:
    """The values of an MCP executor with the tools that its server lists, where none are given. Raises ExecutorError."""
    if values["kind"] != Kind.MCP or values.get("tools") or not values.get("address"):
        return values
    try:
        _server, _instructions, listed = tools.listed(values["address"], secret)
    except SourceError as error:
        words = _("The tools could not be read: %(why)s") % {"why": error}
        raise ExecutorError(words, "address") from None
    return {**values, "tools": tools.called(listed)}
