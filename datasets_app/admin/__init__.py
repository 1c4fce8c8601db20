"""Datasets, queries, labels, gold, splits, imports and snapshots in the admin. What is history is read-only; what may be done
stands in actions that call the same functions as the pages."""

from agents_app import navigation
from datasets_app.admin import files, queries
from datasets_app.pages import finding

__all__ = ("files", "queries")

# The command search is the admin site's: it is loaded with it, and by no process that only routes.
if finding.find not in navigation.FINDS:
    navigation.FINDS.append(finding.find)
