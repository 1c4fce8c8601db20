"""Give queries a split where they have none."""

from argparse import BooleanOptionalAction
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents_app.management.console import refusing
from datasets_app.files import exports
from datasets_app.management.console import pool_of
from datasets_app.models import Query
from datasets_app.queries import splits


def ratios(value: str) -> tuple[float, ...]:
    """ "70/15/15" or "0.7,0.15,0.15" as three shares; ValueError where it is no such thing."""
    parts = [float(part) for part in value.replace("/", ",").replace(":", ",").split(",")]
    if len(parts) != 3 or min(parts) < 0 or not 0 < sum(parts) < float("inf"):
        raise ValueError
    return tuple(parts)


class Command(BaseCommand):
    help = (
        "Give every labeled query without a split one, stratified by set size. Queries that read the same but for case, "
        "punctuation and space share a split; one that was given, or came with an import, never changes. "
        "Example: python manage.py dataset_split --pool support --ratios 70/15/15 --seed 0"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", required=True, help="the pool's slug")
        parser.add_argument("--ratios", default="70/15/15", help="train/val/test, in any unit (default: 70/15/15)")
        parser.add_argument(
            "--divide-training",
            action="store_true",
            help="split again what came as training queries, in a pool without validation queries that no run has used",
        )
        parser.add_argument(
            "--output", metavar="DIR", help="also write the folder: agents.jsonl, train.jsonl, val.jsonl, test.jsonl"
        )
        parser.add_argument(
            "--include-llm",
            action=BooleanOptionalAction,
            help="also split queries that only an LLM has labeled (default: only where people have labeled too little to learn from)",
        )
        parser.add_argument("--seed", type=int, default=0, help="another seed, another draw (default: 0)")

    @refusing(splits.SplitError)
    def handle(self, *args: Any, **options: Any) -> None:
        pool = pool_of(options["pool"])
        try:
            shares = ratios(options["ratios"])
        except ValueError:
            raise CommandError(
                f"--ratios: {options['ratios']!r} is not three shares; write train/val/test, for example 70/15/15"
            ) from None
        if options["divide_training"]:
            counts = splits.divide_training(pool, shares, options["seed"])
        else:
            counts = splits.assign(pool, shares, options["seed"], include_llm=options["include_llm"])
        summary = ", ".join(f"{split} {count:,}" for split, count in counts.items())
        self.stdout.write(f"groups that got a split: {summary}")
        waiting = Query.objects.of(pool).filter(gold__isnull=True, group__split="")
        waiting_count = waiting.count()
        if waiting_count:
            self.stdout.write(f"{waiting_count:,} queries that nobody has labeled get a split with their first label")
        if options["output"]:
            folder = Path(options["output"])
            try:
                exports.unpack(pool, folder)
            except OSError as error:
                raise CommandError(f"{error.filename or folder}: {error.strerror}; choose another --output") from None
            self.stdout.write(f"written to {folder}")
