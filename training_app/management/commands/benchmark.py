"""Every router on one folder of labeled queries: a leaderboard, and the figures as JSON. No database is needed."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from training_app.engine.benchmark import DEFAULT, ROUTERS, BenchmarkError, benchmark, leaderboard
from training_app.engine.config import ConfigError
from training_app.engine.data import DataError
from training_app.management.commands.train import read_config, read_pairs


class Command(BaseCommand):
    help = (
        "Train every router on DIR/train.jsonl, tune it on val.jsonl, measure it on test.jsonl; print a leaderboard. "
        "Example: python manage.py benchmark data/support --routers ddqn,svm --seeds 3 --json figures.json"
    )
    requires_system_checks = ()
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("directory", metavar="DIR", help="agents.jsonl, train.jsonl, val.jsonl, test.jsonl")
        parser.add_argument("--routers", default=",".join(DEFAULT), help=f"comma between, of: {', '.join(ROUTERS)}")
        parser.add_argument("--seeds", type=int, default=1, help="how often each router is trained (default: 1)")
        parser.add_argument("--json", metavar="FILE", help="where to write the figures")
        parser.add_argument("--config", metavar="FILE.yaml", help="settings of the router ddqn")
        parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="one setting of it")

    def handle(self, *args: Any, **options: Any) -> None:
        routers = [name.strip() for name in options["routers"].split(",") if name.strip()]
        settings = {**read_config(options.get("config")), **read_pairs(options.get("set") or [])}
        steps = tqdm(total=len(routers) * max(options["seeds"], 0), unit="training", disable=None, delay=2, leave=False)
        begun = 0

        def report(line: str) -> None:
            nonlocal begun
            steps.update(begun)
            begun = 1
            steps.set_description(line)

        try:
            with steps:
                found = benchmark(options["directory"], routers, options["seeds"], settings, report)
            if options.get("json"):
                Path(options["json"]).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
        except (BenchmarkError, ConfigError, DataError) as error:
            raise CommandError(str(error)) from None
        except OSError as error:
            raise CommandError(f"{error.filename or options['directory']}: {error.strerror}") from None
        for line in leaderboard(found):
            self.stdout.write(line)
