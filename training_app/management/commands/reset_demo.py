"""`manage.py reset_demo`: what visitors of the public demo have done is gone."""

import sqlite3
import time
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import close_old_connections

from agents_app import public_demo
from training_app.installation import demo_pools, read_demo
from training_app.models import Run

HOUR_SECONDS = 3_600
#: Between two looks at whether the demo's models are trained.
LOOK_SECONDS = 5


class Command(BaseCommand):
    help = (
        "Set the public demo (DEMO=1) back to what it was when its models were trained. With --hourly: wait until they are, then do "
        "so at each full hour; `up` starts that. Example: python manage.py reset_demo"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--hourly", action="store_true", help="go on, and set it back at each full hour")

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.DEMO:
            raise CommandError("This is no public demo: set DEMO=1.")
        if not options["hourly"]:
            if not public_demo.copy_path().is_file():
                raise CommandError("There is nothing to set it back to yet: its models are not trained.")
            self._set_back()
            return
        while not public_demo.copy_path().is_file():
            if ready():
                public_demo.make_visitor()
                public_demo.keep_copy()
            else:
                close_old_connections()
                time.sleep(LOOK_SECONDS)
        while True:
            time.sleep(HOUR_SECONDS - time.time() % HOUR_SECONDS)
            self._set_back()

    def _set_back(self) -> None:
        try:
            public_demo.set_back()
        except sqlite3.Error as error:
            raise CommandError(f"The database was not set back: {error}") from None
        self.stdout.write("The demo is as it was.")


def ready() -> bool:
    """Whether every pool of the demo has its full model, and no run is left to wait for."""
    runs = Run.objects.filter(status=Run.Status.DONE)
    full = [
        any(run.config.get("recipe") != "classifier" for run in runs.filter(pool__slug=pool.slug))
        for pool in demo_pools()
    ]
    waiting = Run.objects.filter(status__in=(Run.Status.QUEUED, Run.Status.RUNNING))
    return read_demo() is not None and all(full) and not waiting.exists()
