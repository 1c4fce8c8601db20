"""Whether a pool's agents can be called: what each lacks, in words, and where it is put right.

A check calls each agent once with a harmless task (`calls.checking`). A pool that was checked has to be ready: an agent that did
not answer, or has no executor, is listed, and neither episodes nor runs that learn from calls begin until it works, is switched to
unavailable, or its executor was changed. A pool that nobody has checked is refused only where nobody can be called.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents_app.models import Agent, Pool
from orchestration_app.models import LANGUAGE_MODELS, ExecutorCheck

#: What to do about each kind of failure.
FIXES = {
    "unreachable": gettext_lazy("Check the address"), "timeout": gettext_lazy("Give it more time"),
    "not_allowed": gettext_lazy("Use another address"), "refused": gettext_lazy("Check the address and the key"),
    "malformed": gettext_lazy("Check the address and the kind"), "instruction": gettext_lazy("Write the template"),
    "no_executor": gettext_lazy("Set it up"), "off": gettext_lazy("Turn it on"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Readiness:
    """One agent: `state` is ready, failed or unchecked; `fix` is what the button says that leads to where it is put right."""

    agent: Agent
    state: str
    why: str = ""
    fix: str = ""
    checked_at: datetime | None = None

    @property
    def sentence(self) -> str:
        """The agent and what it lacks."""
        return f"{self.agent.name}: {self.why}"


def of_pool(pool: Pool) -> list[Readiness]:
    """Every agent that may be called, those that are not ready first."""
    agents = pool.agents.routable().select_related("executor__readiness")
    order = {"failed": 0, "unchecked": 1, "ready": 2}
    return sorted(map(_one, agents), key=lambda row: (order[row.state], row.agent.number))


def _one(agent: Agent) -> Readiness:
    executor = getattr(agent, "executor", None)
    if executor is None:
        return Readiness(agent, "failed", _("Nobody has said how it is called."), str(FIXES["no_executor"]))
    if not executor.active:
        return Readiness(agent, "failed", _("Its executor is off."), str(FIXES["off"]))
    check = getattr(executor, "readiness", None)
    if check is None:
        return Readiness(agent, "unchecked", _("Not checked since it was changed."))
    if check.failure:
        fix = str(FIXES.get(check.failure, _("Change how it is called")))
        if check.failure == "refused" and executor.kind in LANGUAGE_MODELS:  # a 404 often means the model
            fix = _("Check the address, the key and the model")
        return Readiness(agent, "failed", check.why, fix, check.checked_at)
    return Readiness(agent, "ready", "", "", check.checked_at)


def problems(pool: Pool) -> Sequence[Readiness]:
    """What keeps a pool that was checked from being ready; nothing of one that nobody has checked."""
    if not ExecutorCheck.objects.filter(executor__agent__pool=pool).exists():
        return ()
    return [row for row in of_pool(pool) if row.state == "failed"]


def run_problems(pool: Pool, kind: str) -> Sequence[str]:
    """For the hook `run_problems`: what keeps a run from learning from calls, a sentence each."""
    from orchestration_app.models.kinds import BACKEND_CHOOSER, ORCHESTRATOR

    if kind not in (ORCHESTRATOR, BACKEND_CHOOSER):
        return ()
    return [problem.sentence for problem in problems(pool)]
