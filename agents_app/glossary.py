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
        _(
            "A simple rule that learns little or nothing. A router that is no better than this rule is not worth its cost."
        ),
    ),
    "lead": Term(_("Lead"), _("How much better this model is than the other one, on the same queries.")),
    "gate": Term(
        _("Gate"),
        _(
            "The check before a model can answer: it is compared with the active model and the baselines, on unseen queries."
        ),
    ),
    "gold": Term(
        _("Gold"),
        _("What counts for training, composed of all labels of a query, agent by agent. A disagreement has no gold."),
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
    "shadow": Term(_("Shadow"), _("A model that also scores every live query, but whose answers are not used.")),
    "canary": Term(_("Canary"), _("A model that answers a small share of live queries, to see how it does.")),
    "cold": Term(
        _("Cold agent"),
        _("An agent that the active model was not trained on. It can be chosen by its description."),
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
        _("A query that is labeled without suggestions, to measure how much suggestions influence people."),
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
