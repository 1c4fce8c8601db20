"""What the default cluster does by the clock. `install` runs after every migrate and changes none that is there already."""

from typing import Any

from django.db import connection

from agents_app.background_work import work

FUNCTION = "agents_app.tasks.scheduled"


def install(**_signal: Any) -> None:
    """Add the schedules that are missing; one that an admin has changed stays as it is."""
    from django_q.models import Schedule

    if Schedule._meta.db_table not in connection.introspection.table_names():
        return  # only some applications are migrated yet
    there = set(Schedule.objects.filter(func=FUNCTION).values_list("args", flat=True))
    for name, one in work.every().items():
        arguments = f"('{name}',)"
        if one.every is not None and arguments not in there:
            Schedule.objects.create(
                name=one.title, func=FUNCTION, args=arguments, schedule_type=Schedule.MINUTES, minutes=one.every,
                intended_date_kwarg="due", cluster="default",
            )  # fmt: skip
