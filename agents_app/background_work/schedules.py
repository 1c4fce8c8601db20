"""What the default cluster does by the clock. After every migrate `install` adds what is missing and drops what is gone."""

from typing import Any

from django.db import connection

from agents_app.background_work import work

FUNCTION = "agents_app.tasks.scheduled"


def install(**_signal: Any) -> None:
    """Add the schedules that are missing, and drop those of work that this version does not know, as after a rename. One that an admin
    has changed stays as it is."""
    from django_q.models import Schedule

    if Schedule._meta.db_table not in connection.introspection.table_names():
        return  # only some applications are migrated yet
    needed = {f"('{name}',)": one for name, one in work.every().items() if one.every is not None}
    own = Schedule.objects.filter(func=FUNCTION)
    own.exclude(args__in=needed).delete()
    there = set(own.values_list("args", flat=True))
    for arguments, one in needed.items():
        if arguments not in there:
            Schedule.objects.create(
                name=one.title, func=FUNCTION, args=arguments, schedule_type=Schedule.MINUTES, minutes=one.every,
                intended_date_kwarg="due", cluster="default",
            )  # fmt: skip
