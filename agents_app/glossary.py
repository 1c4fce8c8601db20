"""The words of this product that are not everybody's, each said in plain ones: shown beside the word, and on one page of all."""

from typing import NamedTuple

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from training_app.engine.measures import MEASURES


class Term(NamedTuple):
    """A word, and what it means in a sentence or two."""

    word: str | Promise
    means: str | Promise


TERMS: dict[str, Term] = {
    **{measure.name: Term(_(measure.label), _(measure.meaning)) for measure in MEASURES.values()},
    "interval": Term(
        _("95 % interval"),
        _(
            "Where the figure would most likely lie if other queries of the same kind had been asked. More queries make it narrower."
        ),
    ),
    "baseline": Term(
        _("Baseline"),
        _("A simple rule that learns little or nothing. A router that is no better than it is not worth its cost."),
    ),
    "lead": Term(_("Lead"), _("By how much this model is better than the one beside it, on the same queries.")),
    "gate": Term(
        _("Gate"),
        _(
            "What a model is held against before it may answer: the active model and the baselines, on queries it has not learnt."
        ),
    ),
    "gold": Term(
        _("Gold"),
        _(
            "What counts for training: put together from all labels of a query, agent by agent. A disagreement has no gold."
        ),
    ),
    "snapshot": Term(
        _("Snapshot"),
        _("A copy of the gold labels and the agents as they were at a moment. It never changes; runs train on it."),
    ),
    "split": Term(
        _("Split"),
        _(
            "What a query is for: train to learn from, validation to choose settings by, test to measure on. It never changes."
        ),
    ),
    "run": Term(_("Run"), _("One training, from a snapshot to a model, with its settings, curves and log.")),
    "candidate": Term(_("Candidate"), _("A model that is trained and answers nothing yet.")),
    "shadow": Term(
        _("Shadow"), _("A model that is asked every live query beside the active one, and whose answers nobody gets.")
    ),
    "canary": Term(_("Canary"), _("A model that answers a small share of live queries, to see how it does.")),
    "cold": Term(
        _("Cold agent"),
        _("An agent that no active model has learnt yet. It can be chosen by what its description says."),
    ),
    "confidence": Term(
        _("Confidence"), _("How likely the whole set is right, as a share: of answers at 80 %, 8 in 10 are.")
    ),
    "abstained": Term(
        _("Abstained"),
        _("The router does not know, and says so. That is not “None”, which is an answer: no agent is needed."),
    ),
    "drift": Term(
        _("Drift"), _("Live queries, or the answers to them, no longer look like those that the model was trained on.")
    ),
    "blind": Term(
        _("Blind item"),
        _("A query that is labeled without suggestions, so that it can be told how much they sway people."),
    ),
    "overlap": Term(
        _("Overlap"),
        _("Queries that two people label, neither seeing the other's answer, to measure how far people agree."),
    ),
    "kappa": Term(
        _("Alpha"), _("Agreement beyond chance (Krippendorff): 1 is full agreement, 0 is what guessing would give.")
    ),
    "suggestion": Term(
        _("Suggestion"), _("What an LLM or a model would choose, shown to a labeler. It never counts as an answer.")
    ),
    "propensity": Term(
        _("Propensity"), _("How likely it was that this choice was made. Without it, a choice cannot be judged later.")
    ),
}
