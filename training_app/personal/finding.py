"""What is stored of somebody whose words came in as queries, decisions, conversations or episodes, found by what they are known by.

Every column that may hold a text is read, of every table that there is but those below, so that a new one is searched from its first
day. Decisions that wait packed get rows of their own first.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from django.apps import apps
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils.crypto import salted_hmac
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from datasets_app.models import Import, ImportChunk, Label, Query
from training_app.models import Decision, Episode, Outcome, Step, packed

#: No texts of anybody's: what Django and the job queue keep for themselves, sealed secrets, and the rows that others stand for.
LEFT_OUT = frozenset(
    {
        "auth.Permission", "auth.Group", "contenttypes.ContentType", "sessions.Session", "account.EmailConfirmation",
        "socialaccount.SocialApp", "socialaccount.SocialToken", "mfa.Authenticator", "usersessions.UserSession", "django_q.Task",
        "django_q.Success", "django_q.Failure", "django_q.Schedule", "django_q.OrmQ",
    }
)  # fmt: skip
#: What people, or the product of itself, wrote beside texts: what is looked for is taken out of it, and the rest stays.
REMARKS: dict[str, tuple[str, ...]] = {
    "admin.LogEntry": ("object_repr", "change_message"),
    "agents_app.AuditEntry": ("target", "detail"),
    "datasets_app.Assignment": ("reason",),
    "datasets_app.BulkChange": ("search",),
    "datasets_app.Draft": ("note",),
    "datasets_app.Import": ("error", "file_name"),
    "datasets_app.ImportProblem": ("reason", "excerpt"),
    "datasets_app.Label": ("reason", "note", "provenance"),
    "datasets_app.PrelabelItem": ("error",),
    "datasets_app.PrelabelJob": ("error",),
    "datasets_app.Query": ("origin",),
    "datasets_app.QueueItem": ("note",),
    "datasets_app.Snapshot": ("note",),
    "training_app.Alarm": ("sentence", "evidence"),
    "training_app.AlarmDelivery": ("body", "log"),
    "training_app.Canary": ("reason", "findings", "override"),
    "training_app.DriftPoint": ("words",),
    "training_app.Judgement": ("findings", "override"),
    "training_app.KeptAnswer": ("body",),
    "training_app.LaunchRule": ("last_reason", "problem"),
    "training_app.LiveTally": ("last_error",),
    "training_app.Outcome": ("comment",),
    "training_app.Promotion": ("reason",),
    "training_app.PromotionRequest": ("reason", "override", "note"),
    "training_app.Run": ("error",),
    "training_app.RunEvent": ("message",),
    "training_app.Scorecard": ("content",),
}
CUT = "[…]"
MIN, MAX, MOST = 3, 200, 20


class PersonalDataError(ValueError):
    """What cannot be looked for, or erased; the message says why."""


class Fate(StrEnum):
    """What erasing does to a row in which somebody was found."""

    ERASED = "erased"
    BLANKED = "blanked"
    DELETED = "deleted"
    CUT = "cut"
    STAYS = "stays"


FATES = {
    Fate.ERASED: gettext_lazy("the text is erased everywhere; labels and counts stay"),
    Fate.BLANKED: gettext_lazy("the text goes; what was answered stays"),
    Fate.DELETED: gettext_lazy("deleted"),
    Fate.CUT: gettext_lazy("what you looked for is taken out"),
    Fate.STAYS: gettext_lazy("stays: change it there by hand"),
}


class Terms:
    """What somebody is known by: an address, a customer number, a name, each in any case and spacing, and whole."""

    def __init__(self, terms: Sequence[str]) -> None:
        """Raises PersonalDataError for none, too many, too short or too long a one."""
        self.terms = tuple(dict.fromkeys(unicodedata.normalize("NFKC", term).strip() for term in terms if term.strip()))
        if not self.terms:
            raise PersonalDataError(_("Say what to look for: an address, a customer number, a name."))
        if len(self.terms) > MOST:
            raise PersonalDataError(_("Look for at most %(n)d at once.") % {"n": MOST})
        for term in self.terms:
            if not MIN <= len(term) <= MAX:
                said = _("“%(term)s” cannot be looked for: expected %(least)d to %(most)d characters.")
                raise PersonalDataError(said % {"term": term[:40], "least": MIN, "most": MAX})

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(map(_whole, self.terms)), re.IGNORECASE)

    @property
    def digest(self) -> str:
        """What tells two searches apart in the audit trail, and nobody what was looked for."""
        return salted_hmac("personal data", "\n".join(sorted(term.casefold() for term in self.terms))).hexdigest()[:16]

    def stand_in(self, value: Any) -> bool:
        """Whether any of them stands in a text, a number, or anywhere in JSON."""
        if isinstance(value, str):
            if self.pattern.search(value):
                return True
            return not value.isascii() and bool(self.pattern.search(unicodedata.normalize("NFKC", value)))
        if isinstance(value, dict):
            return any(self.stand_in(part) for pair in value.items() for part in pair)
        if isinstance(value, (list, tuple)):
            return any(map(self.stand_in, value))
        return isinstance(value, (int, float)) and not isinstance(value, bool) and str(value) in self.terms

    def taken_out(self, value: Any) -> Any:
        """A value in which they stood, without them."""
        if isinstance(value, str):
            left = self.pattern.sub(CUT, value)
            if self.stand_in(left):
                left = self.pattern.sub(CUT, unicodedata.normalize("NFKC", left))
            return left
        if isinstance(value, dict):
            return {self.taken_out(key): self.taken_out(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self.taken_out(part) for part in value]
        return CUT if self.stand_in(value) else value


def _whole(term: str) -> str:
    """The term between borders: "ana@x.org" is not found in "diana@x.org", nor "K-12" in "K-123"."""
    before = r"(?<![\w.+-])" if "@" in term else r"(?<!\w)" if re.match(r"\w", term) else ""
    after = r"(?![\w-]|\.\w)" if "@" in term else r"(?!\w)" if re.search(r"\w\Z", term) else ""
    return before + r"\s+".join(map(re.escape, term.split())) + after


@dataclass(frozen=True, slots=True)
class Place:
    """The rows of one table in which somebody was found, and what erasing does to them."""

    label: str
    keys: tuple[Any, ...]
    fate: Fate

    @property
    def model(self) -> "type[models.Model]":
        return apps.get_model(self.label)

    @property
    def erasable(self) -> bool:
        return self.fate != Fate.STAYS

    @property
    def title(self) -> str:
        return _("accounts") if self.label == "auth.User" else str(self.model._meta.verbose_name_plural)

    @property
    def what_happens(self) -> str:
        if self.label == "auth.User":
            return _("stays: erase the person under People")
        if self.fate == Fate.STAYS and self.label in ("agents_app.AuditEntry", "training_app.PromotionRequest"):
            return _("stays: it is the name of who did it; erase the member under People")
        if self.label == "training_app.Episode" and self.fate == Fate.STAYS:
            return _("stays: under way; cancel them, or wait until they end")
        return str(FATES[self.fate])


def find(terms: Terms) -> list[Place]:
    """Every place where somebody stands, in the order of `Fate`."""
    packed.unpack_all()
    found: dict[tuple[str, Fate], dict[Any, None]] = {}

    def add(label: str, fate: Fate, *keys: Any) -> None:
        found.setdefault((label, fate), {}).update(dict.fromkeys(keys))

    for model in apps.get_models(include_auto_created=True):
        label, names = model._meta.label, columns(model)
        if not names or label in LEFT_OUT or model is Episode or model is Step:
            continue
        for key, held in _holding(model, names, terms):
            if model is Query and held != {"origin"}:
                add(label, Fate.ERASED, key)
            elif model is Decision:
                add(label, Fate.BLANKED, key)
            else:
                remarks = held & set(REMARKS.get(label, ()))
                if remarks:
                    add(label, Fate.CUT, key)
                if held - remarks:
                    add(label, Fate.STAYS, key)
    for key in _episodes(terms):
        under_way = Episode.objects.filter(pk=key, status__in=("queued", "running")).exists()
        add(Episode._meta.label, Fate.STAYS if under_way else Fate.DELETED, key)
    if files := _files(terms):
        add(ImportChunk._meta.label, Fate.DELETED, *files)
    places = [Place(label, tuple(keys), fate) for (label, fate), keys in found.items()]
    return sorted(places, key=lambda place: (list(Fate).index(place.fate), place.label))


def columns(model: "type[models.Model]") -> list[str]:
    """The columns of a table that may hold a text."""
    kinds = (models.TextField, models.CharField, models.JSONField)
    return [field.name for field in model._meta.concrete_fields if isinstance(field, kinds) and not field.choices]


def _holding(model: "type[models.Model]", names: Sequence[str], terms: Terms) -> Iterator[tuple[Any, set[str]]]:
    """(key, columns in which they stand) of each row that holds them."""
    rows = model._base_manager.order_by("pk").values_list("pk", *names)
    for key, *values in rows.iterator(chunk_size=1_000):
        if held := {name for name, value in zip(names, values, strict=True) if terms.stand_in(value)}:
            yield key, held


def _episodes(terms: Terms) -> list[Any]:
    """The episodes that hold them, in themselves or in one of their steps."""
    own = [key for key, _held in _holding(Episode, columns(Episode), terms)]
    rows = Step.objects.order_by("pk").values_list("episode", *columns(Step))
    steps = [key for key, *values in rows.iterator(chunk_size=1_000) if any(map(terms.stand_in, values))]
    return list(dict.fromkeys([*own, *steps]))


def _files(terms: Terms) -> list[int]:
    """The imports that ended with their file kept, so that they can go on, and whose file holds them."""
    ended = Import.objects.exclude(status__in=(Import.Status.QUEUED, Import.Status.RUNNING)).filter(
        chunks__isnull=False
    )
    found = []
    for key in ended.distinct().order_by("pk").values_list("pk", flat=True):
        tail = ""
        chunks = ImportChunk.objects.filter(upload=key).order_by("position").values_list("content", flat=True)
        for chunk in chunks.iterator(chunk_size=1):
            text = tail + bytes(chunk).decode(errors="replace")
            text = re.sub(r"\\u([0-9a-fA-F]{4})", lambda escape: chr(int(escape[1], 16)), text)
            if terms.stand_in(text):
                found.append(key)
                break
            tail = text[-4 * MAX :]
    return found


#: What is told of a text that is somebody's beside the text itself, by table.
_BESIDE = {Query._meta.label: (Label, "query"), Episode._meta.label: (Step, "episode")}


def rows(places: Sequence[Place], terms: Terms) -> Iterator[dict[str, Any]]:
    """Each row in which somebody was found, as JSON can hold it: whole where the text is theirs, else the columns that hold them."""
    for place in places:
        if place.model is ImportChunk:
            yield from (_told(ImportChunk, key, {"upload": key}) for key in place.keys)
            continue
        whole = place.fate in (Fate.ERASED, Fate.BLANKED, Fate.DELETED) or place.model is Episode
        for start in range(0, len(place.keys), 500):
            keys = place.keys[start : start + 500]
            for row in place.model._base_manager.filter(pk__in=keys).order_by("pk").values():
                told = row if whole else {name: value for name, value in row.items() if terms.stand_in(value)}
                yield _told(place.model, row[place.model._meta.pk.attname], told)
            if place.label in _BESIDE:
                model, column = _BESIDE[place.label]
                for row in model._base_manager.filter(**{f"{column}__in": keys}).order_by("pk").values():
                    row.pop("author_id", None)  # whose label it is, is the labeler's own
                    yield _told(model, row["id"], row)
            if place.model is Decision:
                for outcome in Outcome.objects.filter(decision_id__in=keys).values():
                    yield _told(Outcome, outcome["id"], dict(outcome))


def _told(model: "type[models.Model]", key: Any, values: dict[str, Any]) -> dict[str, Any]:
    return {"place": model._meta.label, "id": str(key), "row": json.loads(json.dumps(values, cls=DjangoJSONEncoder))}
