"""An answer as chips that are a form: a click on an agent says whether the query needs it, and is a label at once."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from agents_app.models import Agent, Pool
from datasets_app.models import Label, Query

#: Agents up to which a list of many queries draws every chip of each; in larger pools each form is loaded when it is opened.
MOST_DRAWN = 16


@dataclass(frozen=True, slots=True)
class CorrectionForm:
    """The chips of one text. `chosen` are the ids that are pressed, `before` those that were before the last click; `seen_at` says
    where the answer stands. `label` is what the last click saved, `right` an answer that one click makes the label."""

    pool: Pool
    text: str
    agents: Sequence[Agent]
    chosen: frozenset[int]
    seen_at: str
    before: frozenset[int] = frozenset()
    label: Label | None = None
    problem: str = ""
    right: frozenset[int] | None = None

    @classmethod
    def of(
        cls,
        pool: Pool,
        text: str,
        chosen: Collection[int],
        seen_at: str,
        agents: Sequence[Agent] | None = None,
    ) -> "CorrectionForm":
        """The form of an answer that nobody has corrected yet; `agents` where the caller has the pool's active ones already."""
        active = list(pool.agents.active().order_by("number")) if agents is None else agents
        return cls(pool, text, active, frozenset(chosen) & {agent.number for agent in active}, seen_at)

    @property
    def rows(self) -> list[tuple[Agent, bool]]:
        """Each agent, and whether it is pressed; pressed ones first where there are many, so that the answer is read first."""
        rows = [(agent, agent.number in self.chosen) for agent in self.agents]
        return sorted(rows, key=lambda row: not row[1]) if len(rows) > MOST_DRAWN else rows

    @property
    def listed(self) -> str:
        """The pressed ids as the form sends them."""
        return ",".join(map(str, sorted(self.chosen)))

    @property
    def listed_before(self) -> str:
        """Those of before the last click."""
        return ",".join(map(str, sorted(self.before)))

    @property
    def listed_right(self) -> str:
        """The answer that one click makes the label."""
        return ",".join(map(str, sorted(self.right or ())))

    @property
    def saved_message(self) -> str:
        """What the last click did, in words; "" where nothing was saved."""
        if self.label is None:
            return ""
        state = Query.objects.values_list("state", flat=True).get(pk=self.label.query_id)
        if state == Query.State.GOLD:
            return _("Saved: gold now.")
        return _("Saved as your label. Others labeled it differently: a reviewer decides.")
