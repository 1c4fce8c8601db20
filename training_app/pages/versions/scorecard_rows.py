"""A model's scorecard in the rows of a page: its figures, its baselines and its wrong answers."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from training_app.engine.data.examples import Agent
from training_app.engine.judging.standard import Standard, is_share
from training_app.engine.measures import COMPARED, MEASURES
from training_app.models import Interval, RouterModel
from training_app.versions import kinds, scorecards, teaching


def context(model: RouterModel) -> dict[str, Any]:
    """What the scorecard's template draws; `card` is empty where the model has no scorecard."""
    card, kind = model.card.content, kinds.of(model.kind)
    if not card.get("metrics"):
        return {"card": {}, "figures": scorecards.verdict(model)}
    labels = {kind.measure: kind.measured, **scorecards.LABELS}
    measure, measured = scorecards.measure_of(model)
    return {
        "card": card,
        "measured": measured,
        "measured_share": is_share(measure) or measure == kind.measure,
        "compared": [
            MEASURES[name] for name in COMPARED if not kind.listed and name != measure and name in card["metrics"]
        ],
        "figures": scorecards.verdict(model),
        "detail": scorecards.beside_baseline(model),
        "few_tested": model.card.queries < scorecards.LEAST_CHECKED,
        "judged_by": scorecards.judged_by(model.card),
        "folded": folded(model),
        "decision": scorecards.decision(card),
        "looking_back": scorecards.looking_back(card),
        "teaching": [scorecards.as_in_tables(text) for text in teaching.taught_by(card)],
        "warnings": card.get("warnings", []),
        "guarantee": scorecards.guarantee(model.card),
        "promises": scorecards.promises(model.card),
        "handoffs": scorecards.handoffs(model.card),
        "handoffs_are_better": scorecards.handoffs_are_better(model.card),
        "descriptions": scorecards.descriptions(model.card),
        "descriptions_are_better": scorecards.descriptions_are_better(model.card),
        "calibration": card.get("calibration", {}),
        "reliability": reliability(card.get("calibration", {})),
        "measures": [(label, card["metrics"][name]) for name, label in labels.items() if name in card["metrics"]],
        "turns": turns(card),
        "robustness": [
            (ALTERED.get(name, name), share, card.get("robustness_jaccard", {}).get(name))
            for name, share in card.get("robustness", {}).items()
        ],
    }


#: The ways in which robustness alters a query (`engine/reading/tidying/perturbations.py`, and other turns of a conversation).
ALTERED = {
    "typos": gettext_lazy("typos"),
    "upper_case": gettext_lazy("upper case"),
    "no_punctuation": gettext_lazy("no punctuation"),
    "repeated_word": gettext_lazy("repeated word"),
    "prefix": gettext_lazy("prefix"),
    "signature": gettext_lazy("signature"),
    "quoted_mail": gettext_lazy("quoted mail"),
    "strange_turns": gettext_lazy("strange turns"),
}
#: Figures of a scorecard's "conversations", in their order.
TURNS = {
    "flip_rate": gettext_lazy("agents changed, labels did not"),
    "replies_stay": gettext_lazy("replies to a question that stay"),
    "switches_found": gettext_lazy("changes of subject seen within one turn"),
    "exact": gettext_lazy("turns answered right"),
}


def turns(card: Mapping[str, Any]) -> list[tuple[str, float, float | None]]:
    """(name, share, share without the turn before) of each figure of conversations that was measured."""
    ours = card.get("conversations") or {}
    alone = ours.get("alone") or {}
    measured = [name for name in TURNS if "mean" in ours.get(name, {})]
    return [(str(TURNS[name]), ours[name]["mean"], alone.get(name, {}).get("mean")) for name in measured]


def folded(model: RouterModel) -> dict[str, Any] | None:
    """What cross-validation says, for a sentence: queries, folds, ours, exact, and the lead over the best baseline with its name."""
    card, kind, standard = model.card, kinds.of(model.kind), scorecards.standard_of(model)
    best = scorecards.best_baseline(model)
    if card.folded is None or not best:
        return None
    return {
        "queries": card.folded.queries,
        "folds": card.folded.folds,
        "ours": card.folded.metrics[standard.measure],
        "exact": card.folded.metrics["exact"].mean,
        "name": kind.baseline(best),
        "lead": scorecards.lead_of(standard, card.folded.baselines[best].lead[standard.measure]),
    }


def leaderboard(model: RouterModel) -> list[dict[str, Any]]:
    """The model and every baseline, best first: name, measures with intervals, the one of its goal as `measured`, and its lead."""
    card, kind, standard = model.card.content, kinds.of(model.kind), scorecards.standard_of(model)
    rows = [{"name": _("this model"), "ours": True, **card["metrics"]}]
    for name, baseline in card.get("baselines", {}).items():
        rows.append(
            {"name": kind.baseline(name), "ours": False, "lead": lead_shown(standard, baseline), **baseline["metrics"]}
        )
    if llm := card.get("llm"):
        note = _("asked about %(queries)d queries, the lead is over these") % {"queries": llm["queries"]}
        if llm["unanswered"]:
            note += "; " + _("%(count)d without an answer") % {"count": llm["unanswered"]}
        note += "; " + _("%(seconds)s s a call") % {
            "seconds": number_format(round(llm["latency_ms"]["p50"] / 1000, 1), 1)
        }
        if llm["cost"] is not None:
            note += "; " + _("cost %(cost)s") % {"cost": number_format(round(llm["cost"], 2), 2)}
        row = {"name": llm["model"], "ours": False, "lead": lead_shown(standard, llm), "note": note}
        rows.append({**row, **llm["metrics"]})
    for key, name in (("handoffs", _("who answered until now")), ("descriptions", _("the agents' descriptions"))):
        if today := card.get(key):
            note = _("known of %(queries)d queries, the lead is over these") % {"queries": today["queries"]}
            row = {"name": name, "ours": False, "lead": lead_shown(standard, today), "note": note}
            rows.append({**row, **today["metrics"]})
    return in_order(rows, standard)


def lead_shown(standard: Standard, beside: Mapping[str, Any]) -> dict[str, float] | None:
    """The model's lead over what stood beside it, {"difference": {measure: interval}}; None where it was not measured."""
    difference = beside["difference"].get(standard.measure)
    lead = scorecards.lead_of(standard, Interval.of(difference) if difference else None)
    return lead.words() if lead else None


def in_order(rows: Sequence[dict[str, Any]], standard: Standard) -> list[dict[str, Any]]:
    """Rows of figures, best first by the goal's measure, which each row that has it gets as `measured`."""
    rows = [{**row, "measured": row[standard.measure]} for row in rows if standard.measure in row]
    sign = 1 if standard.fewer else -1
    return sorted(rows, key=lambda row: sign * row["measured"]["mean"])


def reliability(calibration: Mapping[str, Any]) -> dict[str, Any] | None:
    """The calibration plot for the tag `chart`: how often an agent with a score was needed, beside the score itself."""
    bins = calibration.get("reliability")
    if not bins:
        return None
    return {
        "labels": [number_format(round(b["p"], 2), 2) for b in bins],
        "datasets": [
            {"label": _("needed"), "data": [b["frequency"] for b in bins]},
            {"label": _("as the score says"), "data": [b["p"] for b in bins]},
        ],
        "x": _("score"),
        "y": _("share that was needed"),
    }


def error_row(error: Mapping[str, Any], roster: Mapping[int, Agent]) -> dict[str, Any]:
    """One wrong answer: its text and, as `sides`, the agents that it missed, that it took in vain, and that were right."""
    required, selected = set(error["required"]), set(error["selected"])

    def named(ids: set[int]) -> list[Agent]:
        return [roster.get(number) or Agent(number, f"agent {number}") for number in sorted(ids)]

    return {
        "text": error["text"],
        "selected": ",".join(map(str, sorted(selected))),
        "label": named(required),
        "sides": [named(required - selected), named(selected - required), named(required & selected)],
        "nearest": [{**near, "agents": named(set(near["required"]))} for near in error.get("nearest", [])],
    }
