"""Somebody's data, given out as a file and erased: one function each for the page and for `manage.py personal_data`."""

import io
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from django.db import models, transaction
from django.utils.translation import gettext as _

from agents_app import audit
from agents_app.audit import Who
from datasets_app.labels import snapshots
from datasets_app.models import ImportChunk, Query
from training_app.models import Decision, Episode, Outcome
from training_app.personal.finding import REMARKS, Fate, PersonalDataError, Place, Terms, find, rows

AT_ONCE = 500


def export(terms: Terms, actor: Who) -> bytes:
    """A ZIP file with `found.jsonl`, a row a line, and how many rows each table gave."""
    places = find(terms)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        told: Counter[str] = Counter()
        with archive.open("found.jsonl", "w", force_zip64=True) as file:
            for row in rows(places, terms):
                told[row["place"]] += 1
                file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        archive.writestr("README.json", json.dumps({"looked_for": terms.terms, "rows": told}, indent=2))
    _record("personal_data.exported", terms, places, actor)
    return content.getvalue()


def erase(
    terms: Terms, actor: Who, *, most_queries: int | None = None, tick: Callable[[], None] | None = None
) -> list[Place]:
    """Erase what was found; where they still stand, as `find` says it afterwards.

    Texts that hold them go whole, as they are somebody's; out of remarks and entries they are cut. Each query is a transaction of its
    own, so who breaks it off can run it again. Raises PersonalDataError, and erases nothing, for more than `most_queries` queries.
    """
    places = find(terms)
    keys = [key for place in places if place.fate == Fate.ERASED for key in place.keys]
    if most_queries is not None and len(keys) > most_queries:
        said = _(
            "%(n)d queries are too many for a page, which would wait for minutes. Run: manage.py personal_data erase"
        )
        raise PersonalDataError(said % {"n": len(keys)})
    for key in keys:
        query = Query.objects.select_related("dataset__pool").filter(pk=key).first()
        if query is not None and query.erased_at is None:
            snapshots.erase(query, audit.actor_of(actor).user)
        elif query is not None:  # erased before ids were looked for
            Query.objects.filter(pk=key).update(text="", external_id="", extra={}, messages=None, conversation="")
        if tick:
            tick()
    # What was erased has left many of the other places.
    for place in find(terms):
        with transaction.atomic():
            _erase_place(place, terms)
    _record("personal_data.erased", terms, places, actor)
    return find(terms)


def _erase_place(place: Place, terms: Terms) -> None:
    if place.model is Decision:
        for keys in _chunks(place.keys):
            for pk, detail in list(Decision.objects.filter(pk__in=keys).values_list("pk", "detail")):
                Decision.objects.filter(pk=pk).update(text="", messages=None, detail=terms.taken_out(detail))
            Outcome.objects.filter(decision_id__in=keys).update(comment="")
    elif place.fate == Fate.DELETED and place.model is Episode:
        for keys in _chunks(place.keys):
            Episode.objects.filter(pk__in=keys).delete()
    elif place.model is ImportChunk:
        ImportChunk.objects.filter(upload__in=place.keys).delete()
    elif place.fate == Fate.CUT:
        _cut(place.model, REMARKS[place.label], place.keys, terms)


def _cut(model: "type[models.Model]", names: Sequence[str], keys: Sequence[Any], terms: Terms) -> None:
    for some in _chunks(keys):
        for pk, *values in list(model._base_manager.filter(pk__in=some).values_list("pk", *names)):
            held = {name: value for name, value in zip(names, values, strict=True) if terms.stand_in(value)}
            model._base_manager.filter(pk=pk).update(**{name: terms.taken_out(value) for name, value in held.items()})


def _chunks(keys: Sequence[Any]) -> list[Sequence[Any]]:
    return [keys[start : start + AT_ONCE] for start in range(0, len(keys), AT_ONCE)]


def record_search(terms: Terms, places: Sequence[Place], actor: Who) -> None:
    """Tell the audit trail that somebody looked."""
    _record("personal_data.found", terms, places, actor)


def _record(action: str, terms: Terms, places: Sequence[Place], actor: Who) -> None:
    """Counts alone, and a digest of what was looked for: the trail is no place to keep an address that is being erased."""
    counts = Counter({place.label: 0 for place in places})
    for place in places:
        counts[place.label] += len(place.keys)
    audit.record(action, actor=actor, target=terms.digest, detail={"rows": dict(counts)})
