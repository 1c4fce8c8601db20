"""Datasets, queries, labels, gold, splits, imports and snapshots in the admin. What is history is read-only; what may be done
stands in actions that call the same functions as the pages."""

from datasets_app.admin import files, queries

__all__ = ("files", "queries")
