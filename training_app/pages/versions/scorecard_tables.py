"""The parts of a scorecard's page that a reader turns: beside which router, which page of errors; confusion and operating points."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from training_app.engine.data.examples import Agent
from training_app.models import Comparison, RouterModel
from training_app.pages.versions import mistakes, scorecard_rows
from training_app.versions import comparisons, gate, kinds, registry, scorecards

#: Agents that the confusion table shows at most, those with the most errors first.
CONFUSED = 12
HEATS = 4
#: How the chosen operating point is drawn: a ring, so that a baseline beneath it stays in sight.
RING = {"pointRadius": 8, "pointStyle": "circle", "pointBackgroundColor": "transparent"}
ACTIVE = "active"


def context(model: RouterModel, params: Mapping[str, str], *, may_label: bool = False) -> dict[str, Any]:
    """What the scorecard's template draws beside `scorecard_rows.context`, as the address asks: `?against=` a baseline or "active",
    `?errors=` a page of mistakes, `?pair=` those of one pair. Empty for a model without a scorecard."""
    card, kind = model.card.content, kinds.of(model.kind)
    if not card.get("metrics"):
        return {}
    roster = scorecards.agents(model)
    compared = with_active(model)
    others = rivals(card, compared, kind)
    against = chosen(others, card, params.get("against", ""))
    lead = beside(card, compared, against)
    return {
        "leaderboard": leaderboard(model, compared),
        "rivals": others,
        "against": against,
        "by_size": [
            (size, row, lead.get("by_size", {}).get(size, {}).get("difference"))
            for size, row in card.get("by_size", {}).items()
        ],
        "by_agent": by_agent(card, roster, lead),
        "confusion": confusion(card, roster),
        "operating": operating(card, kind),
        "mistakes": mistakes.of(model, params, may_label=may_label),
        "tab": tab_of(params),
    }


def tab_of(params: Mapping[str, str]) -> str:
    """The tab that an address opens on: the one that it turns a part of, else the verdict."""
    if "errors" in params or "pair" in params:
        return "mistakes"
    return "engineers" if "against" in params else "verdict"


# ---------------------------------------------------------------------------------------------------- beside another router


def with_active(model: RouterModel) -> Comparison | None:
    """The comparison with the model that is active now; None for the active model itself, and where it is too long for a page."""
    active = registry.active(model.pool, model.kind)
    if active is None or active.pk == model.pk:
        return None
    stored = (
        Comparison.objects.filter(model=model, against=active).select_related("against__pool").order_by("-pk").first()
    )
    try:
        return stored or comparisons.between(model, active, max_queries=gate.PAGE_QUERIES)
    except registry.RegistryError:
        return None


def rivals(card: Mapping[str, Any], compared: Comparison | None, kind: kinds.Kind) -> dict[str, str]:
    """Whom the router can be seen beside, by the word of the address: the active model, then every baseline."""
    names = {ACTIVE: _("the active model, %(name)s") % {"name": compared.against.name}} if compared else {}
    return names | {name: kind.baseline(name) for name in card.get("baselines", {})}


def chosen(rivals: Mapping[str, str], card: Mapping[str, Any], name: str) -> str:
    """Of the known rivals the one that the address names, else the active model, else the best baseline."""
    return name if name in rivals else ACTIVE if ACTIVE in rivals else card.get("best_baseline") or ""


def beside(card: Mapping[str, Any], compared: Comparison | None, against: str) -> dict[str, Any]:
    """The paired differences by size and by agent; empty where they were not measured."""
    if against == ACTIVE and compared:
        return {name: compared.figures.get(name) or {} for name in ("by_size", "by_agent")}
    baseline: dict[str, Any] = card.get("baselines", {}).get(against, {})
    return baseline


def leaderboard(model: RouterModel, compared: Comparison | None) -> list[dict[str, Any]]:
    """The model, every baseline and the active model, best first by the measure of the model's goal."""
    rows, standard = scorecard_rows.leaderboard(model), scorecards.standard_of(model)
    if compared:
        figures = {name: figure for name, figure in compared.figures.items() if "theirs" in figure}
        apart = {"difference": {name: figure["difference"] for name, figure in figures.items()}}
        theirs = {name: figure["theirs"] for name, figure in figures.items()}
        lead = scorecard_rows.lead_shown(standard, apart)
        rows.append({"name": compared.against.name, "active": True, "lead": lead, **theirs})
    return scorecard_rows.in_order(rows, standard)


def by_agent(card: Mapping[str, Any], roster: Mapping[int, Agent], lead: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each agent's figures, with the lead in F1 over the chosen rival."""
    differences = {row["id"]: row["difference"] for row in lead.get("by_agent") or ()}
    return [
        {**row, "agent": roster.get(row["id"]), "lead": differences.get(row["id"])} for row in card.get("by_agent", [])
    ]


# ---------------------------------------------------------------------------------------------------- confusion


def confusion(card: Mapping[str, Any], roster: Mapping[int, Agent]) -> dict[str, Any] | None:
    """The heat table of which agent is taken in vain where which is missed; None where it was not measured, or nothing went wrong.

    `columns` are agents; `rows` are (agent, or None for "nothing missed"; cells), a cell {"count", "heat": 0 to HEATS}, the last
    cell of a row being "nothing taken instead"; `left_out` counts agents that are not shown.
    """
    counted = card.get("confusion")
    if not counted or not (counted["missed"] or counted["in_vain"]):
        return None
    wrong = {
        number: counted["missed"].get(number, 0) + counted["in_vain"].get(number, 0)
        for number in counted["missed"] | counted["in_vain"]
    }
    order = sorted(wrong, key=lambda number: (-wrong[number], int(number)))
    shown = [int(number) for number in order[:CONFUSED]]
    pairs = {(missed, chosen): count for missed, chosen, count in counted["pairs"]}
    # The heat is of the pairs alone: an agent that is missed without another in its place is no confusion.
    highest = max(
        (count for (missed, chosen), count in pairs.items() if missed in shown and chosen in shown), default=1
    )

    def cell(count: int, heated: bool = True) -> dict[str, int]:
        return {"count": count, "heat": -(-HEATS * count // highest) if heated else 0}

    rows: list[tuple[Agent | None, list[dict[str, int]]]] = [
        (
            _agent(roster, missed),
            [cell(pairs.get((missed, chosen), 0)) for chosen in shown]
            + [cell(counted["missed_alone"].get(str(missed), 0), heated=False)],
        )
        for missed in shown
    ]
    rows.append((None, [cell(counted["in_vain_alone"].get(str(chosen), 0), heated=False) for chosen in shown]))
    return {"columns": [_agent(roster, number) for number in shown], "rows": rows, "left_out": len(order) - len(shown)}


def _agent(roster: Mapping[int, Agent], number: int) -> Agent:
    return roster.get(number) or Agent(number, f"agent {number}")


# ---------------------------------------------------------------------------------------------------- operating points


def operating(card: Mapping[str, Any], kind: kinds.Kind) -> dict[str, Any] | None:
    """Recall against the average number of agents, for the tag `chart`: the curve, the chosen point, every baseline; None where it was
    not measured or no measured query needs an agent."""
    table = card.get("operating_points")
    if not table or table["chosen"]["recall"] is None:
        return None

    def at(*points: Mapping[str, Any]) -> list[dict[str, float]]:
        return [{"x": round(point["agents"], 4), "y": round(point["recall"], 4)} for point in points]

    styles = ("rect", "rectRot", "triangle", "cross", "crossRot", "star")
    baselines = [
        (name, baseline["point"]) for name, baseline in card.get("baselines", {}).items() if baseline.get("point")
    ]
    sets: list[dict[str, Any]] = [
        {"label": _("this model at other margins"), "data": at(*table["curve"]), "showLine": True, "pointRadius": 1.5},
        {"label": _("this model as it answers"), "data": at(table["chosen"]), **RING},
    ]
    sets += [
        {
            "label": kind.baseline(name),
            "data": at(point),
            "pointRadius": 6,
            "pointStyle": styles[i % len(styles)],
        }
        for i, (name, point) in enumerate(baselines)
        if point["recall"] is not None
    ]
    return {"type": "scatter", "datasets": sets, "x": _("agents a query"), "y": _("recall")}
