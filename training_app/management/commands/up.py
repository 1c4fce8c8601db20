"""`manage.py up`: the web server and the job clusters as children of one process, until Ctrl-C."""

import json
import shlex
import sys
import threading
import time
import urllib.request
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from honcho.manager import Manager
from honcho.printer import Printer

from training_app.installation import demo_card

MANAGE = Path(settings.BASE_DIR) / "manage.py"
PARTS = ("web", "worker")


def commands() -> dict[str, str]:
    """The shell command of each child, by the name that its lines are printed under."""
    python = shlex.quote(sys.executable)
    manage = f"{python} {shlex.quote(str(MANAGE))}"
    return {
        "web": f"exec {python} -m routerweb.server",
        "jobs": f"exec {manage} qcluster",
        # By the environment: where processes fork, `qcluster --name train` still listens to the default queue.
        "train": f"Q_CLUSTER_NAME=train exec {manage} qcluster",
    }


class Command(BaseCommand):
    help = "Start the web server and the job clusters, and stop them all with Ctrl-C. Example: python manage.py up, or manage.py up web"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("parts", nargs="*", metavar="part", help="web, worker; both when none is named")

    def handle(self, *args: Any, **options: Any) -> None:
        parts = options["parts"] or PARTS
        unknown = set(parts) - set(PARTS)
        if unknown:
            self.stderr.write(f"Unknown part {', '.join(sorted(unknown))}: choose from {', '.join(PARTS)}.")
            sys.exit(1)
        names = [name for name in commands() if ("web" if name == "web" else "worker") in parts]
        manager = Manager(Printer(sys.stdout, colour=sys.stdout.isatty()))
        for name in names:
            manager.add_process(name, commands()[name], cwd=str(settings.BASE_DIR))
        if "web" in names:
            threading.Thread(target=self._welcome, daemon=True).start()
        manager.loop()
        interrupted = manager.returncode in (130, 143)
        sys.exit(0 if interrupted else manager.returncode)

    def _welcome(self) -> None:
        """Once the web server answers, say where it is and how to call it."""
        address = f"http://127.0.0.1:{settings.PORT}"
        for _ in range(240):
            try:
                with urllib.request.urlopen(f"{address}/api/health/", timeout=2) as answer:
                    json.load(answer)
                break
            except (OSError, ValueError):
                time.sleep(0.25)
        else:
            self.stderr.write(f"The web server did not answer at {address} within a minute; its lines above say why.")
            return
        self.stdout.write(demo_card(address) or f"\n  Routerweb is running at {address}\n")
        self.stdout.flush()
