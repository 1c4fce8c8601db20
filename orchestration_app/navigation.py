"""What this package adds to the shell of the pages."""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Exists, OuterRef
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from agents_app.access import Role
from agents_app.navigation import Entry
from agents_app.views.settings import Section
from orchestration_app.models import Executor


def entries() -> Iterable[Entry]:
    """For the hook `sidebar_entries`."""
    belongs = ("episode",)
    return (
        Entry(
            "episodes",
            gettext_lazy("Episodes"),
            "timeline",
            frozenset({Role.OPS}),
            belongs,
            "orchestrates",
            "decisions",
        ),
    )


def annotations() -> Mapping[str, Any]:
    """For the hook `pool_annotations`: a pool orchestrates where one of its agents is called."""
    return {"orchestrates": Exists(Executor.objects.filter(agent__pool=OuterRef("pk"), active=True))}


def sections() -> Iterable[Section]:
    """For the hook `settings_sections`."""
    return (
        Section("settings_executors", _("Executors"), {Role.OPS}, after="settings_live"),
        Section("settings_backends", _("Backends"), {Role.OPS}, after="settings_executors"),
    )
