"""A model's scorecard in the words of a page, and what it is judged by. What the engine measured is `RouterModel.card`."""

import re
from collections.abc import Collection, Mapping
from math import ceil, log1p
from typing import Any

from django.conf import settings
from django.utils.formats import get_format, number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents_app.texts.languages import name_of
from training_app.engine.data import intervals
from training_app.engine.data.examples import Agent
from training_app.engine.judging.standard import Standard
from training_app.engine.measures import GOAL_LABELS, MEASURES, PRIMARY
from training_app.models import Card, Interval, RouterModel
from training_app.versions import kinds

#: Checked queries below which no quality is shown: of 50, the range of a share of a half spans 27 of 100.
LEAST_CHECKED = 50
#: Where as many of the checked queries are like training queries, it is said: of queries that people wrote up to 0.45 are.
MOSTLY_ALIKE = 0.5
#: Languages of a smaller share of the checked queries are not named.
LEAST_SPOKEN = 0.01
#: The names of measures on a page.
LABELS = {name: gettext_lazy(measure.label) for name, measure in MEASURES.items()} | {
    name: gettext_lazy(label) for name, label in GOAL_LABELS.items()
}

#: Decision rules, and why one was chosen, by the words of a scorecard's "decision".
RULES = {
    "ddqn": gettext_lazy("the Double DQN"),
    "bayes": gettext_lazy("the exact rule"),
    "threshold": gettext_lazy("one threshold for all agents"),
}
WHY = {
    "asked": gettext_lazy("the settings name it"),
    "ahead": gettext_lazy("it is ahead beyond chance on %(rows)d validation queries"),
    # Of models that an earlier release trained.
    "level": gettext_lazy("on %(rows)d validation queries it is no more than 0.005 behind"),
    "behind": gettext_lazy("the network is behind beyond chance on %(rows)d validation queries"),
    "unsure": gettext_lazy("%(rows)d validation queries do not show that the network is as good"),
    "few": gettext_lazy("%(rows)d validation queries are too few to tell"),
}


def enough(card: Card) -> bool:
    """Whether so many queries judge a model that its figures may be shown and compared."""
    return card.checked >= LEAST_CHECKED


def of_100(share: float) -> int:
    """A share as a whole number of 100. 100 is said only of all: a model with two mistakes in 523 queries gets 99 of 100 right."""
    return round(100 * share) if share >= 1.0 else min(round(100 * share), 99)


def alike(card: Card) -> str:
    """That most of the checked queries say almost the same as queries that were trained on, and so tell little of users' own words; ""
    where fewer do, and of too few queries."""
    found = card.content.get("alike")
    if not found or found["queries"] < LEAST_CHECKED or found["near"] < MOSTLY_ALIKE * found["queries"]:
        return ""
    return _(
        "About %(near)d of 100 checked queries say almost the same as one that it was trained on. So it may be right less often where "
        "users say things in other words: check 30 answers of real traffic."
    ) % {"near": of_100(found["near"] / found["queries"])}


def spoken(card: Card) -> str:
    """In which languages the checked queries are, "" where that is not known: in others the model was not tested."""
    counted = card.content.get("spoken")
    if not counted or not counted["languages"]:
        return ""
    shares = {name_of(code): n / counted["queries"] for code, n in counted["languages"].items()}
    shares[_("too short to tell")] = 1 - sum(shares.values())
    listed = [f"{name} ({100 * share:.0f} %)" for name, share in shares.items() if share >= LEAST_SPOKEN]
    return _("Tested in: %(listed)s.") % {"listed": ", ".join(listed)}


def too_few(queries: int) -> str:
    """What stands in place of every figure of fewer than LEAST_CHECKED queries."""
    places = {"n": queries, "more": LEAST_CHECKED - queries}
    return _("Too few answers to judge: %(n)d checked. Check %(more)d more.") % places


def too_few_in_a_cell(queries: int) -> str:
    """`too_few` for a cell of a table that shows the queries beside it."""
    return _("too few to say; check %(more)d more") % {"more": LEAST_CHECKED - queries}


def standard_of(model: RouterModel) -> Standard:
    """What a model is judged by: the goal of its run, where its scorecard has the figures; else its kind's measure."""
    card, kind = model.card, kinds.of(model.kind)
    standard = card.standard
    if kind.measure != PRIMARY or standard.measure not in card.figures:
        return Standard(kind.measure, kind.measure)
    if standard.limited and standard.limited not in card.figures:
        return Standard(kind.measure, kind.measure)
    return standard


def measure_of(model: RouterModel) -> tuple[str, str]:
    """(measure, its name in the middle of a sentence) that a model is judged by: see `standard_of`."""
    kind, measure = kinds.of(model.kind), standard_of(model).measure
    return measure, str(kind.measured if measure == kind.measure else LABELS[measure])


def flip_rate(model: RouterModel) -> Interval | None:
    """The share of turns whose agents changed though the labels did not; None where no conversation was measured."""
    figure = (model.card.content.get("conversations") or {}).get("flip_rate") or {}
    return Interval.of(figure) if figure.get("turns") else None


def lead_of(standard: Standard, difference: Interval | None) -> Interval | None:
    """A difference as the model's lead: of a measure of which less is better, by how much less."""
    if difference is None or not standard.fewer:
        return difference
    return Interval(-difference.mean, -difference.high, -difference.low, -difference.high)


def best_baseline(model: RouterModel, without: Collection[str] = ()) -> str:
    """The strongest baseline on the checked queries, by the goal of the model, of those that are not in `without`; "" without any
    that keeps the goal's limit. The rule that answers is none."""
    card = model.card
    means = card.means(card.beside)
    return standard_of(model).best({name: mean for name, mean in means.items() if name not in without})


def best_tested(model: RouterModel) -> str:
    """`best_baseline` on the measured split, whether or not cross-validation judges."""
    card, standard = model.card, standard_of(model)
    if standard == Standard():
        return card.best_baseline
    return standard.best(card.means(card.baselines))


def agents(model: RouterModel) -> dict[int, Agent]:
    """The roster that the model learnt, by id."""
    return {
        entry["id"]: Agent(**{**entry, "keywords": tuple(entry.get("keywords", ()))}) for entry in model.roster
    }  # fmt: skip


def judged_by(card: Card) -> str:
    """Whose labels a model was measured by, as a sentence; "" where that was not kept."""
    llm, total = card.judges.get("llm", 0), sum(card.judges.values())
    if llm:
        if llm == total:
            return _("Judged by an LLM's labels.")
        return _("Judged by an LLM's labels on %(llm)d of %(total)d queries, by people's on the others.") % {
            "llm": llm,
            "total": total,
        }
    sentences = {"people": _("Judged by people's labels."), "import": _("Judged by imported labels.")}
    return sentences.get(card.judged_by, "")


def by_llm(card: Card) -> str:
    """`judged_by` after another sentence where an LLM judged, else ""."""
    return f" {judged_by(card)}" if card.judged_by == "llm" else ""


def verdict(model: RouterModel) -> str:
    """In a sentence or two: how the model does beside the best baseline, on how many queries, and where an LLM judged, that it did; of
    too few queries, only that they are."""
    card = model.card
    if card.metrics and not enough(card):
        return too_few(card.checked) + by_llm(card)
    return beside_baseline(model) + by_llm(card)


def beside_baseline(model: RouterModel) -> str:
    """How the model does on its measured split beside the best baseline, of however many queries: for engineers."""
    card, kind = model.card, kinds.of(model.kind)
    measure, measured = measure_of(model)
    if measure not in card.metrics:
        return _("It came without a scorecard.")
    places = {
        "score": card.metrics[measure].mean,
        "measured": measured,
        "queries": card.queries,
        "model": model.name,
    }
    on_test = card.measured_on == "test"
    where = _("%(queries)d test queries") if on_test else _("%(queries)d validation queries, which flatter")
    places["where"] = where % places
    name = best_tested(model)
    beside = card.baselines.get(name)
    difference = lead_of(standard_of(model), beside.lead.get(measure)) if beside else None
    if difference is None:
        return as_in_tables(_("%(measured)s %(score).3f on %(where)s; no baseline was measured beside it.") % places)
    places |= {"name": kind.baseline(name), "by": abs(difference.mean)}
    places |= {"low": difference.low, "high": difference.high, "more": difference.mean}
    places["margin"] = settings.PROMOTION_MARGIN
    if difference.bound > 0:
        text = _(
            "Better than the best baseline, %(name)s, by %(by).3f (%(low).3f to %(high).3f) %(measured)s on %(where)s."
        )
    elif difference.high < 0:
        text = _(
            "Worse than the best baseline: %(name)s alone is better by %(by).3f %(measured)s (difference %(low).3f to "
            "%(high).3f) on %(where)s."
        )
    elif difference.bound > -settings.PROMOTION_MARGIN:
        text = _(
            "No worse than the best baseline, %(name)s, by more than %(margin).3f: the difference is %(more)+.3f (%(low).3f to "
            "%(high).3f) %(measured)s on %(where)s."
        )
    else:
        text = _(
            "May be worse than the best baseline, %(name)s, by more than %(margin).3f: the difference is %(more)+.3f (%(low).3f to "
            "%(high).3f) %(measured)s on %(where)s."
        )
    text %= places
    if difference.high >= 0:
        text += by_bound(difference)
        if difference.bound <= -settings.PROMOTION_MARGIN:
            text += would_tell(difference, -settings.PROMOTION_MARGIN, card.queries)
    return as_in_tables(text)


def by_folds(card: Card) -> str:
    """Where a finding's figures come from, as a sentence after it; "" where they are those of the test split."""
    if card.folded is None:
        return ""
    figures = {"queries": card.folded.queries, "folds": card.folded.folds, "test": card.queries}
    return (
        " "
        + _(
            "By cross-validation in %(folds)d folds of the %(queries)d labeled queries, as %(test)d test queries are few."
        )
        % figures
    )


def by_bound(difference: Interval) -> str:
    """Where the gate goes by a lower end than the interval's, which one, as a sentence after it; else ""."""
    if f"{difference.bound:.3f}" == f"{difference.low:.3f}":
        return ""
    return " " + _("The gate goes by %(bound)+.3f at worst, as it counts what these queries have not shown.") % {
        "bound": difference.bound
    }


def would_tell(difference: Interval, least: float, queries: int) -> str:
    """How many test queries would tell, by the figures so far; "" where they point the other way."""
    ahead = difference.mean - least
    if ahead <= 0 or not queries:
        return ""
    if difference.mean == 0 and difference.bound == -difference.high:  # no query differs: only the unseen may cost
        needed = ceil(intervals.rare(0) / -log1p(-ahead))
    else:
        needed = ceil(queries * ((difference.mean - difference.bound) / ahead) ** 2)
    if needed <= queries:
        return ""
    return " " + _("About %(needed)d test queries would tell, %(more)d more.") % {
        "needed": needed,
        "more": needed - queries,
    }


def as_in_tables(text: str) -> str:
    """A sentence with the sign and the decimal point that its numbers have in tables; what rounds to zero has no minus."""
    text = re.sub(r"(?<![^ (])-(?=\d)", "−", re.sub(r"(?<![^ (])-(?=0\.0+(?!\d))", "", text))
    return re.sub(r"(?<![^ (])([+−]?\d+)\.(?=\d)", rf"\1{get_format('DECIMAL_SEPARATOR')}", text)


def decision(card: Mapping[str, Any]) -> str:
    """Which decision rule answers and why; "" where the scorecard does not say."""
    decided = card.get("decision")
    if not decided:
        return ""
    rule = RULES.get(decided["rule"], decided["rule"])
    places = {"rule": rule, "goal": decided["goal"], "rows": decided.get("rows", 0)}
    text = _("Decided by %(rule)s, for the goal %(goal)s") % places
    why = WHY.get(decided["why"])
    if not why:
        return text + "."
    text += ": " + str(why) % places
    lead = decided.get("against", {}).get("threshold" if decided["rule"] == "threshold" else "bayes")
    if lead:
        by = {"mean": lead["mean"], "low": lead["low"], "high": lead["high"]}
        text += " " + as_in_tables(_("(the network's lead: %(mean)+.3f, %(low)+.3f to %(high)+.3f)") % by)
    return text + "."


#: How far back a scorer of turns looks, in words.
LOOKS = {
    "now": gettext_lazy("the last turn alone"),
    "exchange": gettext_lazy("the exchange before it"),
    "all": gettext_lazy("all that was said"),
}


def looking_back(card: Mapping[str, Any]) -> str:
    """What reading each part of a conversation brings, out of fold, and what the model reads; "" for a pool of texts."""
    turns = card.get("encoder", {}).get("turns")
    if not turns:
        return ""
    reached = [f"{LOOKS.get(name, name)} {value:.3f}" for name, value in turns["looks"].items()]
    brought = [
        _("%(what)s brings %(mean)+.3f (%(low)+.3f to %(high)+.3f)")
        % {"what": LOOKS.get(name, name), "mean": by["mean"], "low": by["low"], "high": by["high"]}
        for name, by in turns["brings"].items()
    ]
    text = _(
        "Conversations, linear scorer, out of fold Jaccard: %(reached)s; %(brought)s. This model reads %(depth)s."
    ) % {
        "reached": ", ".join(reached),
        "brought": "; ".join(brought),
        "depth": LOOKS.get(turns["depth"], turns["depth"]),
    }
    return as_in_tables(text)


def guarantee(card: Card) -> str:
    """The promise of few wrong answers, and who answers the rest, in a sentence; "" where none was asked for."""
    promised = card.content.get("guarantee")
    if not promised:
        return ""
    share = _percent(promised["most_wrong"])
    if promised["level"] is None:
        return _("No promise of at most %(share)s %% wrong answers: %(why)s.") % {
            "share": share,
            "why": _no_promise(promised),
        }
    people = 100 - round(100 * promised["answered"])
    what = _("wrong") if promised["loss"] == "exact" else _("off, by Jaccard,")
    return _(
        "At most %(share)s %% of the answers given are %(what)s: %(people)d of 100 queries go to a person for it."
    ) % {
        "share": share,
        "what": what,
        "people": people,
    }


def _percent(share: float) -> str:
    """A share in percent, without zeros at its end."""
    return str(number_format(f"{100 * share:g}"))


def _no_promise(row: Mapping[str, Any]) -> str:
    """Why a promise cannot be made, after a colon."""
    if row["needed"] is None:
        return _("too many of the surest answers are wrong")
    more = max(1, row["needed"] - row["rows"])
    places = {
        "needed": number_format(row["needed"], force_grouping=True),
        "more": number_format(more, force_grouping=True),
    }
    return _("it takes about %(needed)s labels, %(more)s more") % places


def promises(card: Card) -> list[dict[str, Any]]:
    """What each promise of few wrong answers would take: `most_wrong`, the same in percent as `share`, `people` of 100 queries that go
    to a person for it (None where it cannot be made), and `why` not."""
    return [
        {
            "most_wrong": row["most_wrong"],
            "share": _percent(row["most_wrong"]),
            "people": None if row["level"] is None else 100 - round(100 * row["answered"]),
            "why": _no_promise(row) if row["level"] is None else "",
        }
        for row in card.content.get("promises", ())
    ]


def handoffs(card: Card) -> str:
    """How the model does beside who answered until now, in sentences; "" without traces of enough test queries."""
    sentence = _(
        "Today's handoffs are right in %(today)d of 100, the router in %(router)d, on the same %(queries)d queries."
    )
    advice = _("With this router, more answers would be wrong than today: label more queries and train again.")
    return _beside_today(card, "handoffs", sentence, advice)


def handoffs_are_better(card: Card) -> bool:
    """Whether who answered until now is shown to be right more often than the model, on enough test queries."""
    return _is_behind(card, "handoffs")


def descriptions(card: Card) -> str:
    """How the model does beside the agents' descriptions, in sentences; "" where a model answered already, and of too few queries."""
    sentence = _(
        "The agents' descriptions, without a model, are right in %(today)d of 100, this model in %(router)d, on the same %(queries)d "
        "queries."
    )
    advice = _("With this model, more answers would be wrong than without one: label more queries and train again.")
    return _beside_today(card, "descriptions", sentence, advice)


def descriptions_are_better(card: Card) -> bool:
    """Whether the agents' descriptions are shown to be right more often than the model, on enough queries."""
    return _is_behind(card, "descriptions")


def _beside_today(card: Card, row: str, sentence: str, advice: str) -> str:
    """What a row of `versions/handoffs.py` says, with the `advice` where the model is behind; "" of too few queries."""
    beside = card.content.get(row)
    if not beside or beside["queries"] < LEAST_CHECKED:
        return ""
    today, router = (of_100(beside[name]["exact"]["mean"]) for name in ("metrics", "ours"))
    text = sentence % {"today": today, "router": router, "queries": beside["queries"]}
    if _is_behind(card, row):
        return f"{text} {advice}"
    if beside["difference"]["exact"]["low"] > 0:
        return text
    return text + " " + _("That does not show which of them is better.")


def _is_behind(card: Card, row: str) -> bool:
    beside = card.content.get(row)
    if not beside or beside["queries"] < LEAST_CHECKED:
        return False
    return bool(beside["difference"]["exact"]["high"] < 0)
