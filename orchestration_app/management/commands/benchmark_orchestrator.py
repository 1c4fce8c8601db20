"""The orchestrator on one folder of recorded outputs, beside the one-shot set. No database is needed."""

import json
from pathlib import Path
from typing import Any

from django.conf import settings as site
from django.core.management.base import BaseCommand, CommandError, CommandParser
from tqdm import tqdm

from agents_app.management.console import at_file, refusing
from training_app.engine.data.examples import DataError
from training_app.engine.settings import ConfigError
from training_app.management.commands.train import read_config, read_pairs


class Command(BaseCommand):
    help = (
        "Train an orchestrator on DIR/train.jsonl, choose it on val.jsonl, measure it on test.jsonl, beside the set router run once "
        "each. Rows may have a trajectory of agents and outputs. "
        "Example: python manage.py benchmark_orchestrator data/recorded --seeds 3 --json figures.json"
    )
    requires_system_checks = ()
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("directory", metavar="DIR", help="agents.jsonl, train.jsonl, val.jsonl, test.jsonl")
        parser.add_argument("--seeds", type=int, default=1, help="how often it is trained (default: 1)")
        parser.add_argument("--json", metavar="FILE", help="where to write the figures")
        parser.add_argument("--config", metavar="FILE.yaml", help="settings of the orchestrator")
        parser.add_argument(
            "--llm-tasks", type=int, default=0, metavar="N",
            help="have the LLM of LLM_MODEL orchestrate N of the test tasks, at its price (default: none)",
        )  # fmt: skip
        parser.add_argument("--set", metavar="KEY=VALUE", action="append", default=[], help="one setting of it")

    def handle(self, *args: Any, **options: Any) -> None:
        # Imported now: it brings torch, which nobody who asks for --help waits for.
        from orchestration_app.engine.orchestrator_benchmark import BenchmarkError, Conductor, benchmark, table
        from orchestration_app.engine.train_orchestrator import TrainError
        from training_app.engine.judging.llm_baseline import LanguageModel

        settings = {**read_config(options.get("config")), **read_pairs(options.get("set") or [])}
        tasks, llm = options.get("llm_tasks") or 0, None
        if tasks < 0:
            raise CommandError("--llm-tasks must be 0 or more")
        if tasks and site.LLM_MODEL:
            llm = Conductor(LanguageModel(site.LLM_BASE_URL, site.LLM_MODEL, site.LLM_API_KEY), tasks)
        with (
            refusing(BenchmarkError, ConfigError, DataError, TrainError),
            at_file(options["directory"]),
        ):
            with tqdm(unit="step", disable=None, delay=2, leave=False) as steps:

                def report(line: str) -> None:
                    steps.update()
                    steps.set_description(line)

                figures = benchmark(options["directory"], options["seeds"], settings, report, llm)
            if llm is None:
                figures["warnings"].append(
                    "There is no row of a language model: no LLM is configured, name it in LLM_MODEL."
                    if tasks
                    else "There is no row of a language model: --llm-tasks N asks the one of LLM_MODEL."
                )
            if options.get("json"):
                Path(options["json"]).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
        for line in table(figures):
            self.stdout.write(line)
