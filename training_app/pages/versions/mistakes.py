"""A model's mistakes as a page shows them: grouped by the pair of agents that it confuses, most frequent first, each correctable."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Page, Paginator
from django.utils.translation import gettext as _

from agents_app.models import Agent
from datasets_app.pages.correction_form import MOST_DRAWN, CorrectionForm
from training_app.engine.data import examples
from training_app.models import RouterModel
from training_app.pages.versions import scorecard_rows
from training_app.versions import scorecards

#: Mistakes on one page, and pairs that can be chosen above the list.
ROWS, PAIRS = 25, 6
#: Of an agent that was missed, and of one that was chosen without need; None where there is none.
Pair = tuple[int | None, int | None]


@dataclass(frozen=True, slots=True)
class Choice:
    """A pair of confused agents, as the address names it, and how many of the listed mistakes are of it."""

    key: str
    words: str
    count: int


@dataclass(frozen=True, slots=True)
class Mistake:
    """One wrong answer: `row` as `scorecard_rows.error_row` has it, its `place` in the scorecard, the pair that it is listed under,
    and the label as chips that are a form; `form` is None for whoever does not label, and `drawn` False where it is loaded when
    opened."""

    place: int
    row: dict[str, Any]
    pair: Choice
    form: CorrectionForm | None = None
    drawn: bool = True


@dataclass(frozen=True, slots=True)
class Mistakes:
    """One page of them, and the pairs that can be chosen; `pair` is the chosen one's key, "" for all."""

    page: Page[Any]
    rows: list[Mistake]
    pairs: list[Choice]
    pair: str


def of(model: RouterModel, params: Mapping[str, str], *, may_label: bool) -> Mistakes:
    """The mistakes that the model's scorecard lists, worst first within each pair: `?errors=` a page, `?pair=` one pair alone."""
    errors = model.card.content.get("errors", [])
    roster = scorecards.agents(model)
    counts = Counter(pair_of(error) for error in errors)
    choices = {pair: Choice(_key(pair), _words(pair, roster), count) for pair, count in counts.items()}
    order = sorted(counts, key=lambda pair: (-counts[pair], _key(pair)))
    chosen = next((pair for pair in order if _key(pair) == params.get("pair")), None)
    rank = {pair: place for place, pair in enumerate(order)}
    listed = sorted(
        ((place, error) for place, error in enumerate(errors) if chosen is None or pair_of(error) == chosen),
        key=lambda row: rank[pair_of(row[1])],
    )
    page = Paginator(listed, ROWS).get_page(params.get("errors"))
    active = list(model.pool.agents.active().order_by("number")) if may_label else []
    rows = [
        Mistake(
            place,
            scorecard_rows.error_row(error, roster),
            choices[pair_of(error)],
            _form(model, error, active) if may_label else None,
            len(active) <= MOST_DRAWN,
        )
        for place, error in page
    ]
    return Mistakes(page, rows, [choices[pair] for pair in order[:PAIRS]], _key(chosen) if chosen else "")


def pair_of(error: Mapping[str, Any]) -> Pair:
    """The agent that was missed and the one that was chosen instead; of several, those with the lowest ids."""
    required, selected = set(error["required"]), set(error["selected"])
    return min(required - selected, default=None), min(selected - required, default=None)


def _form(model: RouterModel, error: Mapping[str, Any], active: list[Agent]) -> CorrectionForm | None:
    if not error["text"] or error.get("messages"):
        return None
    numbers = {agent.number for agent in active}
    return CorrectionForm(
        model.pool,
        error["text"],
        active,
        frozenset(error["required"]) & numbers,
        "run",
        right=frozenset(error["selected"]) & numbers,
    )


def _key(pair: Pair) -> str:
    return "-".join("" if number is None else str(number) for number in pair)


def _words(pair: Pair, roster: Mapping[int, examples.Agent]) -> str:
    missed, chosen = (None if number is None else _name(number, roster) for number in pair)
    if chosen is None:
        return _("%(missed)s missed") % {"missed": missed}
    if missed is None:
        return _("%(taken)s chosen without need") % {"taken": chosen}
    return _("%(taken)s instead of %(missed)s") % {"taken": chosen, "missed": missed}


def _name(number: int, roster: Mapping[int, examples.Agent]) -> str:
    return roster[number].name if number in roster else f"agent {number}"
