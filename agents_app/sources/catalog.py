"""The sources of a pool's agents: looked at, compared, approved. Nothing of the pool changes before somebody approves it."""

import hashlib
import json
from typing import Any, BinaryIO, NamedTuple

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from agents_app import audit, pools, sealing
from agents_app.audit import Who
from agents_app.files import limited, rosters
from agents_app.files.formats import Unreadable
from agents_app.models import Agent, AgentSource, Pool, Stamp
from agents_app.outbound import guard
from agents_app.sources import cards, tools
from agents_app.sources.described import Described, SourceError
from routerweb import hooks

MOST_ADDRESSES = 20
LONGEST = 500

#: Told of an agent and the new examples of its card, in the transaction that takes them: they are queries that nobody has confirmed.


class Change(NamedTuple):
    """What approving would change of one field; `before` is "" for a new agent."""

    field: str
    before: str
    after: str


def look(pool: Pool, address: str, kind: str, *, secret: str | None = None, actor: Who) -> AgentSource:
    """Ask an address what it describes, and keep that beside the pool; None as `secret` keeps the one that is there. Raises
    SourceError, and keeps nothing of an address that was not known before."""
    address = address.strip()
    if len(address) > LONGEST:
        raise SourceError(_("The address is longer than %(most)d characters.") % {"most": LONGEST})
    try:
        guard.check_url(address)
    except guard.Refused as error:
        raise SourceError(str(error)) from None
    stored = AgentSource.objects.filter(pool=pool, address=address).first()
    source = stored or AgentSource(pool=pool, address=address)
    source.kind = kind
    if secret is not None:
        source.secret = sealing.seal(secret.strip())
    try:
        described = _asked(source)
    except SourceError as error:
        if stored is not None:
            _keep(source, None, str(error))
        raise
    fresh = source.pk is None
    with transaction.atomic():
        _keep(source, described, "")
        if fresh:
            audit.record("source.added", actor=actor, target=address, pool=pool, detail={"kind": kind})
    return source


def look_at_each(pool: Pool, address: str, *, secret: str | None = None, actor: Who) -> list[AgentSource]:
    """Keep every tool of an MCP server as a source of its own, so that each can be an agent. Raises SourceError."""
    address = address.strip()
    try:
        guard.check_url(address)
    except guard.Refused as error:
        raise SourceError(str(error)) from None
    _server, _instructions, listed = tools.listed(address, (secret or "").strip())
    sources = []
    with transaction.atomic():
        for tool in tools.called(listed):
            name = f"{address}#{tool['name']}"[:LONGEST]
            source = AgentSource.objects.filter(pool=pool, address=name).first()
            source = source or AgentSource(pool=pool, address=name, kind=AgentSource.Kind.TOOLS)
            if secret is not None:
                source.secret = sealing.seal(secret.strip())
            described_tool = next(
                listed_tool
                for listed_tool in listed
                if isinstance(listed_tool, dict) and listed_tool.get("name") == tool["name"]
            )
            _keep(source, tools.read_one(described_tool, address), "")
            sources.append(source)
        audit.record("source.added", actor=actor, target=address, pool=pool, detail={"tools": len(sources)})
    if not sources:
        raise SourceError(_("The server has no tools."))
    return sources


def look_in_file(pool: Pool, file: BinaryIO, *, actor: Who) -> list[AgentSource]:
    """The cards of a file, one or a list of them, kept beside the pool. Raises SourceError, and keeps none then."""
    try:
        (content,) = limited.run(rosters.json_value, file, limits=limited.PAGE)
    except Unreadable as error:
        raise SourceError(str(error)) from None
    descriptions = [cards.read(card) for card in (content if isinstance(content, list) else [content])[:1_000]]
    sources = []
    with transaction.atomic():
        for description in descriptions:
            address = f"file:{description.name}"
            source = AgentSource.objects.filter(pool=pool, address=address).first()
            source = source or AgentSource(pool=pool, address=address, kind=AgentSource.Kind.CARD)
            _keep(source, description, "")
            sources.append(source)
        audit.record("source.file", actor=actor, target=pool.slug, pool=pool, detail={"cards": len(sources)})
    return sources


def look_all() -> int:
    """Ask every address again; how many describe something else than was approved. A schedule calls it."""
    changed = 0
    for source in AgentSource.objects.filter(address__startswith="http", pool__in=Pool.objects.in_use()).select_related(
        "pool"
    ):
        try:
            described = _asked(source)
        except (SourceError, sealing.CannotOpen) as error:
            _keep(source, None, str(error))
        else:
            changed += _keep(source, described, "")
    return changed


def _asked(source: AgentSource) -> Described:
    if source.kind == AgentSource.Kind.TOOLS:
        return tools.at(source.address, sealing.opened(source.secret))
    return cards.at(source.address)


def _keep(source: AgentSource, described: Described | None, problem: str) -> bool:
    """Write down what a look brought; whether something new is offered."""
    source.checked_at, source.problem = timezone.now(), problem[:300]
    if described is not None:
        content = described.as_json()
        source.signature, source.signer = content.pop("signature"), content.pop("signer")
        source.calling = content.pop("calling")
        source.offered = None if content == source.taken else content
    source.save()
    return described is not None and source.offered is not None


def changes(source: AgentSource) -> list[Change]:
    """What approving the source's offer would change, field by field; empty where nothing is offered."""
    offered: dict[str, Any] | None = source.offered
    if offered is None:
        return []
    agent = source.agent or _namesake(source.pool, offered["name"])
    now: dict[str, Any] = {"name": "", "description": "", "keywords": []}
    if agent is not None:
        now = {"name": agent.name, "description": agent.description, "keywords": agent.keywords}
    rows = [
        Change(_("Name"), now["name"], offered["name"]),
        Change(_("Description"), now["description"], offered["description"]),
        Change(_("Keywords"), ", ".join(now["keywords"]), ", ".join(offered["keywords"])),
        Change(_("Examples, not confirmed"), "", "\n".join(_new_examples(source))),
    ]
    return [row for row in rows if row.before != row.after]


def fingerprint(source: AgentSource) -> str:
    """Names what is offered, so that what is approved is what was looked at."""
    return hashlib.sha256(json.dumps(source.offered, sort_keys=True).encode()).hexdigest()[:16]


def _namesake(pool: Pool, name: str) -> Agent | None:
    return next((agent for agent in pool.agents.all() if agent.name.casefold() == name.casefold()), None)


def _new_examples(source: AgentSource) -> list[str]:
    taken_before = set(source.taken.get("examples", ()))
    return [text for text in (source.offered or {}).get("examples", ()) if text not in taken_before]


def approve(source: AgentSource, shown: str | None = None, *, actor: Who) -> Agent:
    """Make or change the agent as the source offers. `shown` is the fingerprint of the offer that was looked at: another one since
    is not taken. Raises SourceError and PoolError."""
    with transaction.atomic():
        Pool.objects.select_for_update(no_key=True).get(pk=source.pool_id)
        source.refresh_from_db()
        offered = source.offered
        if offered is None or (shown is not None and shown != fingerprint(source)):
            raise SourceError(_("The description has changed. Review it again."))
        agent = source.agent or _namesake(source.pool, offered["name"])
        values = {name: offered[name] for name in ("name", "description", "keywords")}
        if agent is None:
            agent = pools.add_agent(source.pool, **values, actor=actor)
        else:
            agent = pools.update_agent(agent, actor=actor, **values)
        examples = _new_examples(source)
        source.agent, source.taken, source.offered = agent, offered, None
        source.examples = offered["examples"]
        source.save()
        Stamp.bump()  # routing by descriptions reads the examples
        detail = {"agent": agent.number, "signature": source.signature, "examples": len(examples)}
        audit.record("source.approved", actor=actor, target=source.address, pool=source.pool, detail=detail)
        if examples:
            hooks.examples_received(agent, examples)
    return agent


def dismiss(source: AgentSource, *, actor: Who) -> None:
    """Leave the agent as it is: the same offer is not made again."""
    with transaction.atomic():
        if source.offered is None:
            return
        if source.agent is None:
            source.delete()
        else:
            source.taken, source.offered = source.offered, None
            source.save(update_fields=("taken", "offered"))
        audit.record("source.dismissed", actor=actor, target=source.address, pool=source.pool)


def forget(source: AgentSource, *, actor: Who) -> None:
    """Ask the address no more; the agent stays."""
    with transaction.atomic():
        audit.record("source.forgotten", actor=actor, target=source.address, pool=source.pool)
        source.delete()
        Stamp.bump()
