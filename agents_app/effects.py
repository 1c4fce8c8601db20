"""What retiring or merging an agent would do, in sentences."""

from django.utils.translation import gettext as _

from agents_app.models import Agent
from routerweb import hooks


def of_retiring(agent: Agent) -> list[str]:
    """One sentence for each consequence of taking the agent out."""
    own = [
        _("From now on no route names it, in any process, within two seconds."),
        _("New labels are no longer asked about it."),
        _("Its id %(id)s and its history stay; it can be brought back.") % {"id": agent.number},
    ]
    return own + [sentence for sentences in hooks.effects_of_retiring(agent) for sentence in sentences]
