"""What is stored of somebody whose words came in: found by what they are known by, exported, and erased.

One function each for the page and for `manage.py personal_data`. Every column is looked through that declares to hold words
(`routerweb.holds`), of every table; what erasing does follows from the declaration, or from the rule of the package that owns the
rows (the hook `row_rules`).
"""

import io
import json
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents_app import audit
from agents_app.audit import Who
from agents_app.models import Stamp
from agents_app.texts import columns
from agents_app.texts.matching import PersonalDataError, Terms
from routerweb import holds, hooks
from routerweb.erasing import Erasing, Fate, RowRule, empty_log
from routerweb.holds import Content

WHOLE_ROWS = (Fate.ERASED, Fate.BLANKED, Fate.DELETED)
#: Columns out of which words are cut.
IS_CUT = Content.QUERY | Content.REMARK | Content.SHARED
FATES: dict[Fate, str | Promise] = {
    Fate.ERASED: gettext_lazy("the text is erased everywhere; labels and counts stay"),
    Fate.BLANKED: gettext_lazy("the text is erased; the answer stays"),
    Fate.DELETED: gettext_lazy("deleted"),
    Fate.CUT: gettext_lazy("the match is replaced"),
    Fate.STAYS: gettext_lazy("stays: change it there by hand"),
}


@dataclass(frozen=True, slots=True)
class Place:
    """The rows of one table in which somebody was found, and what erasing does to them."""

    model: type[models.Model]
    keys: tuple[Any, ...]
    fate: Fate
    because: str | Promise = ""
    link: Callable[[Any], tuple[str, str]] | None = None

    @property
    def label(self) -> str:
        """The table's name in exports and in the audit trail: "datasets_app.Query"."""
        return self.model._meta.label

    @property
    def erasable(self) -> bool:
        """Whether erasing changes these rows."""
        return self.fate != Fate.STAYS

    @property
    def title(self) -> str:
        """The table's name for people."""
        return _("accounts") if self.model is User else str(self.model._meta.verbose_name_plural)

    @property
    def what_happens(self) -> str:
        """What erasing does to these rows, or why it leaves them."""
        return str(self.because or FATES[self.fate])


# ---------------------------------------------------------------------------------------------------- finding


def find(terms: Terms) -> list[Place]:
    """Every place in which somebody stands, in the order of `Fate`."""
    return _Search(terms).places()


def rules() -> dict[type[models.Model], RowRule]:
    """The rules of all packages, by model."""
    return {rule.model: rule for of_app in hooks.row_rules() for rule in of_app}


class _NoMember:
    """What is looked for, where it is not the name or address of an account."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        accounts = columns.holding(User, holds.columns(User, Content.PERSON), terms)
        names = User.objects.filter(pk__in=[key for key, _held in accounts]).values_list("username", "email")
        self._names = {name.casefold() for pair in names for name in pair if name}

    def found_in(self, value: Any) -> bool:
        text = json.dumps(value, ensure_ascii=False, default=str).casefold()
        return not any(name in text for name in self._names) and self._terms.found_in(value)

    def taken_out(self, value: Any) -> Any:
        return self._terms.taken_out(value)


class _Search:
    """One look through all tables."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.rules = rules()
        self._no_member = _NoMember(terms)
        self._found: dict[tuple[type[models.Model], Fate, str | Promise], dict[Any, None]] = {}

    def places(self) -> list[Place]:
        covered = {model for rule in self.rules.values() for model, _reference in rule.covers}
        for model in holds.tables():
            if model not in covered:
                self._look_through(model)
        for rule in self.rules.values():
            self._apply(rule)
        links = {model: rule.link for model, rule in self.rules.items()}
        matches = [
            Place(model, tuple(keys), fate, why, links.get(model)) for (model, fate, why), keys in self._found.items()
        ]
        return sorted(matches, key=lambda place: (list(Fate).index(place.fate), place.label))

    def _add(self, model: type[models.Model], fate: Fate, keys: Sequence[Any], why: str | Promise = "") -> None:
        if keys:
            self._found.setdefault((model, fate, why), {}).update(dict.fromkeys(keys))

    def _look_through(self, model: type[models.Model]) -> None:
        rule = self.rules.get(model)
        if rule is not None and rule.holding is not None:
            return
        whole_rows: list[Any] = []
        for key, held in columns.holding(model, holds.columns(model, holds.WORDS), self.terms):
            for column, value in held.items():
                content = holds.content(column)
                if rule is not None and not content & Content.PERSON:
                    whole_rows.append(key)
                else:
                    self._add(model, *self._fate_of(model, content, value, key))
        if rule is not None:
            self._by_rule(rule, whole_rows)

    def _fate_of(
        self, model: type[models.Model], content: Content, value: Any, key: Any
    ) -> tuple[Fate, list[Any], str | Promise]:
        if content & IS_CUT:
            return Fate.CUT, [key], ""
        if not content & Content.PERSON:
            return Fate.STAYS, [key], ""
        if belongs_to_an_account(model):
            return Fate.STAYS, [key], gettext_lazy("stays: erase the person under People")
        if self._no_member.found_in(value):
            return Fate.CUT, [key], ""
        return Fate.STAYS, [key], gettext_lazy("stays: it is a member's name; erase the member under People")

    def _apply(self, rule: RowRule) -> None:
        """Add the rows that a rule finds by itself, and those whose covered rows hold somebody."""
        keys = list(rule.holding(self.terms)) if rule.holding else []
        for model, reference in rule.covers:
            words = holds.columns(model, holds.WORDS)
            held = [key for key, _held in columns.holding(model, words, self.terms)]
            for some in columns.chunks(held):
                keys += model._base_manager.filter(pk__in=some).values_list(reference, flat=True)
        self._by_rule(rule, keys)

    def _by_rule(self, rule: RowRule, keys: Sequence[Any]) -> None:
        waiting = set(rule.waits(keys)) if keys else set()
        self._add(rule.model, rule.fate, [key for key in keys if key not in waiting])
        self._add(rule.model, Fate.STAYS, [key for key in keys if key in waiting], rule.wait)


def belongs_to_an_account(model: type[models.Model]) -> bool:
    """Whether the rows of a model are part of an account: the account itself, or rows that cannot be without one."""
    return model is User or any(
        field.related_model is User and not field.null and field.name == "user"
        for field in model._meta.concrete_fields
        if isinstance(field, models.ForeignKey)
    )


# ---------------------------------------------------------------------------------------------------- exporting


def export(terms: Terms, actor: Who) -> bytes:
    """A ZIP file with `found.jsonl`, a row a line, and how many rows each table gave."""
    places = find(terms)
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        count: Counter[str] = Counter()
        with archive.open("found.jsonl", "w", force_zip64=True) as file:
            for row in rows(places, terms):
                count[row["place"]] += 1
                file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
        archive.writestr("README.json", json.dumps({"looked_for": terms.terms, "rows": count}, indent=2))
    _record("personal_data.exported", terms, places, actor)
    return content.getvalue()


def rows(places: Sequence[Place], terms: Terms) -> Iterator[dict[str, Any]]:
    """Each row in which somebody was found, as JSON can hold it, without secrets and packed bytes: whole where a rule says that the
    text is theirs, with the rows beside it; else the columns in which they stand."""
    by_model = rules()
    for place in places:
        rule = by_model.get(place.model)
        whole = rule is not None and (place.fate in WHOLE_ROWS or bool(rule.beside))
        for keys in columns.chunks(place.keys):
            if rule is not None and rule.inside is not None:
                yield from (_exported(place.model, key, row) for key, row in rule.inside(keys, terms))
                continue
            for key, row in _stored(place.model, "pk", keys):
                shown = row if whole else {name: value for name, value in row.items() if terms.found_in(value)}
                yield _exported(place.model, key, shown)
            for model, reference in rule.beside if rule is not None else ():
                for key, row in _stored(model, reference, keys):
                    yield _exported(model, key, row)


def _stored(model: type[models.Model], reference: str, keys: Sequence[Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    shown = [
        field.attname
        for field in model._meta.concrete_fields
        if not holds.content(field) & Content.SECRET
        and not isinstance(field, models.BinaryField)
        # Whose work it is, is a member's own.
        and field.related_model is not User
    ]
    for row in model._base_manager.filter(**{f"{reference}__in": keys}).order_by("pk").values(*shown):
        yield row[model._meta.pk.attname], row


def _exported(model: type[models.Model], key: Any, values: dict[str, Any]) -> dict[str, Any]:
    stored = json.loads(json.dumps(values, cls=DjangoJSONEncoder))
    return {"place": model._meta.label, "id": str(key), "row": stored}


# ---------------------------------------------------------------------------------------------------- erasing


def queries_in(places: Sequence[Place]) -> int:
    """How many queries erasing would erase."""
    return sum(len(place.keys) for place in places if place.fate == Fate.ERASED)


def erase(
    terms: Terms, actor: Who, *, most_queries: int | None = None, tick: Callable[[], None] = lambda: None
) -> list[Place]:
    """Erase what was found; where somebody still stands, as `find` says it afterwards.

    Rows that are somebody's go whole; out of all else the words are cut. Nothing is looked for in a transaction that writes, and those
    are small: others can write meanwhile, and whoever breaks it off can run it again. Raises PersonalDataError, and erases nothing,
    for more than `most_queries` queries.
    """
    places = find(terms)
    queries = queries_in(places)
    if most_queries is not None and queries > most_queries:
        raise PersonalDataError(
            _("%(n)d queries are too many to erase at once. Search for fewer terms.") % {"n": queries}
        )
    erasing, by_model = Erasing(terms, actor, tick), rules()
    for place in places:
        if place.fate == Fate.ERASED:
            by_model[place.model].erase(place.keys, erasing)
    # With queries it has gone from many of the other places.
    for place in find(terms) if queries else places:
        _erase_place(place, terms, erasing, by_model.get(place.model))
    Stamp.bump()
    left = find(terms)
    _record("personal_data.erased", terms, places, actor)
    empty_log()
    return left


def _erase_place(place: Place, terms: Terms, erasing: Erasing, rule: RowRule | None) -> None:
    if rule is not None and place.fate == rule.fate:
        rule.erase(place.keys, erasing)
    elif place.fate == Fate.CUT:
        words = holds.columns(place.model, IS_CUT)
        columns.take_out_of(place.model, place.keys, words, terms)
        if not belongs_to_an_account(place.model):
            names = [column for column in holds.columns(place.model, Content.PERSON) if column not in words]
            columns.take_out_of(place.model, place.keys, names, _NoMember(terms))


def record_search(terms: Terms, places: Sequence[Place], actor: Who) -> None:
    """Record in the audit trail that somebody looked."""
    _record("personal_data.found", terms, places, actor)


def _record(action: str, terms: Terms, places: Sequence[Place], actor: Who) -> None:
    """Counts alone, and a digest of what was looked for: the trail is no place to keep an address that is being erased."""
    counts = Counter({place.label: 0 for place in places})
    for place in places:
        counts[place.label] += len(place.keys)
    audit.record(action, actor=actor, target=terms.digest, detail={"rows": dict(counts)})
