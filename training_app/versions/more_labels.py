"""What more labels should bring, in words, by a pool's own learning curve; and what those that came since did bring."""

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from training_app.engine.measures import PRIMARY
from training_app.models import Card, Interval, RouterModel, Scorecard
from training_app.versions import headlines, scorecards

#: Of the labels that a forecast speaks of, so many must have come, and at most so many, for it to be checked.
CAME = (0.7, 1.6)
#: Versions before a model whose forecasts are looked at.
BEFORE = 20


def forecast(model: RouterModel) -> str:
    """ "60 more labels: about 9 more of 100 right (4 to 14)", and what the last forecast came to; "" where the pool has too few labels
    for a curve, or many."""
    right = (model.card.content.get("next_labels") or {}).get("right")
    text = ""
    if right:
        text = _("%(more)d more labels: about %(n)d more of 100 right (%(low)d to %(high)d).") % {
            "more": right["more"], **_of_100(right["gain"]),
        }  # fmt: skip
    return " ".join(part for part in (text, came_true(model)) if part)


def came_true(model: RouterModel) -> str:
    """What an earlier model's forecast was and what its labels brought, where about as many have come since; else ""."""
    mine = model.card
    labels = _labels(mine)
    if not labels or not scorecards.enough(mine) or "exact" not in mine.figures:
        return ""
    for version, card in _earlier(model):
        right = (card.content.get("next_labels") or {}).get("right")
        if not right or not scorecards.enough(card) or "exact" not in card.figures:
            continue
        came = labels - _labels(card)
        if CAME[0] * right["more"] <= came <= CAME[1] * right["more"]:
            brought = round(100 * (mine.figures["exact"].mean - card.figures["exact"].mean))
            return _(
                "%(came)d labels since %(name)s brought %(brought)+d of 100; %(n)d (%(low)d to %(high)d) were expected of %(more)d."
            ) % {
                "came": came,
                "name": f"{model.pool.slug}-{version}",
                "brought": brought,
                "more": right["more"],
                **_of_100(right["gain"]),
            }
    return ""


def _earlier(model: RouterModel) -> list[tuple[int, Card]]:
    """The versions before the model, newest first, with the parts of their scorecards that this takes. One database query."""
    parts = (*headlines.PARTS, "next_labels", "data")
    rows = (
        Scorecard.objects.filter(model__pool=model.pool_id, model__kind=model.kind, model__version__lt=model.version)
        .order_by("-model__version")
        .values_list("model__version", *(f"content__{part}" for part in parts))[:BEFORE]
    )
    return [(version, Card.of(dict(zip(parts, parts_found, strict=True)))) for version, *parts_found in rows]


def _labels(card: Card) -> int:
    """How many labeled queries a model learnt from, those of validation counted."""
    data = card.content.get("data") or {}
    return int(data.get("train", 0)) + int(data.get("val", 0))


def _of_100(gain: Mapping[str, float]) -> dict[str, int]:
    figure = Interval.of(gain)
    return {"n": round(100 * figure.mean), "low": round(100 * figure.low), "high": round(100 * figure.high)}


def context(model: RouterModel) -> dict[str, Any]:
    """What a model's page draws of it."""
    return {"next_labels": forecast(model), "learning": curve(model)}


def curve(model: RouterModel) -> dict[str, Any] | None:
    """The learning curve of a pool's own labels for the tag `chart`."""
    next_labels = model.card.content.get("next_labels")
    if not next_labels:
        return None
    label = str(scorecards.LABELS[PRIMARY])
    return {
        "labels": [str(point["labels"]) for point in next_labels["points"]],
        "datasets": [{"label": label, "data": [point["jaccard"] for point in next_labels["points"]]}],
        "x": _("labels to learn from"),
        "y": label,
    }
