"""Pools and their agents: what may change, and how it is told to running processes and to the audit trail.

An agent's id never changes its meaning: agents are retired or merged, never deleted, and a file whose id names another agent
than the pool's is refused whole.
"""

from collections.abc import Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.text import slugify
from django.utils.translation import gettext as _

from agents_app import audit, checks
from agents_app.audit import Who
from agents_app.checks import PoolError
from agents_app.models import Agent, AgentSource, HealthCheck, Pool, Stamp
from routerweb import hooks
from training_app.engine.data import examples as data

#: As many as the scorer that reads descriptions was taught with.
CARD_EXAMPLES = 15


@dataclass(frozen=True, slots=True)
class Loaded:
    """What `load_agents` did: how many agents it made, changed, and left as they were."""

    created: int = 0
    updated: int = 0
    unchanged: int = 0


# ---------------------------------------------------------------------------------------------------- reading


def engine_agent(agent: Agent) -> data.Agent:
    """The agent as the engine knows it."""
    return data.Agent(
        id=agent.number,
        name=agent.name,
        description=agent.description,
        keywords=tuple(agent.keywords),
        code=agent.code,
        cost=agent.cost,
        key=agent.key,
    )


def card_examples(agent: Agent) -> tuple[str, ...]:
    """Queries that the agent's approved cards say it is for, CARD_EXAMPLES at most; its `sources` may be prefetched."""
    return tuple(all_examples(agent)[:CARD_EXAMPLES])


def all_examples(agent: Agent) -> list[str]:
    """The same without a limit."""
    return list(dict.fromkeys(text for source in agent.sources.all() for text in source.examples))


def roster(pool: Pool, retired: bool = False) -> tuple[data.Agent, ...]:
    """The pool's active agents by id; with `retired`, also those that have left. One database query."""
    agents = pool.agents.order_by("number")
    return tuple(engine_agent(agent) for agent in (agents if retired else agents.filter(state=Agent.State.ACTIVE)))


# ---------------------------------------------------------------------------------------------------- writing


@contextmanager
def _changing(pool: Pool) -> Any:
    """A transaction that holds the pool's row, so that two people who add or rename agents at once cannot collide."""
    with transaction.atomic():
        # Not FOR UPDATE: whoever writes a row that points at the pool holds it by its key, and would deadlock with a merge.
        Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
        yield


def _tell(action: str, pool: Pool, target: object, actor: Who, detail: dict[str, Any] | None = None) -> None:
    """Put a change into the audit trail and raise the stamp that running routers watch; in the change's transaction."""
    audit.record(action, actor=actor, target=str(target), pool=pool, detail=detail)
    Stamp.bump()


def create_pool(name: str, slug: str = "", description: str = "", *, actor: Who = None) -> Pool:
    """A new, empty pool. The slug is made from the name when none is given. Raises PoolError when the slug is taken or not one."""
    name = " ".join(name.split())
    slug = slug.strip() or checks.free_slug(slugify(name)[:40] or "pool")
    pool = Pool(name=name, slug=slug, description=description.strip())
    if Pool.objects.filter(slug=slug).exists():
        raise PoolError(_("There is already a pool with the slug “%(slug)s”. Choose another.") % {"slug": slug}, "slug")
    checks.checked(pool)
    with transaction.atomic():
        pool.save()
        _tell("pool.created", pool, pool.slug, actor)
    return pool


def add_agent(
    pool: Pool,
    name: str,
    description: str = "",
    keywords: Sequence[str] = (),
    code: str = "",
    cost: float = 0.0,
    actor: Who = None,
) -> Agent:
    """A new agent with the pool's next free id and, where none is given, a free two-letter code made from its name.

    Labels that were made before it count as not asked about it. Raises PoolError for a blank or taken name, a bad or taken code,
    or a negative cost.
    """
    with _changing(pool):
        present = list(pool.agents.all())
        name, number = checks.clean_name(name, present), pool.take_agent_number()
        agent = Agent(
            pool=pool,
            number=number,
            key=checks.free_key(name, number, (other.key for other in present)),
            code=code.strip().upper() or checks.free_code(name, (other.code for other in present)),
            name=name,
            description=description.strip(),
            keywords=checks.clean_keywords(keywords),
            cost=cost,
        )
        checks.check_code(agent, present)
        checks.check_cost(cost)
        checks.checked(agent)
        agent.save()
        _tell("agent.added", pool, agent, actor, {"id": agent.number})
        hooks.agent_added(agent)
    return agent


def update_agent(agent: Agent, *, actor: Who, **changes: Any) -> Agent:
    """Change name, description, keywords, code, cost or cold routing of an agent; its id stays. Returns it; raises PoolError.

    Nothing is written where nothing changes.
    """
    unknown = set(changes) - {"name", "description", "keywords", "code", "cost", "cold"}
    if unknown:
        raise TypeError(f"update_agent: cannot change {', '.join(sorted(unknown))}")
    with _changing(agent.pool):
        agent.refresh_from_db()
        others = list(agent.pool.agents.exclude(pk=agent.pk))
        if "name" in changes:
            changes["name"] = checks.clean_name(changes["name"], others)
        if "description" in changes:
            changes["description"] = changes["description"].strip()
        if "keywords" in changes:
            changes["keywords"] = checks.clean_keywords(changes["keywords"])
        if "code" in changes:
            changes["code"] = changes["code"].strip().upper() or agent.code
        before = {field: getattr(agent, field) for field, value in changes.items() if getattr(agent, field) != value}
        if not before:
            return agent
        for field in before:
            setattr(agent, field, changes[field])
        checks.check_code(agent, others)
        checks.check_cost(agent.cost)
        checks.checked(agent)
        agent.save(update_fields=list(before))
        action = "agent.renamed" if set(before) == {"name"} else "agent.changed"
        detail = {field: [old, changes[field]] for field, old in before.items()}
        _tell(action, agent.pool, agent, actor, detail)
    return agent


def rename(agent: Agent, name: str, *, actor: Who) -> Agent:
    """Give an agent another name; its id, labels and history stay. Raises PoolError when the name is blank or taken."""
    return update_agent(agent, actor=actor, name=name)


def set_available(agent: Agent, available: bool, *, actor: Who, why: str = "", by_check: bool = False) -> Agent:
    """Turn routing to an agent off or on, in every process within two seconds; labels and training are not touched.

    `why` is shown beside a paused agent. What a health check (`by_check`) paused it brings back; what a person paused it leaves alone.
    """
    with _changing(agent.pool):
        changes = {
            "available": available,
            "unavailable_since": None if available else timezone.now(),
            "unavailable_why": "" if available else why.strip()[:200],
            "paused_by_check": by_check and not available,
        }
        if Agent.objects.filter(pk=agent.pk, available=not available).update(**changes):
            action = "agent.available" if available else "agent.unavailable"
            _tell(action, agent.pool, agent, actor, {"why": changes["unavailable_why"]} if why else None)
            if available:
                HealthCheck.objects.filter(agent=agent).update(failures=0)
    agent.refresh_from_db()
    return agent


def retire(agent: Agent, *, actor: Who) -> Agent:
    """Take an agent out of new labels and routes; what is known about it stays. Retiring a retired agent changes nothing."""
    with _changing(agent.pool):
        now = timezone.now()
        active = Agent.objects.filter(pk=agent.pk, state=Agent.State.ACTIVE)
        if active.update(state=Agent.State.RETIRED, retired_at=now):
            _tell("agent.retired", agent.pool, agent, actor)
    agent.refresh_from_db()
    return agent


def restore(agent: Agent, *, actor: Who) -> Agent:
    """Bring a retired agent back, under its old id; a merged one comes apart again."""
    with _changing(agent.pool):
        retired = Agent.objects.filter(pk=agent.pk, state=Agent.State.RETIRED)
        if retired.update(state=Agent.State.ACTIVE, retired_at=None, merged_into=None, merged_at=None):
            _tell("agent.restored", agent.pool, agent, actor)
            hooks.agents_merged(agent.pool)
    agent.refresh_from_db()
    return agent


def merge(agent: Agent, into: Agent, actor: Who) -> Agent:
    """Retire `agent` and let its labels count as `into`'s; labels themselves are not rewritten.

    Agents that were merged into `agent` before follow it as long as it stays merged: each keeps the agent that it was merged into,
    so that any step of a chain can be taken back alone. Raises PoolError across pools, into itself, into a retired agent, or when
    it was merged before.
    """
    if agent.pool_id != into.pool_id:
        raise PoolError(_("Both agents must belong to one pool."), "into")
    if agent.pk == into.pk:
        raise PoolError(_("An agent cannot be merged into itself."), "into")
    with _changing(agent.pool):
        agent.refresh_from_db()
        into.refresh_from_db()
        if into.state != Agent.State.ACTIVE:
            raise PoolError(_("“%(name)s” is retired. Merge into an active agent.") % {"name": into.name}, "into")
        if agent.merged_into_id is not None:
            raise PoolError(_("“%(name)s” has been merged already.") % {"name": agent.name}, "into")
        agent.state, agent.merged_into, agent.merged_at = Agent.State.RETIRED, into, timezone.now()
        agent.retired_at = agent.retired_at or agent.merged_at
        agent.save(update_fields=("state", "merged_into", "merged_at", "retired_at"))
        detail = {"id": agent.number, "into": into.number}
        _tell("agent.merged", agent.pool, f"{agent} → {into}", actor, detail)
        hooks.agents_merged(agent.pool)
    return agent


def update_pool(pool: Pool, *, name: str, description: str, actor: Who, currency: str = "") -> Pool:
    """Change a pool's name, description and currency ("" leaves it); its slug stays. Raises PoolError for a blank name."""
    name, description = " ".join(name.split()), description.strip()
    if not name:
        raise PoolError(_("The pool has no name."), "name")
    with transaction.atomic():
        before = Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
        currency = currency.strip().upper() or before.currency
        if (before.name, before.description, before.currency) != (name, description, currency):
            pool.name, pool.description, pool.currency = name, description, currency
            checks.checked(pool)
            pool.save(update_fields=("name", "description", "currency"))
            detail = {"name": [before.name, name], "currency": [before.currency, currency]}
            _tell("pool.changed", pool, pool.slug, actor, detail)
    return pool


def set_guidelines(pool: Pool, markdown: str, *, actor: Who) -> Pool:
    """Replace the pool's labeling guidelines; the old text stays in the audit trail."""
    with transaction.atomic():
        before = Pool.objects.select_for_update(no_key=True).get(pk=pool.pk).guidelines
        pool.guidelines = markdown.replace("\r\n", "\n").strip()
        if pool.guidelines != before:
            pool.save(update_fields=("guidelines",))
            audit.record("pool.guidelines", actor=actor, target=pool.slug, pool=pool, detail={"before": before})
    return pool


# ---------------------------------------------------------------------------------------------------- loading a file


def load_agents(pool: Pool, agents: Sequence[data.Agent], actor: Who = None) -> Loaded:
    """Create or update the pool's agents by id, all or none. Agents of the pool that the file does not name stay as they are.

    Raises PoolError, and changes nothing, where an id stands for another agent than in the pool: its labels would silently
    change their meaning.
    """
    created = updated = unchanged = 0
    with transaction.atomic():
        with _changing(pool):
            present = {agent.number: agent for agent in pool.agents.all()}
            for agent in agents:
                stored = present.get(agent.id)
                if stored is not None and not checks.same_agent(stored.name, agent.name):
                    raise PoolError(
                        _(
                            "Agent id %(id)s is “%(old)s” in this pool and “%(new)s” in the file. An id never changes its "
                            "meaning: give the new agent an id of its own, or rename the old one first."
                        )
                        % {"id": agent.id, "old": stored.name, "new": agent.name},
                        "id",
                    )
                if stored is not None and agent.key not in ("", stored.key):
                    raise PoolError(
                        _(
                            "Agent id %(id)s has the key %(old)s in this pool and %(new)s in the file. A key never changes."
                        )
                        % {"id": agent.id, "old": stored.key, "new": agent.key},
                        "key",
                    )
            for agent in sorted(agents, key=lambda agent: agent.id):
                if agent.id in present:
                    continue
                row = _new_row(pool, agent, present.values())
                row.save()
                present[agent.id] = row
                created += 1
                hooks.agent_added(row)
            top = max((number for number in present), default=-1) + 1
            Pool.objects.filter(pk=pool.pk, next_agent_number__lt=top).update(next_agent_number=top)
            pool.refresh_from_db(fields=("next_agent_number",))
            if created:
                _tell("agents.loaded", pool, pool.slug, actor, {"created": created})
        before = {
            number: (row.name, row.description, row.keywords, row.code, row.cost) for number, row in present.items()
        }
        for agent in agents:
            row = present[agent.id]
            codes = {other.code for other in present.values() if other.pk != row.pk}
            changes: dict[str, Any] = {"name": agent.name, "description": agent.description, "keywords": agent.keywords}
            changes["cost"] = agent.cost
            if code := checks.usable_code(agent.code, codes):
                changes["code"] = code
            update_agent(row, actor=actor, **changes)
            after = (row.name, row.description, row.keywords, row.code, row.cost)
            changed = after != before[agent.id]
            if agent.examples:
                changed |= _keep_examples(row, agent.examples)
            updated += changed
            unchanged += not changed
    return Loaded(created=created, updated=updated, unchanged=unchanged - created)


def _keep_examples(agent: Agent, texts: Sequence[str]) -> bool:
    """Keep what a list names as an agent's examples, as an approved card's: routing by descriptions reads them, and those that are new
    go to the labeling queue, unconfirmed. Whether it changed anything."""
    texts = checks.clean_examples(texts)
    kept = {"pool": agent.pool, "address": f"file:{agent.name}"}
    source = AgentSource.objects.filter(**kept).first() or AgentSource(**kept, kind=AgentSource.Kind.CARD)
    if source.agent_id == agent.pk and source.examples == texts:
        return False
    fresh = [text for text in texts if text not in all_examples(agent)]
    described = {"name": agent.name, "description": agent.description, "keywords": list(agent.keywords)}
    source.agent, source.examples, source.taken = agent, texts, {**described, "examples": texts}
    source.checked_at = timezone.now()
    source.save()
    Stamp.bump()
    if fresh:
        hooks.examples_received(agent, fresh)
    return True


def _new_row(pool: Pool, agent: data.Agent, present: Iterable[Agent]) -> Agent:
    present = list(present)
    codes = {other.code for other in present}
    code = checks.usable_code(agent.code, codes)
    row = Agent(
        pool=pool,
        number=agent.id,
        key=checks.key_of(agent, present),
        code=code or checks.free_code(agent.name, codes),
        name=checks.clean_name(agent.name, present),
        description=agent.description.strip(),
        keywords=checks.clean_keywords(agent.keywords),
        cost=agent.cost,
    )
    checks.check_cost(row.cost)
    checks.checked(row)
    return row


def set_four_eyes(pool: Pool, on: bool, *, actor: Who) -> Pool:
    """Let promotions in the pool need a second person, or no longer. Who may turn it off is the page's to say."""
    with transaction.atomic():
        if Pool.objects.filter(pk=pool.pk, four_eyes=not on).update(four_eyes=on):
            audit.record("pool.four_eyes", actor=actor, target=pool.slug, pool=pool, detail={"on": on})
    pool.four_eyes = on
    return pool
