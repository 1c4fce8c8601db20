"""Every way to choose a backend on one folder of outcomes: AIQ, and what a share of the best quality costs. No database is needed."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from agents_app.management.console import at_file, refusing
from orchestration_app.engine.backends import benchmark, study_pictures


class Command(BaseCommand):
    help = (
        "Fit on DIR/train.jsonl and val.jsonl which backend succeeds at what cost, and measure every router on test.jsonl. "
        "Example: python manage.py benchmark_backends data/choice --json figures.json"
    )
    requires_system_checks = ()
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("directory", metavar="DIR", help="train.jsonl, val.jsonl, test.jsonl")
        parser.add_argument("--json", metavar="FILE", help="where to write the figures")
        parser.add_argument("--plot", metavar="FILE.svg", help="where to draw cost against quality")
        parser.add_argument("--noise", action="store_true", help="instead: what noise on the estimates costs")
        parser.add_argument("--counts", action="store_true", help="instead: the time of a choice by number of backends")

    @refusing(benchmark.BenchmarkError)
    def handle(self, *args: Any, **options: Any) -> None:
        with at_file(options["directory"]):
            measured, lines = self._measured(options)
            if options["json"]:
                Path(options["json"]).write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")
            if options["plot"] and "points" in measured:
                Path(options["plot"]).write_text(study_pictures.cost_and_quality(measured), encoding="utf-8")
        for line in lines:
            self.stdout.write(line)

    def _measured(self, options: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
        if options["counts"]:
            times = benchmark.decision_times()
            return {"counts": times}, [
                f"{time['backends']:>4} backends: p50 {time['p50']:.1f} µs, p99 {time['p99']:.1f} µs" for time in times
            ]
        if options["noise"]:
            measured = benchmark.noise(options["directory"])
            return {"noise": measured}, [
                f"noise {row['noise']:.1f}: success {row['success']:.3f}, {row['cost'] * 1000:.3f} $ a thousand, "
                f"efficiency {row['efficiency'] / measured[0]['efficiency']:.1%} of that without"
                for row in measured
            ]
        figures = benchmark.benchmark(options["directory"], lambda line: self.stderr.write(line))
        return figures, benchmark.table(figures)
