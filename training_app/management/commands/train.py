"""Train a router on a pool's gold labels."""

import signal
import sys
import time
from argparse import BooleanOptionalAction
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import yaml
from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from agents_app.audit import Actor
from agents_app.management.console import refusing
from agents_app.models import Pool
from datasets_app.files import ddqn_router
from datasets_app.management.console import pool_of
from training_app.engine.config import ConfigError
from training_app.models import SET_ROUTER, RouterModel, Run
from training_app.training import runs, tasks
from training_app.versions import kinds, scorecards, verdict

if TYPE_CHECKING:
    from training_app.engine.progress import Progress


class Command(BaseCommand):
    help = (
        "Train a router on a pool's gold labels, here, with a progress bar; with --queue, in a worker. "
        "Example: python manage.py train --pool support --set total_steps=5000 --promote"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", required=True, help="the pool's slug")
        parser.add_argument(
            "--config", metavar="FILE.yaml", help="settings of the run; docs/run-settings.md lists them"
        )
        parser.add_argument(
            "--set", metavar="KEY=VALUE", action="append", default=[], help="one setting; may be given many times"
        )
        parser.add_argument(
            "--kind", default=SET_ROUTER, choices=sorted(kinds.every()), help="kind of version to train"
        )
        parser.add_argument("--promote", action="store_true", help="make the model the active one when it is there")
        parser.add_argument(
            "--include-llm",
            action=BooleanOptionalAction,
            help="use LLM labels where nobody else has labeled: in training always, in validation and test until people have "
            "labeled enough there (default: only where people have labeled too little to learn from)",
        )
        parser.add_argument(
            "--resume",
            metavar="RUN",
            type=int,
            help="go on here with a run that waits, from its checkpoint where it has one",
        )
        parser.add_argument("--queue", action="store_true", help="hand the run to a worker and return at once")

    @refusing(ConfigError, runs.RunError)
    def handle(self, *args: Any, **options: Any) -> None:
        pool = pool_of(options["pool"])
        config = {**read_config(options.get("config")), **read_pairs(options.get("set") or [])}
        queue = bool(options.get("queue"))
        if options.get("resume") is not None:
            self._resume(pool, options)
            return
        run = runs.launch(
            pool,
            kind=options.get("kind") or SET_ROUTER,
            config=config,
            promote=bool(options.get("promote")),
            author=Actor("train"),
            queue=queue,
            include_llm=options.get("include_llm"),
        )
        if queue:
            self.stdout.write(f"Run {run.pk} is queued: snapshot {run.snapshot}, {run.snapshot.rows:,} queries.")
            return
        self.stdout.write(f"Run {run.pk}: snapshot {run.snapshot}, {run.snapshot.rows:,} queries.")
        self._train(run)

    def _resume(self, pool: Pool, options: dict[str, Any]) -> None:
        """Go on with a run that waits. Its settings stand since it was launched."""
        settings_given = {name: options.get(name) for name in ("config", "set", "promote", "queue")}
        settings_given["include_llm"] = options.get("include_llm") is not None
        if refused := [f"--{name}" for name, value in settings_given.items() if value]:
            refused_options = ", ".join(refused).replace("_", "-")
            raise CommandError(f"--resume goes on with a run as it was launched; leave out {refused_options}")
        run = Run.objects.filter(pool=pool, pk=options["resume"]).select_related("pool", "snapshot__pool").first()
        if run is None:
            raise CommandError(f"{pool.slug} has no run {options['resume']}")
        if run.status != Run.Status.QUEUED:
            raise CommandError(f"run {run.pk} is {run.get_status_display().lower()}; only one that waits can go on")
        self.stdout.write(f"Run {run.pk} goes on: snapshot {run.snapshot}, {run.snapshot.rows:,} queries.")
        self._train(run)

    def _train(self, run: Run) -> None:
        attempt = runs.claim(run.pk)
        if attempt is None:
            raise CommandError(f"run {run.pk} was taken by a worker; its page shows how it goes on")
        bar = Bar()
        # Like Ctrl-C, a plain kill cancels the run instead of leaving it to be found dead.
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            outcome = tasks.work(run.pk, attempt, tell=bar)
        except KeyboardInterrupt:
            runs.cancel(run, actor=Actor("train"))
            raise CommandError(f"run {run.pk} was cancelled") from None
        finally:
            bar.close()
            signal.signal(signal.SIGTERM, before)
        run.refresh_from_db()
        if outcome != "done":
            raise CommandError(run.error or f"run {run.pk} is {run.get_status_display().lower()}")
        model = RouterModel.objects.select_related("pool").get(run=run)
        state = "promoted" if model.state == RouterModel.State.ACTIVE else "a candidate"
        judgement = verdict.of(model)
        self.stdout.write(
            f"{model.name} is {state}. {judgement.sentence() if judgement else scorecards.verdict(model)}"
        )
        if run.promote and model.state != RouterModel.State.ACTIVE:
            last = run.events.order_by("pk").last()
            self.stderr.write(last.message if last else "")


#: Seconds between two lines about the progress of a training where standard error is no terminal.
LINE_SECONDS = 10.0


class Bar:
    """The progress of a training on standard error: on a terminal a bar for each phase that takes longer than two seconds; elsewhere,
    as in a log, a line for each phase and one every ten seconds."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._phase = ""
        self._lines = not sys.stderr.isatty()
        self._said_at = 0.0

    def __call__(self, progress: "Progress") -> None:
        if self._lines:
            self._say(progress)
            return
        if progress.phase != self._phase:
            self.close()
            self._phase = progress.phase
            self._bar = tqdm(total=progress.total or None, desc=progress.phase, disable=None, delay=2, leave=False)
        self._bar.total = progress.total or None
        self._bar.update(progress.step - self._bar.n)

    def _say(self, progress: "Progress") -> None:
        now = time.monotonic()
        if progress.phase == self._phase and now - self._said_at < LINE_SECONDS:
            return
        self._phase, self._said_at = progress.phase, now
        share = f", {progress.step:,} of {progress.total:,}" if progress.total else ""
        sys.stderr.write(f"  {progress.phase}{share}\n")
        sys.stderr.flush()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def read_config(name: str | None) -> Mapping[str, Any]:
    """The settings of a YAML file; CommandError where it cannot be read."""
    if not name:
        return {}
    try:
        content = yaml.safe_load(Path(name).read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"{name}: {error.strerror}") from None
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise CommandError(f"{name} is not YAML: {' '.join(str(error).split())}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise CommandError(f"{name} must hold settings, one `name: value` a line")
    if ddqn_router.is_its_config(content):
        settings, unread = ddqn_router.its_recipe(content)
        sys.stderr.write(
            f"{name} is of ddqn-router: the published recipe is trained with its settings; not read: {', '.join(unread)}.\n"
        )
        return settings
    return content


def read_pairs(pairs: list[str]) -> dict[str, Any]:
    """`key=value` words as settings; the engine reads each value as its setting's type."""
    values: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise CommandError(f"--set {pair}: expected KEY=VALUE, for example --set total_steps=5000")
        values[key.strip()] = value.strip()
    return values


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
