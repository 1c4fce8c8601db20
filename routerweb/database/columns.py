"""Every column that Django gives a default has the same default in the database.

While an upgrade is rolled out, web processes of the version before go on writing into the new schema. Their INSERTs leave out columns
that they do not know, so the database has to fill these in. `derive` reads a model's fields once its class is prepared, so that nobody
has to write a default twice; `makemigrations` writes what was derived into the migration of a new column.
"""

import enum
from typing import Any

from django.db import models
from django.db.models import Field
from django.db.models.functions import Now
from django.utils import timezone

PACKAGES = ("agents_app", "datasets_app", "training_app", "orchestration_app")


def derive(sender: type[models.Model], **_signal: Any) -> None:
    """Give each column of this model its default in the database. Connected to Django's `class_prepared`."""
    if sender._meta.app_label in PACKAGES and sender.__module__ != "__fake__":  # migrations have models of their own
        for field in sender._meta.local_concrete_fields:
            give_default(field)


def give_default(field: "Field[Any, Any]") -> None:
    """Give a column in the database the default that Django gives it.

    A text that may be blank defaults to "", and a time that Django sets to the present. What only Python can make, such as a random
    id, has none: a column like that can only be added nullable.
    """
    if field.primary_key or field.has_db_default():
        return
    if _is_blank_text(field) and not field.has_default():
        field.default = ""
    if getattr(field, "auto_now", False) or getattr(field, "auto_now_add", False) or field.default is timezone.now:
        field.db_default = Now()
    elif field.default in (list, dict, bytes) or (field.has_default() and not callable(field.default)):
        value = field.get_default()
        field.db_default = value.value if isinstance(value, enum.Enum) else value


def _is_blank_text(field: "Field[Any, Any]") -> bool:
    return isinstance(field, models.CharField | models.TextField) and field.blank and not field.null
