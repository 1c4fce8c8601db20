"""Drift: whether a pool's recent decisions look like the queries that its active model was judged on. Measured once an hour.

The reference is the model's own answers to the validation and test queries of its snapshot, which it did not train on. A model without
enough of those, as an imported one, is compared with its own first decisions. Somebody may also accept traffic as the new normal.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents_app import audit
from agents_app.models import Pool
from datasets_app.labels import snapshots
from datasets_app.models import Split
from training_app.engine.data.conversations import from_json
from training_app.engine.judging import drift
from training_app.engine.routing import holding
from training_app.models import Alarm, Decision, DriftPoint, DriftReference, RouterModel
from training_app.training import rules
from training_app.versions import registry
from training_app.watching import alarms

#: The newest distinct texts that one look takes, and how old they may be.
MOST = 2_000
WINDOW = timedelta(days=7)
#: A reference by decisions is made of the first so many. Where the training queries are not known either, the first half of them
#: stands for those, so that more are needed.
FIRST, FIRST_OF_A_RUN = 500, 2 * drift.FEWEST
KEPT = timedelta(days=90)
PAGE = 500
Source = DriftReference.Source

TITLES = {
    "novelty": gettext_lazy("Unknown words"),
    "confidence": gettext_lazy("Confidence"),
    "likeliest": gettext_lazy("Likeliest agent"),
    "size": gettext_lazy("Agents in an answer"),
    "abstained": gettext_lazy("Abstentions"),
}
MEANINGS = {
    "novelty": gettext_lazy("The share of a query's four-letter pieces that occur in no training query."),
    "confidence": gettext_lazy("The router's probability that its whole set is right."),
    "likeliest": gettext_lazy("The highest probability of any agent."),
    "size": gettext_lazy("The number of agents in an answer."),
    "abstained": gettext_lazy("The share of answers in which the router does not know."),
}


class DriftError(Exception):
    """Why a reference cannot be changed, in words for whoever asked."""


def look_all() -> int:
    """The schedule's job: look at every pool that has an active model, tell of drift, forget old points; pools that drift."""
    DriftPoint.objects.filter(at__lt=timezone.now() - KEPT).delete()
    drifting = 0
    for model in (
        RouterModel.objects.active().filter(pool__in=Pool.objects.in_use()).select_related("pool", "run__snapshot")
    ):
        point = look(model)
        if point is not None:
            tell(model, point)
            drifting += point.drifts
    return drifting


def look(model: RouterModel) -> DriftPoint | None:
    """Measure the model's recent decisions once; None where there is too little to compare."""
    reference = reference_of(model)
    if reference is None:
        return None
    sketch, since = _recent(model, vocabulary_of(reference))
    if sketch.texts < drift.FEWEST:
        return None
    means = sketch.means
    measures = {
        shift.measure.name: {
            "live": means[shift.measure.name],
            "reference": reference.means[shift.measure.name],
            "distance": shift.distance,
            "limit": max(shift.limit, shift.measure.least),
            "drifts": shift.drifts,
            "cut": shift.cut,
            "more": shift.excess > 0,
            "counts": sketch.counts[shift.measure.name],
        }
        for shift in drift.compare(reference.counts, sketch.counts, sketch.places)
    }
    words = [[word, count] for word, count in sketch.words.most_common(12) if count > 1]
    drifts = any(values["drifts"] for values in measures.values())
    return DriftPoint.objects.create(
        model=model, since=since, texts=sketch.texts, measures=measures, words=words, drifts=drifts
    )


def tell(model: RouterModel, point: DriftPoint) -> None:
    """Open an alarm where looks have drifted before and what came since the first of them drifts as well, by the same measure;
    resolve it where this look does not drift.

    Looks an hour apart share most of their decisions, so a second one says little that the first did not: the queries that came
    since the first must be FEWEST at least, and lie beyond the same cut by as much as matters.
    """
    if not point.drifts:
        alarms.resolve(Alarm.Kind.DRIFT, model.pool)
        return
    if not any(_goes_on(model, point, name) for name, values in point.measures.items() if values["drifts"]):
        return
    sentence = in_words(model, point)
    evidence = [
        [str(TITLES[name]), f"{values['reference']:.3f} → {values['live']:.3f}; {_('differs by')} {values['distance']:.3f}, "
         f"{_('limit')} {values['limit']:.3f}"]
        for name, values in point.measures.items()
    ]  # fmt: skip
    evidence.append([_("Decisions"), f"{point.texts}"])
    if point.words:
        evidence.append([_("New words"), ", ".join(f"{word} ({count})" for word, count in point.words)])
    _alarm, new = alarms.hold(Alarm.Kind.DRIFT, sentence, evidence, model.pool)
    if new:
        rules.on_drift(model.pool, sentence)


def _goes_on(model: RouterModel, point: DriftPoint, name: str) -> bool:
    """Whether a measure drifted in looks before this one, and drifts in what came since the first of them."""
    earlier = model.drift_points.filter(at__lt=point.at).order_by("-at")
    first = None
    for look_before in earlier.iterator(chunk_size=50):
        if not look_before.measures.get(name, {}).get("drifts"):
            break
        first = look_before
    reference = reference_of(model)
    if first is None or reference is None:
        return False
    fresh, _since = _recent(model, vocabulary_of(reference), since=first.at)
    if fresh.texts < drift.FEWEST or name not in fresh.places:
        return False
    measure = next(measure_ for measure_ in drift.MEASURES if measure_.name == name)
    values = point.measures[name]
    excess = drift.beyond(fresh.counts[name], measure, values["cut"]) - drift.beyond(
        reference.counts[name], measure, values["cut"]
    )
    return (excess if values["more"] else -excess) >= measure.least


def in_words(model: RouterModel, point: DriftPoint) -> str:
    """What drifts, in one sentence."""
    drifting = [str(TITLES[name]).lower() for name, values in point.measures.items() if values["drifts"]]
    if not drifting:
        return _("Recent queries look like those that %(model)s was judged on.") % {"model": model.name}
    return _("Recent queries of %(pool)s differ from those that %(model)s was judged on: %(what)s.") % {
        "pool": model.pool.name,
        "model": model.name,
        "what": ", ".join(drifting),
    }


# --- The reference --------------------------------------------------------------------------------------------------


def reference_of(model: RouterModel) -> DriftReference | None:
    """The model's reference, made now where it has none; None where there is not enough to make one of."""
    reference = DriftReference.objects.filter(model=model).first()
    return reference or _by_snapshot(model) or _by_decisions(model)


def needed_first(model: RouterModel) -> int:
    """Of how many of the model's first decisions a reference is made."""
    return FIRST if model.run_id is None else FIRST_OF_A_RUN


def lacks_reference(model: RouterModel) -> bool:
    """Whether there is nothing yet to compare the model's decisions with: too few queries that its snapshot held back from training,
    and too few first decisions."""
    if DriftReference.objects.filter(model=model).exists() or held_back(model) >= drift.FEWEST:
        return False
    return first_so_far(model) < needed_first(model)


def held_back(model: RouterModel) -> int:
    """How many queries of the model's snapshot it did not train on; 0 for a model that was imported."""
    sizes = model.run.snapshot.split_sizes if model.run else {}
    return int(sizes.get(Split.VAL, 0)) + int(sizes.get(Split.TEST, 0))


def first_so_far(model: RouterModel) -> int:
    """How many different queries the model has answered, as far as they count for a reference."""
    return sum(1 for _row in _decisions(model, newest=False, limit=needed_first(model)))


def why_no_reference(model: RouterModel) -> str:
    """Why the model's decisions cannot be compared yet, and when they can be."""
    words = {
        "name": model.name,
        "held": held_back(model),
        "least": drift.FEWEST,
        "first": needed_first(model),
        "have": first_so_far(model),
    }
    if model.run_id is None:
        why = _("%(name)s was imported, without the queries that it was judged on.") % words
    else:
        why = (
            _(
                "The pool is young: %(held)d queries were held back from training %(name)s, and a comparison takes %(least)d."
            )
            % words
        )
    when = _(
        "Its first %(first)d different queries become what later ones are compared with; it has answered %(have)d."
    )
    return f"{why} {when % words}"


def vocabulary_of(reference: DriftReference) -> drift.Vocabulary | None:
    """What is known of the training texts, None where nothing is."""
    grams = np.frombuffer(bytes(reference.grams), "<u4")
    return drift.Vocabulary(np.frombuffer(bytes(reference.words), "<u4"), grams) if grams.size else None


def _by_snapshot(model: RouterModel) -> DriftReference | None:
    if model.run is None:
        return None
    vocabulary = _training_words(model)
    held_out = [e.text for e in snapshots.examples(model.run.snapshot) if e.split in (Split.VAL, Split.TEST)]
    texts = list(dict.fromkeys(held_out))
    if len(texts) < drift.FEWEST:
        return None
    if len(texts) > MOST:
        chosen = np.random.default_rng(model.pk).choice(len(texts), MOST, replace=False)
        texts = [texts[i] for i in sorted(chosen.tolist())]
    router = registry.load_model(model)
    sketch = drift.Sketch(vocabulary)
    for text, route in zip(texts, holding.routes(router, texts), strict=True):
        sketch.add(
            text, confidence=route.confidence, likeliest=max(route.scores.values(), default=0.0), size=len(route.agents),
            abstained=route.abstained,
        )  # fmt: skip
    return _keep(model, Source.SNAPSHOT, sketch, vocabulary)


def _training_words(model: RouterModel) -> drift.Vocabulary | None:
    if model.run is None:
        return None
    return drift.Vocabulary.of(e.text for e in snapshots.examples(model.run.snapshot) if e.split == Split.TRAIN)


def _by_decisions(model: RouterModel) -> DriftReference | None:
    first = list(_decisions(model, newest=False, limit=needed_first(model)))
    if len(first) < needed_first(model):
        return None
    vocabulary = _training_words(model)
    if vocabulary is None:
        # What the first half says is known; the second half tells how much is new among queries of the same days.
        vocabulary, first = drift.Vocabulary.of(row["text"] for row in first[: FIRST // 2]), first[FIRST // 2 :]
    sketch = drift.Sketch(vocabulary)
    for row in first:
        _count(sketch, row)
    return _keep(model, Source.DECISIONS, sketch, vocabulary)


def accept(model: RouterModel, actor: User | None) -> DriftReference:
    """Take the model's recent decisions as the new normal, and resolve the alarm. Raises DriftError where they are too few."""
    reference = reference_of(model)
    vocabulary = vocabulary_of(reference) if reference else _training_words(model)
    sketch, _since = _recent(model, vocabulary)
    if sketch.texts < drift.FEWEST:
        raise DriftError(
            _("%(count)d different queries in the last week are too few to call normal; %(least)d are needed.")
            % {"count": sketch.texts, "least": drift.FEWEST}
        )
    with transaction.atomic():
        point = _keep(model, Source.ACCEPTED, sketch, vocabulary)
        audit.record(
            "drift.accepted", actor=actor, target=model.name, pool=model.pool, detail={"decisions": sketch.texts}
        )
        alarms.resolve(Alarm.Kind.DRIFT, model.pool)
    return point


def _keep(model: RouterModel, source: str, sketch: drift.Sketch, vocabulary: drift.Vocabulary | None) -> DriftReference:
    values: dict[str, Any] = {
        "source": source,
        "texts": sketch.texts,
        "counts": sketch.counts,
        "means": sketch.means,
        "words": vocabulary.words.astype("<u4").tobytes() if vocabulary else b"",
        "grams": vocabulary.grams.astype("<u4").tobytes() if vocabulary else b"",
    }
    return DriftReference.objects.update_or_create(model=model, defaults=values)[0]


# --- Decisions ------------------------------------------------------------------------------------------------------


def _recent(
    model: RouterModel, vocabulary: drift.Vocabulary | None, *, since: datetime | None = None
) -> tuple[drift.Sketch, datetime]:
    """The newest decisions, those after `since` where it is given, and when the oldest of them was made."""
    sketch, oldest = drift.Sketch(vocabulary), timezone.now()
    for row in _decisions(model, newest=True, limit=MOST):
        if since is not None and row["at"] <= since:
            break
        _count(sketch, row)
        oldest = row["at"]
    return sketch, oldest


def _count(sketch: drift.Sketch, row: dict[str, Any]) -> None:
    sketch.add(
        row["text"], confidence=row["confidence"], likeliest=max(row["scores"].values(), default=0.0),
        size=len(row["agents"]), abstained=row["abstained"],
    )  # fmt: skip


def _decisions(model: RouterModel, *, newest: bool, limit: int) -> Iterator[dict[str, Any]]:
    """The model's own decisions on different queries, a page at a time; those in which it explored are left out.

    A query that is asked over and over says once what it is like; a turn is another query where something else was said before it.
    """
    decisions = Decision.objects.filter(model=model)
    if newest:
        decisions = decisions.filter(at__gte=timezone.now() - WINDOW)
    decisions = decisions.order_by("-at" if newest else "at")
    queries: set[int] = set()
    last: datetime | None = None
    looked = 0
    while len(queries) < limit and looked < 10 * limit:
        page = decisions if last is None else decisions.filter(**{"at__lt" if newest else "at__gt": last})
        rows = list(
            page.values("at", "text", "confidence", "scores", "agents", "abstained", "detail", "messages")[:PAGE]
        )
        if not rows:
            return
        last, looked = rows[-1]["at"], looked + len(rows)
        for row in rows:
            query = hash(from_json(row["text"], row["messages"]))
            if (row["detail"] or {}).get("explored") is None and query not in queries and len(queries) < limit:
                queries.add(query)
                yield dict(row)
