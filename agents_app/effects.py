"""What retiring or merging an agent would do, in sentences."""

from django.utils.translation import gettext as _

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
    ]
