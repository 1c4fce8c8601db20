"""Executors run through backends: where an agent's call goes now, and what came of it.

    found = line(pool, agent, text)            # once a call; it counts against limits and calls at once
    if found is not None: …                    # call found.address with found.model and found.secret
    report(pool, call, found.served(agent, tokens_in=…, tokens_out=…, latency=…, success=…))

Every line must be reported, once it ended or failed: that frees its place. One that is never reported frees it after two minutes.
Episodes hold all `lines` of their pool in memory and choose between them by `choosing.assign`.
"""

import logging
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from agents_app import sealing
from agents_app.models import Pool
from orchestration_app.backends import choosing, served
from orchestration_app.backends.choosing import Assignment
from orchestration_app.backends.served import Assigned, Served
from orchestration_app.engine.backends.choosing import Preference
from orchestration_app.models import Backend
from training_app.answering import serving

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Line:
    """Where one call goes: a provider's address with its secret, the model, prices of a million tokens. `repr` hides the secret."""

    backend: int
    provider: str
    address: str
    model: str
    secret: str = field(repr=False)
    price_in: float
    price_out: float
    why: str
    choice: Assigned

    def assigned(self, assignment: Assignment) -> "Line":
        """The same, as it was assigned."""
        return replace(
            self,
            why=assignment.why,
            choice=Assigned(self.backend, assignment.propensity, assignment.by, assignment.direct),
        )

    def served(self, agent: int, **what: Any) -> Served:
        """What came of this call, for `report`: Served's fields, with how this backend was chosen, so that learners may be judged."""
        return Served(agent, self.backend, choice=self.choice, **what)


class NoBackend(Exception):
    """No backend of the agent may be taken now; the message says why."""


def line(pool: Pool, agent: int, text: str = "", preference: Preference | None = None) -> Line | None:
    """Where the agent's next call goes; None where it has no backends. One database query.

    Raises NoBackend where none may be taken now, and sealing.CannotOpen for a secret of another SECRET_KEY.
    """
    serving.served()  # what is in memory is up to date from here on
    assignments = choosing.assign(pool.pk, text, [agent], preference)
    if not assignments:
        return None
    if assignments[0].backend is None:
        raise NoBackend(assignments[0].why)
    return _line(Backend.objects.select_related("provider").get(pk=assignments[0].backend.pk)).assigned(assignments[0])


def lines(pool: int) -> dict[int, dict[int, Line]]:
    """Where calls of each agent may go: by the agent's id, then by backend. One query. A backend whose secret cannot be opened is left
    out."""
    by_agent: dict[int, dict[int, Line]] = {}
    for row in Backend.objects.in_use().filter(agent__pool_id=pool):
        try:
            by_agent.setdefault(row.agent.number, {})[row.pk] = _line(row)
        except sealing.CannotOpen as error:
            logger.error("%s is not called: %s", row, error)
    return by_agent


def _line(row: Backend) -> Line:
    return Line(
        row.pk, row.provider.name, row.provider.address, row.model, sealing.opened(row.provider.secret), row.price_in, row.price_out,
        "", Assigned(row.pk),
    )  # fmt: skip


def report(pool: Pool, call: uuid.UUID, part: Served) -> None:
    """What came of a call: `call` names it, so that a report that is made twice counts once. Raises served.UnknownBackend."""
    served.record(pool, call, [part])


__all__ = ["Line", "NoBackend", "Served", "line", "lines", "report"]
