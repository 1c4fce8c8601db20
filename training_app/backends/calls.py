"""Executors run through backends: where an agent's call goes now, and what came of it.

    found = line(pool, agent, text)            # once a call; it counts against limits and calls at once
    if found is not None: …                    # call found.address with found.model and found.secret
    report(pool, call, found.served(agent, tokens_in=…, tokens_out=…, latency=…, success=…))

Every line must be reported, once it ended or failed: that frees its place. One that is never reported frees it after two minutes.
"""

import uuid
from dataclasses import dataclass, field
from typing import Any

from agents_app import sealing
from agents_app.models import Backend, Pool
from training_app.answering import serving
from training_app.backends import choosing, served
from training_app.backends.served import Choice, Served
from training_app.engine.backends.choosing import Preference


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
    choice: Choice

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
    given = choosing.assign(pool.pk, text, [agent], preference)
    if not given:
        return None
    if given[0].backend is None:
        raise NoBackend(given[0].why)
    row = Backend.objects.select_related("provider").get(pk=given[0].backend.pk)
    return Line(
        row.pk, row.provider.name, row.provider.address, row.model, sealing.opened(row.provider.secret), row.price_in,
        row.price_out, given[0].why, Choice(row.pk, given[0].propensity, given[0].by, given[0].direct),
    )  # fmt: skip


def report(pool: Pool, call: uuid.UUID, part: Served) -> None:
    """What came of a call: `call` names it, so that a report that is made twice counts once. Raises served.UnknownBackend."""
    served.record(pool, call, [part])


__all__ = ["Line", "NoBackend", "Served", "line", "report"]
