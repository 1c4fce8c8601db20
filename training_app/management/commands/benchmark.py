"""Every router on one folder of labeled queries: a leaderboard, and the figures as JSON. No database is needed."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from tqdm import tqdm

from agents_app.management.console import at_file, refusing
from training_app.engine.benchmark import DEFAULT, ROUTERS, BenchmarkError, benchmark, curve, leaderboard, sizes_of
from training_app.engine.config import ConfigError
from training_app.engine.data.examples import DataError
from training_app.engine.judging import learning_curve
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
        parser.add_argument("--curve", metavar="N,N", help="a learning curve over these numbers of labels")
        parser.add_argument("--subsets", type=int, default=5, help="random subsets of each size (default: 5)")
        parser.add_argument(
            "--unlabeled", action="store_true", help="in a curve, keep the other training texts, unlabeled"
        )
        parser.add_argument("--plot", metavar="FILE.svg", help="where to draw the learning curve")

    @refusing(BenchmarkError, ConfigError, DataError)
    def handle(self, *args: Any, **options: Any) -> None:
        routers = [name.strip() for name in options["routers"].split(",") if name.strip()]
        settings = {**read_config(options.get("config")), **read_pairs(options.get("set") or [])}
        trainings = len(routers) * max(options["seeds"], 0)
        sizes = sizes_of(options["curve"]) if options.get("curve") else []
        if sizes:
            trainings = len(sizes) * max(options["subsets"], 0)
        steps = tqdm(total=trainings, unit="training", disable=None, delay=2, leave=False)
        begun = 0

        def report(line: str) -> None:
            nonlocal begun
            steps.update(begun)
            begun = 1
            steps.set_description(line)

        with at_file(options["directory"]):
            with steps:
                if sizes:
                    where, subsets = options["directory"], options["subsets"]
                    measured = curve(where, sizes, subsets, routers, settings, options["unlabeled"], report)
                else:
                    measured = benchmark(options["directory"], routers, options["seeds"], settings, report)
            if options.get("json"):
                Path(options["json"]).write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")
            if sizes and options.get("plot"):
                Path(options["plot"]).write_text(learning_curve.svg(measured), encoding="utf-8")
        for line in learning_curve.table(measured) if sizes else leaderboard(measured):
            self.stdout.write(line)
