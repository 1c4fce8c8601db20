"""`manage.py up`: the processes of an installation as children of one process, until Ctrl-C."""

import http.client
import json
import os
import signal
import sys
import time
import traceback
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import OperationalError, connection, connections
from django.db.migrations.executor import MigrationExecutor

from agents_app.accounts import setup
from agents_app.background_work import processes
from agents_app.models import Stamp
from routerweb import command_line, health, installation, keeper, lifeline, paths
from routerweb.serving import listening
from training_app.installation import demo_card, read_demo

WEB = keeper.WEB


def parts() -> dict[str, tuple[str, ...]]:
    """What each part starts; `worker` is all but the web server."""
    workers = {"jobs": "job cluster", "training": "training cluster"}
    workers |= {process.part: process.name for process in processes.added()}
    if settings.DEMO:
        workers["reset"] = "demo's reset"
    return {"web": (WEB,), **{part: (name,) for part, name in workers.items()}, "worker": tuple(workers.values())}


def commands(wanted: Sequence[str]) -> dict[str, tuple[list[str], dict[str, str]]]:
    """The arguments of each child of these parts and what its environment has beyond this one's, by a name for messages."""
    children: dict[str, tuple[list[str], dict[str, str]]] = {
        WEB: (paths.module("routerweb.serving.server"), {}),
        "job cluster": (paths.manage("run_cluster"), {}),
        # By the environment: django-q2 reads it before a command's arguments.
        "training cluster": (paths.manage("run_cluster"), {"Q_CLUSTER_NAME": "train"}),
        **{process.name: (paths.manage(*process.command), {}) for process in processes.added()},
        "demo's reset": (paths.manage("reset_demo", "--hourly"), {}),
    }
    names = {name for part in wanted for name in parts()[part]}
    return {name: child for name, child in children.items() if name in names}


class Command(BaseCommand):
    help = (
        "Start every process of an installation, or the named parts alone, and stop them all with Ctrl-C. "
        "Example: python manage.py up, or python manage.py up web"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "parts",
            nargs="*",
            metavar="part",
            help=f"{', '.join(parts())} (worker is all but web); all when none is named",
        )
        parser.add_argument(
            "--migrate",
            action="store_true",
            help="migrate the database meanwhile; web servers listen once that is done",
        )
        parser.add_argument(
            "--demo", action="store_true", help="set up the demo pools meanwhile, as `demo --queue` does"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        wanted = options["parts"] or list(parts())
        unknown = set(wanted) - set(parts())
        if unknown:
            raise CommandError(f"Unknown part {', '.join(sorted(unknown))}: choose from {', '.join(parts())}.")
        if not options["migrate"] and (lacking := _what_the_database_lacks()):
            raise CommandError(f"{lacking}: python manage.py migrate")
        if "web" in wanted:
            self._warn_of_another()
        # What comes now waits for the program that this process becomes.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        demo = options["demo"] or (settings.DEMO and "reset" in wanted)
        setting_up = self._set_up(migrate=options["migrate"], demo=demo) if options["migrate"] or demo else None
        plan = {
            "children": [(name, arguments, more) for name, (arguments, more) in commands(wanted).items()],
            "setup": setting_up and (setting_up, str(_log()) if demo else None),
            "welcome": self._welcomed(setting_up if demo else None) if "web" in wanted else None,
        }
        if paths.WORKING_DIR:
            os.chdir(paths.WORKING_DIR)
        keeping = [sys.executable, "-I", "-S", str(keeper.__file__), json.dumps(plan)]
        os.execv(sys.executable, keeping)  # noqa: S606 - our own program

    def _warn_of_another(self) -> None:
        """Web servers share a port, so that one can follow another without a gap; two for good are a mistake."""
        try:
            listening.check_address(alone=True)
        except OSError:
            where = f"{listening.LISTEN_HOST}:{listening.PORT}"
            self.stderr.write(
                f"Something listens at {where} already. If it is another Routerweb that goes on, requests go to either of the two: "
                "stop one, or set PORT to a free one."
            )

    def _set_up(self, *, migrate: bool, demo: bool) -> int:
        """A process that migrates the database, then sets up the demo, whose words go to a file unless it fails; its id."""
        lock = installation.start_migration(Path(settings.DATA_DIR)) if migrate else None

        def work() -> int:
            os.setsid()  # Ctrl-C reaches the keeper alone, which asks this one to end
            if lock is not None:
                if _run("migrate", "--verbosity", "0"):
                    return keeper.NOT_MIGRATED
                os.close(lock)
            if demo:
                with _log().open("wb") as log:
                    os.dup2(log.fileno(), 1)
                    os.dup2(log.fileno(), 2)
                return _run("demo", "--queue")
            return 0

        pid = self._forked(work)
        if lock is not None:
            os.close(lock)
        return pid

    def _welcomed(self, demo: int | None) -> int:
        """A process that says where the server is once it answers; its id."""
        return self._forked(lambda: keeper.SAYS_TRAINING if self._welcome(demo) else 0)

    def _forked(self, work: Callable[[], int]) -> int:
        """A process that does this work with what is loaded here, and ends with the status that it returns; its id."""
        self.stdout.flush()
        connections.close_all()
        parent = os.getpid()
        if pid := os.fork():
            return pid
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
        lifeline.end_with(parent)
        status = 1
        try:
            status = work()
        except Exception:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(status)

    def _welcome(self, demo: int | None) -> bool:
        """Once the web server answers, say where it is and how to call it; whether the demo's first router is being trained then."""
        address = f"http://127.0.0.1:{settings.PORT}"
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                health.ask(settings.PORT, settings.ALLOWED_HOSTS)
            except (OSError, ValueError, http.client.HTTPException):
                time.sleep(0.25)
            else:
                while demo and _runs(demo) and read_demo() is None:
                    time.sleep(0.1)
                training = demo is not None and _runs(demo)
                self.stdout.write(demo_card(address, training=training) or self._card())
                self.stdout.flush()
                return training
        self.stderr.write(f"The web server did not answer at {address} within a minute; its lines above say why.")
        return False

    def _card(self) -> str:
        """Where an installation without the demo is, and while it is new the link that makes its first account. By its public address:
        behind a TLS proxy it answers no page by another."""
        if setup.is_new():
            return f"\n  Routerweb is running. Set it up, within a day, at\n\n  {settings.SITE_URL}{setup.link()}\n"
        return f"\n  Routerweb is running at {settings.SITE_URL}\n"


def _what_the_database_lacks() -> str:
    """Why nothing would work on this database, and what to do; "" where it has this version's tables. One that cannot be reached now
    may have them. A newer one will do: processes of the version before go on beside it."""
    never = "The database has no tables yet. Create them first"
    try:
        if Stamp._meta.db_table not in connection.introspection.table_names():
            return never
        executor = MigrationExecutor(connection)
        plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    except OperationalError:
        return never if connection.vendor == "sqlite" else ""  # its folder is not there
    finally:
        connections.close_all()
    if not plan:
        return ""
    first, more = plan[0][0], len(plan) - 1
    others = f" and {more} more" if more else ""
    return f"The database is of an earlier version: it lacks {first.app_label}.{first.name}{others}. Migrate it first"


def _log() -> Path:
    return Path(settings.DATA_DIR) / "demo.log"


def _run(*words: str) -> int:
    """Run a command of manage.py in this process; its status, once it has said what went wrong."""
    try:
        command_line.main(words)
    except SystemExit as ended:
        if isinstance(ended.code, str):
            sys.stderr.write(f"{ended.code}\n")
        return ended.code if isinstance(ended.code, int) else 1
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def _runs(pid: int) -> bool:
    """Whether a process is there; one that has ended is until the keeper has looked, a third of a second later."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
