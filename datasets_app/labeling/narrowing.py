"""What a labeler wants to be asked about: queries for which an agent is suggested, or of one kind.

Looked at are the LOOKED_AT items next in line, so that the cost does not grow with the pool. Items of the evaluation sample are never
among them, for nobody may choose what is measured on; nor are blind ones where the condition would hint at a suggestion or an answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import BooleanField, Exists, F, Func, IntegerField, OuterRef, Q, QuerySet, Value
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from agents_app.models import Agent, Pool
from datasets_app.models import Label, QueueItem, QueueSettings, Suggestion, TracedTurn
from datasets_app.models.labeling import LINE, LOTS

LOOKED_AT = 2_000  # items, in the order of the queue


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of item. `hints`: that an item is of it says something of a suggestion or of an answer."""

    name: Promise
    condition: Q | Exists
    hints: bool = True


def _has(rows: "QuerySet[Any]") -> Exists:
    return Exists(rows.filter(query=OuterRef("query")))


_LLM = Label.objects.current().filter(source=Label.Source.LLM)
KINDS: Mapping[str, Kind] = {
    "suggested": Kind(_("with a suggestion"), Q(_has(Suggestion.objects.all())) | Q(_has(_LLM))),
    "bare": Kind(_("without a suggestion"), ~Q(_has(Suggestion.objects.all())) & ~Q(_has(_LLM))),
    "disputed": Kind(_("people disagree"), Q(disagreement__gt=0)),
    "against": Kind(_("LLM and people disagree"), Q(llm_disagreement__gt=0)),
    "returned": Kind(_("sent back with a reason"), ~Q(note="")),
    "traced": Kind(_("from traces"), _has(TracedTurn.objects.all()), hints=False),
    "conversation": Kind(_("turns of a conversation"), Q(query__turn__isnull=False), hints=False),
    "single": Kind(_("single texts"), Q(query__turn__isnull=True), hints=False),
}


class _Names(Func):
    """Whether a column of agent ids in JSON has a number."""

    output_field = BooleanField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return super().as_sql(
            compiler,
            connection,
            template="EXISTS (SELECT 1 FROM json_each(%(expressions)s))",
            arg_joiner=") WHERE value = (",
            **context,
        )

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return super().as_sql(
            compiler, connection, template="(%(expressions)s)::int))", arg_joiner=" @> to_jsonb((", **context
        )


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What a person wants to be asked about; both None: everything. `kind` is a code of KINDS."""

    agent: Agent | None = None
    kind: str = ""

    def __bool__(self) -> bool:
        return self.agent is not None or bool(self.kind)

    @property
    def parameters(self) -> dict[str, str]:
        """As an address has it."""
        return ({"agent": str(self.agent.number)} if self.agent else {}) | ({"kind": self.kind} if self.kind else {})

    def within(self, items: "QuerySet[QueueItem]", settings: QueueSettings) -> "QuerySet[QueueItem]":
        """Those of the LOOKED_AT next of some items that match."""
        if not self:
            return items
        near = items.order_by(*LINE).values("pk")[:LOOKED_AT]
        matches = items.filter(pk__in=near, evaluation_lot__gte=round(settings.evaluation_share * LOTS))
        if self.agent is not None or KINDS[self.kind].hints:
            matches = matches.filter(blind_lot__gte=round(settings.blind_share * LOTS))
        if self.kind:
            matches = matches.filter(KINDS[self.kind].condition)
        if self.agent is not None:
            names = _Names(F("required"), Value(self.agent.number, output_field=IntegerField()))
            matches = matches.filter(Q(_has(Suggestion.objects.filter(names))) | Q(_has(_LLM.filter(names))))
        return matches


def of(pool: Pool, agent: int | None, kind: str) -> Narrowing:
    """What an address asks for; what the pool does not have is left out."""
    chosen_agent = pool.agents.active().filter(number=agent).first() if agent is not None else None
    return Narrowing(chosen_agent, kind if kind in KINDS else "")
