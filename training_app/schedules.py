"""What the default cluster does by the clock. `install` runs after every migrate and changes none that is there already."""

from typing import Any

from django.db import connection

#: Function -> its name in the queue's list, one of django-q2's schedule types, and how many minutes apart, where that is the type.
SCHEDULES = {
    "training_app.answering.decisions.prune": ("Delete old decisions", "D", None),
    "agents_app.health.check_all": ("Health checks of agents", "I", 1),
    "agents_app.accounts.sessions.prune": ("Forget sessions that have run out", "D", None),
    "agents_app.sources.catalog.look_all": ("Look for changed agent cards and MCP servers", "D", None),
    "agents_app.archive.purge_due": ("Delete for good the pools that were deleted 30 days ago", "D", None),
    "training_app.answering.shadowing.prune": ("Delete old shadow scores", "D", None),
    "training_app.rollout.outcomes.offer_failures": ("Send reported failures to labeling", "I", 1),
    "training_app.rollout.outcomes.offer_unsure": ("Send unsure decisions to labeling", "H", None),
    "training_app.answering.suggesting.suggest_all": ("Suggestions of the active models", "I", 1),
    "training_app.orchestration.episodes.prune": ("Delete old episodes", "D", None),
    "training_app.orchestration.episodes.redact_ended": ("Redact the texts of ended episodes", "I", 1),
    "training_app.watching.drift.look_all": ("Look for drift", "H", None),
    "training_app.versions.keeping.look": ("Prune the artifacts of old models", "D", None),
    "datasets_app.files.imports.forget_unchosen": ("Drop files that nobody went on with", "D", None),
    "training_app.training.rules.evaluate": ("Launch runs by rule", "I", 1),
}


def install(**_signal: Any) -> None:
    """Add the schedules that are missing; one that an admin has changed stays as it is."""
    from django_q.models import Schedule

    if Schedule._meta.db_table not in connection.introspection.table_names():
        return  # only some applications are migrated yet
    there = set(Schedule.objects.filter(func__in=SCHEDULES).values_list("func", flat=True))
    for func, (name, often, minutes) in SCHEDULES.items():
        if func not in there:
            Schedule.objects.create(name=name, func=func, schedule_type=often, minutes=minutes, cluster="default")
