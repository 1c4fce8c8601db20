"""`manage.py run_episodes`: the process that runs episodes, in the foreground, as `manage.py up` starts it."""

import signal
import threading
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand

from routerweb import lifeline
from routerweb.serving import memory


class Command(BaseCommand):
    help = (
        "Run queued episodes, EPISODES_AT_ONCE at a time, until Ctrl-C or SIGTERM. What is under way then goes back into the queue. "
        "Any number of such processes may run. Example: python manage.py run_episodes"
    )

    def handle(self, *args: Any, **options: Any) -> None:
        # When the process that started it is gone it ends in order.
        lifeline.end_with_starter(signal.SIGTERM)
        memory.few_arenas()
        from agents_app.background_work import jobs, reaper
        from agents_app.clusters import signs
        from orchestration_app.episodes import runner
        from training_app.answering import serving
        from training_app.watching import watch

        signs.need_slot()
        asked_to_end = threading.Event()

        def stop(_number: int, _frame: FrameType | None) -> None:
            asked_to_end.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop)
        serving.warm()
        # What was killed in this slot cannot be running any more.
        jobs.end_of_slot(jobs.SLOT)
        running = runner.Runner()
        running.begin()
        reaper.start_once()
        watch.start_once(runner.PART)
        asked_to_end.wait()
        running.end()
        signs.ended()
