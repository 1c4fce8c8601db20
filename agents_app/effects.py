"""What retiring or merging an agent would do, in sentences."""

from django.utils.translation import gettext as _

from agents_app import allowed_sets, pools
from agents_app.models import Agent
from routerweb import hooks


def of_retiring(agent: Agent) -> list[str]:
    """One sentence for each consequence of taking the agent out."""
    return of_merging(agent) + [sentence for sentences in hooks.effects_of_retiring(agent) for sentence in sentences]


def of_merging(agent: Agent) -> list[str]:
    """The same where its labels count for another one from then on."""
    return [
        _("Within two seconds, no process routes to it."),
        _("New labels are no longer asked about it."),
        _("Its id %(id)s and its history stay. You can reactivate it.") % {"id": agent.number},
        *_of_rules(agent),
    ]


def _of_rules(agent: Agent) -> list[str]:
    """Whom the pool's allowed sets bar once the agent is out: who is chosen only with it."""
    agents = list(agent.pool.agents.active().order_by("number"))
    rules = allowed_sets.rules_of(agent.pool, agents)
    others = [pools.engine_agent(other) for other in agents if other.pk != agent.pk]
    barred = rules.impossible(others).keys() - rules.impossible([pools.engine_agent(other) for other in agents]).keys()
    if not barred:
        return []
    names = ", ".join(other.name for other in others if other.id in barred)
    return [_("By the allowed sets, no route can choose %(agents)s without it.") % {"agents": names}]
