"""Executors as agents' own descriptions say: from the card or the server that an agent was imported from."""

from typing import Any

from django.utils.translation import gettext as _

from agents_app import audit, sealing
from agents_app.models import Agent, AgentSource, Pool
from agents_app.sources import tools
from agents_app.sources.described import SourceError
from orchestration_app import executors
from orchestration_app.executors import ExecutorError
from orchestration_app.models import Executor

Kind = Executor.Kind


def source_of(agent: Agent) -> AgentSource | None:
    """The source that says how the agent is called, the newest first; None where none does."""
    return next((source for source in agent.sources.order_by("-pk") if source.calling), None)


def values_of(source: AgentSource) -> dict[str, Any]:
    """What `executors.save` takes, as the source describes the agent."""
    calling = source.calling
    if source.kind == AgentSource.Kind.CARD:
        options = {name: calling[name] for name in ("version", "streaming") if calling.get(name)}
        return {"kind": Kind.A2A, "address": calling["address"], "options": options}
    options = {"tool": calling["tool"]} if calling.get("tool") else {}
    return {"kind": Kind.MCP, "address": calling["address"], "tools": calling["tools"], "options": options}


def set_up(pool: Pool, *, actor: audit.Who) -> tuple[list[Agent], list[str]]:
    """Give every active agent without an executor one, where its description says how. Returns those agents, and why others failed."""
    agents, problems = [], []
    for agent in pool.agents.active().filter(executor=None):
        source = source_of(agent)
        if source is None:
            continue
        try:
            executors.save(agent, values_of(source), secret=sealing.opened(source.secret) or None, actor=actor)
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
