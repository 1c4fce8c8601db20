"""Which sets of a pool's agents a route may answer with: what people define, kept with the pool and told to running processes.

What each kind of rule means, and how it binds every way of choosing, stands in `training_app/engine/routing/allowed.py`.
"""

from collections.abc import Sequence

from django.db import transaction
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.audit import Who
from agents_app.checks import PoolError
from agents_app.models import Agent, Pool, Stamp
from training_app.engine.routing.allowed import BadRules, Rules

LONGEST_NAME = 60  # of a group


def rules_of(pool: Pool, agents: Sequence[Agent]) -> Rules:
    """The pool's rules, with what its agents cost now; they are false where every set is allowed and nothing was said of costs."""
    rules = Rules.from_config(pool.allowed_sets or {})
    return rules.priced({agent.number: agent.cost for agent in agents})


def set_rules(pool: Pool, rules: Rules, *, actor: Who) -> None:
    """Replace the pool's rules. Raises PoolError for a rule that names no agent of the pool, or the same agent twice."""
    agents = {agent.number: agent for agent in pool.agents.all()}
    named = {
        "requires": rules.requires,
        "excludes": rules.excludes,
        "groups": [members for _name, members in rules.groups],
    }
    for field, sets in named.items():
        for agent in sorted(frozenset().union(*sets) - agents.keys()):
            raise PoolError(_("The pool has no agent %(number)s.") % {"number": agent}, field)
    if any(a == b for a, b in (*rules.requires, *rules.excludes)):
        raise PoolError(_("An agent neither requires nor excludes itself."))
    for name, members in rules.groups:
        if not 0 < len(name.strip()) <= LONGEST_NAME:
            raise PoolError(_("A group needs a name of at most %(most)d characters.") % {"most": LONGEST_NAME})
        if len(set(members)) < 2:
            raise PoolError(_("The group “%(name)s” needs two agents or more.") % {"name": name})
    try:
        config = Rules.from_config(rules.config()).config()
    except BadRules as error:
        raise PoolError(str(error)) from None
    del config["costs"]
    with transaction.atomic():
        changed = Pool.objects.select_for_update(no_key=True).get(pk=pool.pk)
        if changed.allowed_sets != config:
            changed.allowed_sets = config
            changed.save(update_fields=["allowed_sets"])
            audit.record("pool.allowed_sets", actor=actor, target=pool.slug, pool=pool, detail=config)
            Stamp.bump()
    pool.allowed_sets = config
