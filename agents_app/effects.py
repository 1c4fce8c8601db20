"""What retiring or merging an agent would do, in sentences. Later rooms add what only they know, for example how many labels."""

from collections.abc import Callable, Iterable

from django.utils.translation import gettext as _

from agents_app.models import Agent

Effect = Callable[[Agent], Iterable[str]]
_effects: list[Effect] = []


def register(effect: Effect) -> Effect:
    """Let the preview also say what `effect` says; call it from an app's `ready`."""
    if effect not in _effects:
        _effects.append(effect)
    return effect


def of_retiring(agent: Agent) -> list[str]:
    """One sentence for each consequence of taking the agent out."""
    said = [
        _("From now on no route names it, in any process, within two seconds."),
        _("New labels are no longer asked about it."),
        _("Its id %(id)s and its history stay; it can be brought back.") % {"id": agent.number},
    ]
    return said + [sentence for effect in _effects for sentence in effect(agent)]
