"""Conditions that the database keeps."""

from typing import Any

from django.db.models import CheckConstraint, Q


def check(name: str, condition: Q | None = None, **lookups: Any) -> CheckConstraint:
    """The constraint of that name: every row of the model fulfils the condition, or the lookups."""
    return CheckConstraint(condition=Q(**lookups) if condition is None else condition, name=name)
