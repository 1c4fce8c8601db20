"""What this package says about retiring an agent: how many gold labels require it."""

from collections.abc import Iterator

from django.utils.translation import ngettext

from agents_app.models import Agent
from datasets_app.models import GoldAgent


def of_retiring(agent: Agent) -> Iterator[str]:
    """One sentence where gold requires the agent."""
    count = GoldAgent.objects.filter(agent=agent).count()
    if count:
        yield ngettext(
            "%(count)d gold label requires it. It stays; snapshots from now on leave the agent out.",
            "%(count)d gold labels require it. They stay; snapshots from now on leave the agent out.",
            count,
        ) % {"count": count}
