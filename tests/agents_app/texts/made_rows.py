"""A row of any model of the installed apps, with the rows that it needs, made from the model's fields alone."""

import itertools
import uuid
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import models

_numbers = itertools.count(1)
NOW = datetime(2026, 1, 2, tzinfo=UTC)
#: What a model's constraints ask for and its fields do not say.
ASKED_FOR: dict[str, dict[str, Any]] = {
    "agents_app.Stamp": {"id": 1},
    "training_app.WatchTurn": {"id": 1},
    "datasets_app.Import": {"status": "failed", "format": "jsonl"},
    "datasets_app.Label": {"source": "import"},
    "training_app.Run": {"status": "failed"},
    "training_app.Judgement": {"passed": False},
    "training_app.RouterModel": {"state": "retired"},
    "training_app.Promotion": {"kind": "promotion"},
    "training_app.Alarm": {"resolved_at": NOW},
}
#: Rows of which there is one.
SINGLE = ("agents_app.Stamp", "training_app.WatchTurn")


def row(model: type[models.Model], /, **values: Any) -> models.Model:
    """A new row; `values` are columns that matter, by their names."""
    label = model._meta.label
    if label in SINGLE:
        return model._base_manager.get_or_create(pk=1)[0]
    filled = {**ASKED_FOR.get(label, {}), **values}
    for field in model._meta.concrete_fields:
        if field.name not in filled and field.attname not in filled:
            filled[field.name] = _value(field)
    made = model(**{name: value for name, value in filled.items() if value is not ...})
    models.Model.save(made, force_insert=True)
    return made


def _value(field: "models.Field[Any, Any]") -> Any:
    """A value of a column's type; ... where the model makes one itself."""
    number = next(_numbers)
    filled = (
        (field.has_default() and field.get_default() != "")
        or getattr(field, "auto_now", False)
        or getattr(field, "auto_now_add", False)
    )
    if isinstance(field, models.AutoField) or (filled and not (isinstance(field, models.CharField) and field.unique)):
        return ...
    if isinstance(field, models.ForeignKey):
        return None if field.null and field.related_model is not User else row(field.related_model)  # type: ignore[arg-type]
    if field.null:
        return None
    if field.choices:
        return field.flatchoices[0][0]
    return _of_type(field, number)


def _of_type(field: "models.Field[Any, Any]", number: int) -> Any:
    values: dict[type, Any] = {
        models.JSONField: {},
        models.BinaryField: b"",
        models.UUIDField: uuid.UUID(int=number),
        models.BooleanField: False,
        models.FloatField: 0.5,
        models.DateTimeField: NOW,
        models.DateField: date(2026, 1, 1) + timedelta(days=number),
        models.GenericIPAddressField: "127.0.0.1",
        models.PositiveSmallIntegerField: number % 30_000,
        models.IntegerField: number,
    }
    for kind, value in values.items():
        if isinstance(field, kind):
            return value
    if isinstance(field, (models.CharField, models.TextField)):
        # Two letters are room for 676 codes.
        if field.max_length == 2:
            return chr(65 + number // 26 % 26) + chr(65 + number % 26)
        return f"r{number}"[: field.max_length]
    return None
