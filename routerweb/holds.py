"""What every column of the database holds, declared on the model beside its fields.

    class Label(models.Model):
        required = models.JSONField()
        note = models.CharField(max_length=500)
        holds = Holds(remark=[note], neither=[required])

Erasure, the search for and the export of personal data, redaction and backup read these declarations and nothing else. A column that
may hold words and has no declaration fails a test. Columns of numbers, dates, ids, relations and fixed choices need none.
"""

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from django.apps import apps
from django.db import models

#: Columns of these types hold no words.
WORDLESS = (
    models.AutoField,
    models.IntegerField,
    models.FloatField,
    models.DecimalField,
    models.BooleanField,
    models.DateField,
    models.TimeField,
    models.DurationField,
    models.UUIDField,
    models.ForeignKey,
)


class Content(enum.Flag):
    """What a column holds; a column may hold several.

    Erasing a query takes its text out of QUERY and REMARK columns, and reports the SHARED and SETTING ones in which it stands.
    Erasing somebody's data takes what they are known by out of QUERY, REMARK and SHARED columns, and reports the SETTING ones.
    Erasing a member replaces their name in PERSON columns.
    """

    NEITHER = 0
    #: The text of a query, or what was said before it.
    QUERY = enum.auto()
    #: Free words that may quote a query or name somebody: notes, reasons, errors, answers, logs.
    REMARK = enum.auto()
    #: The name or address of a member, written by the product.
    PERSON = enum.auto()
    #: What staff write for everybody: guidelines, descriptions, names of pools and agents.
    SHARED = enum.auto()
    #: What staff configure and programs read: addresses, keys in addresses, names of models.
    SETTING = enum.auto()
    #: Passwords, keys and their digests: never exported, even to the person whom they belong to.
    SECRET = enum.auto()


#: Columns in which a text or a name is looked for.
WORDS = Content.QUERY | Content.REMARK | Content.PERSON | Content.SHARED | Content.SETTING


@dataclass(frozen=True, slots=True)
class Packing:
    """How a column keeps JSON in another form, such as signed or compressed. `unpack` gives None for what it cannot read."""

    unpack: Callable[[Any], Any]
    pack: Callable[[Any], Any]


AS_IT_STANDS = Packing(lambda value: value, lambda value: value)


class Holds:
    """What the columns of one model hold. `backup=False` leaves the model's rows out of backups; `days` names the column of a pool's
    privacy that says for how many days its rows are kept, where they are not kept until somebody deletes them."""

    def __init__(
        self,
        *,
        query: Iterable[Any] = (),
        remark: Iterable[Any] = (),
        person: Iterable[Any] = (),
        shared: Iterable[Any] = (),
        setting: Iterable[Any] = (),
        secret: Iterable[Any] = (),
        neither: Iterable[Any] = (),
        backup: bool = True,
        days: str = "",
    ) -> None:
        self.backup, self.days = backup, days
        declared = {
            Content.QUERY: query,
            Content.REMARK: remark,
            Content.PERSON: person,
            Content.SHARED: shared,
            Content.SETTING: setting,
            Content.SECRET: secret,
            Content.NEITHER: neither,
        }
        for content, fields in declared.items():
            for field in fields:
                field.holds = getattr(field, "holds", Content.NEITHER) | content


def declare(
    model: type[models.Model],
    *,
    backup: bool = True,
    packed: Mapping[str, Packing] | None = None,
    **columns: Iterable[str],
) -> None:
    """Declare the columns of a model that another project defines, by their names."""
    for name, packing in (packed or {}).items():
        setattr(model._meta.get_field(name), "packing", packing)  # noqa: B010
    fields: dict[str, Any] = {"backup": backup}
    fields |= {content: [model._meta.get_field(name) for name in names] for content, names in columns.items()}
    setattr(model, "holds", Holds(**fields))  # noqa: B010  (models of others have no such attribute)


def needs_declaration(field: "models.Field[Any, Any]") -> bool:
    """Whether a column may hold words, so that it has to declare what it holds."""
    return not isinstance(field, WORDLESS) and not field.choices


def content(field: "models.Field[Any, Any]") -> Content:
    """What a column was declared to hold; NEITHER where nothing was declared."""
    declared: Content = getattr(field, "holds", Content.NEITHER)
    return declared


def packing(field: "models.Field[Any, Any]") -> Packing:
    """How a column keeps what it holds."""
    declared: Packing = getattr(field, "packing", AS_IT_STANDS)
    return declared


def tables() -> Iterator[type[models.Model]]:
    """Every model that has a table of its own, in the order of INSTALLED_APPS."""
    for model in apps.get_models(include_auto_created=True):
        if not model._meta.proxy and model._meta.managed:
            yield model


def columns(model: type[models.Model], kinds: Content) -> list["models.Field[Any, Any]"]:
    """The columns of a model that hold any of these kinds, in the order of the table."""
    return [field for field in model._meta.concrete_fields if content(field) & kinds]


def in_backup(model: type[models.Model]) -> bool:
    """Whether a backup holds the model's rows."""
    declared = getattr(model, "holds", None)
    return declared is None or bool(declared.backup)


def days(model: type[models.Model]) -> str:
    """The column of a pool's privacy that says for how many days the model's rows are kept; "" where nothing does."""
    declared = getattr(model, "holds", None)
    return "" if declared is None else str(declared.days)
