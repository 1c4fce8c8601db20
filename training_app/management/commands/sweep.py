"""Launch a sweep over settings and seeds."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from agents_app.audit import Actor
from agents_app.management.console import refusing
from datasets_app.management.console import pool_of
from training_app.management.commands.train import read_config, read_pairs
from training_app.training import runs, sweeps


class Command(BaseCommand):
    help = (
        "Launch a run for each combination of settings and seeds, for the workers to train; its page ranks them by validation. "
        "Example: python manage.py sweep --pool support --vary gamma=0.9,1.0 --vary learning_rate=0.001,0.003 --seeds 2"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", required=True, help="the pool's slug")
        parser.add_argument(
            "--vary",
            metavar="KEY=A,B,C",
            action="append",
            default=[],
            help="a setting's values, or with --random a range low..high; may be given many times",
        )
        parser.add_argument(
            "--random", metavar="N", type=int, default=0, help="draw so many points instead of taking all"
        )
        parser.add_argument("--seeds", metavar="N", type=int, default=1, help="seeds of each point")
        parser.add_argument("--config", metavar="FILE.yaml", help="settings of every run")
        parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="one setting of every run")

    @refusing(sweeps.SweepError, runs.RunError)
    def handle(self, *args: Any, **options: Any) -> None:
        pool = pool_of(options["pool"])
        base = {**read_config(options.get("config")), **read_pairs(options["set"])}
        sweep = sweeps.launch(
            pool,
            base=base,
            space=sweeps.read_space("\n".join(options["vary"])),
            method="random" if options["random"] else "grid",
            count=options["random"],
            seeds=options["seeds"],
            author=Actor("sweep"),
        )
        count = sweep.runs.count()
        self.stdout.write(
            f"Sweep {sweep.pk}: {count} runs are queued on snapshot {sweep.snapshot}, {sweep.snapshot.rows:,} queries."
        )
