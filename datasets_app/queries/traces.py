"""Where a query's text stands beside the query itself, and how it is taken out there: found by its normalised form, everywhere.

A text of MIN characters and more is found inside a longer one, and by its beginning where a copy was cut short. A shorter one, like
"yes", is found only where it is all that stands there.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.apps import apps
from django.db import models
from django.utils.translation import gettext as _

from datasets_app.models import Import, ImportChunk, Query, text_hash
from training_app.engine.data.examples import normalise

MIN = 16
ERASED = "[…]"
LONGEST = 1 << 17  # bytes of the longest text in a file, escapes included
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})")

#: The columns that may hold a copy, by model.
COLUMNS: dict[str, tuple[str, ...]] = {
    "admin.LogEntry": ("object_repr", "change_message"),
    "agents_app.AuditEntry": ("target", "detail"),
    "datasets_app.Query": ("external_id", "extra", "messages"),
    "datasets_app.Label": ("reason", "provenance"),
    "datasets_app.Import": ("error",),
    "datasets_app.ImportProblem": ("reason", "excerpt"),
    "datasets_app.QueueItem": ("note",),
    "datasets_app.Assignment": ("reason",),
    "datasets_app.BulkChange": ("search",),
    "datasets_app.PrelabelJob": ("error",),
    "datasets_app.PrelabelItem": ("error",),
    "datasets_app.Snapshot": ("note",),
    "training_app.Decision": ("text", "detail", "messages"),
    "training_app.Outcome": ("comment",),
    "training_app.Scorecard": ("content",),
    "training_app.Run": ("error",),
    "training_app.RunEvent": ("message",),
    "training_app.Promotion": ("reason",),
    "training_app.Judgement": ("findings", "override"),
    "training_app.Canary": ("reason", "findings", "override"),
    "training_app.LaunchRule": ("last_reason", "problem"),
    "training_app.LiveTally": ("last_error",),
    "training_app.Alarm": ("sentence", "evidence"),
    "training_app.AlarmDelivery": ("body", "log"),
}
#: What people wrote for everybody to read: it is told of, and theirs to change.
TOLD = {
    "agents_app.Pool": ("description", "guidelines"),
    "agents_app.Agent": ("description", "keywords", "unavailable_why"),
    "agents_app.AgentSource": ("taken", "offered"),
    "datasets_app.PromptTemplate": ("text",),
}
#: Where a longer text that holds this one is another query's. In what was said before another query, a short one is too.
WHOLE = {("training_app.Decision", "text"), ("training_app.Decision", "messages"), ("datasets_app.Query", "messages")}


@dataclass(frozen=True, slots=True)
class Trace:
    """In how many rows of a place a text stands. `stays`: people wrote it for everybody, and have to take it out there."""

    place: str
    count: int
    stays: bool = False


class Phrase:
    """A text as it is looked for."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.normal = normalise(text)

    @cached_property
    def _spelt(self) -> re.Pattern[str]:
        return re.compile(r"\s+".join(map(re.escape, self.text.split())), re.IGNORECASE)

    @cached_property
    def cell(self) -> re.Pattern[str]:
        """The normalised text as all of a quoted or unquoted cell."""
        return re.compile(rf"(?:^|[\",;\s]){re.escape(self.normal)}(?:$|[\",;\s])")

    def is_all_of(self, value: str) -> bool:
        """Whether a value is this text but for case and space."""
        return bool(self.normal) and normalise(value) == self.normal

    def stands_in(self, value: str) -> bool:
        """Whether a value holds this text, or its beginning up to where the value was cut."""
        if len(value) < MIN or len(self.normal) < MIN:
            return self.is_all_of(value)
        inside = normalise(value.rstrip("…"))
        at = inside.find(self.normal[:MIN])
        while at >= 0:
            if inside.startswith(self.normal, at) or self.normal.startswith(inside[at:]):
                return True
            at = inside.find(self.normal[:MIN], at + 1)
        return False

    def without(self, value: str) -> str:
        """A value that held this text, without it."""
        left = self._spelt.sub(ERASED, value) if len(self.normal) >= MIN and not self.is_all_of(value) else ""
        return "" if self.stands_in(left) else left

    def clean(self, value: Any, *, whole: bool = False) -> tuple[Any, bool]:
        """A column's value without this text, and whether it held it; JSON is walked to its last text and key's value."""
        if isinstance(value, str):
            held = self.is_all_of(value) if whole else self.stands_in(value)
            return (self.without(value) if held else value), held
        if isinstance(value, dict):
            pairs = {key: self.clean(item, whole=whole and len(self.normal) >= MIN) for key, item in value.items()}
            held = any(found for _item, found in pairs.values())
            return ({key: item for key, (item, _found) in pairs.items()} if held else value), held
        if isinstance(value, list):
            if whole and len(self.normal) < MIN:
                return value, False
            items = [self.clean(item, whole=whole) for item in value]
            held = any(found for _item, found in items)
            return ([item for item, _found in items] if held else value), held
        return value, False


def of(text: str) -> list[Trace]:
    """Where a text stands now: its queries, every copy that would be erased, and what stays for people to change."""
    phrase = Phrase(text)
    found = [Trace(_("queries of this text"), Query.objects.filter(text_hash=text_hash(text), erased_at=None).count())]
    found.append(Trace(_("files of failed imports"), len(_files(phrase))))
    for columns, stays in ((COLUMNS, False), (TOLD, True)):
        for label, names in columns.items():
            model = apps.get_model(label)
            rows = sum(1 for _row in _rows(model, names, phrase))
            place = _("other keys of queries") if model is Query else str(model._meta.verbose_name_plural)
            found.append(Trace(place, rows, stays))
    return [trace for trace in found if trace.count]


def forget(text: str) -> None:
    """Take a text out of every copy. To be called in a transaction."""
    phrase = Phrase(text)
    ImportChunk.objects.filter(upload__in=_files(phrase)).delete()
    for label, names in COLUMNS.items():
        model = apps.get_model(label)
        for key, changes in list(_rows(model, names, phrase)):
            model._base_manager.filter(pk=key).update(**changes)


def _rows(model: type[models.Model], names: tuple[str, ...], phrase: Phrase) -> Iterator[tuple[Any, dict[str, Any]]]:
    """(key, what its columns would hold) of each row that has the text."""
    rows = model._base_manager.order_by("pk").values_list("pk", *names)
    for key, *values in rows.iterator(chunk_size=500):
        changes = {}
        for name, value in zip(names, values, strict=True):
            if name == "body" and value:  # JSON that is kept as text
                changed, held = _in_body(phrase, value)
            else:
                changed, held = phrase.clean(value, whole=(model._meta.label, name) in WHOLE)
            if held:
                changes[name] = changed
        if changes:
            yield key, changes


def _in_body(phrase: Phrase, body: str) -> tuple[str, bool]:
    try:
        changed, held = phrase.clean(json.loads(body))
    except ValueError:
        return phrase.clean(body)
    return (json.dumps(changed, ensure_ascii=False) if held else body), held


def _files(phrase: Phrase) -> list[int]:
    """The imports that ended with their file kept, so that they can go on, and whose file holds the text on some line."""
    ended = Import.objects.exclude(status__in=(Import.Status.QUEUED, Import.Status.RUNNING)).filter(
        chunks__isnull=False
    )
    keys = ended.distinct().order_by("pk").values_list("pk", flat=True)
    return [key for key in keys if _in_file(phrase, key)]


def _in_file(phrase: Phrase, upload: int) -> bool:
    tail = b""
    chunks = ImportChunk.objects.filter(upload=upload).order_by("position").values_list("content", flat=True)
    for chunk in chunks.iterator(chunk_size=1):
        content = tail + bytes(chunk)
        text = content.decode(errors="replace")
        if "\\u" in text:  # in JSON a letter may be written as its escape
            text = _ESCAPE.sub(lambda escape: chr(int(escape[1], 16)), text)
        text = normalise(text.replace('\\"', '"').replace('""', '"').replace("\\n", " ").replace("\\t", " "))
        if phrase.normal in text and (len(phrase.normal) >= MIN or phrase.cell.search(text)):
            return True
        tail = content[-LONGEST:]
    return False
