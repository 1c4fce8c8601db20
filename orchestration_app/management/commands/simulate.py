"""What the simulators of backends say: policies, preferences, load, noise, learners. No database is needed."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents_app.management.console import at_file
from orchestration_app.engine.backends import studies, study_pictures
from orchestration_app.engine.backends.model_pool import Pool

STUDIES = ("policies", "preferences", "hot", "load", "noise", "counts", "gap", "ppo", "collaboration", "estimator")


class Command(BaseCommand):
    help = (
        "Simulate a pool of models with queues, and print what ways of choosing among them are worth. "
        "Example: python manage.py simulate policies --seeds 5 --json figures.json"
    )
    requires_system_checks = ()
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "study", nargs="?", default="policies", choices=STUDIES, help="what is asked (default: policies)"
        )
        parser.add_argument("--noise", action="store_const", const="noise", dest="study_flag", help="the study noise")
        parser.add_argument(
            "--counts", action="store_const", const="counts", dest="study_flag", help="the study counts"
        )
        parser.add_argument("--pool", metavar="FILE.json", help="the pool of models (default: one that is made up)")
        parser.add_argument("--seeds", type=int, help="streams, or learners (default: the study's own)")
        parser.add_argument(
            "--steps", type=int, help="steps that PPO learns: 1,000,000 as published (default: a quick 60,000)"
        )
        parser.add_argument("--json", metavar="FILE", help="where to write the figures")
        parser.add_argument("--plots", metavar="DIR", help="where to draw them, an SVG for each measure")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            pool = Pool.read(options["pool"])
        except OSError as error:
            raise CommandError(f"{options['pool']}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise CommandError(f"{options['pool']}: {type(error).__name__}: {error}") from None
        study = options.get("study_flag") or options["study"]
        results = self._found(study, pool, options["seeds"], options["steps"])
        rows = results if isinstance(results, list) else [results]
        for row in rows:
            self.stdout.write(", ".join(f"{name} {_shown(value)}" for name, value in row.items()))
        with at_file(options["plots"]):
            if options["json"]:
                Path(options["json"]).write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
            if options["plots"]:
                folder = Path(options["plots"])
                folder.mkdir(parents=True, exist_ok=True)
                for name, picture in study_pictures.pictures(study, results).items():
                    (folder / f"{name}.svg").write_text(picture, encoding="utf-8")

    def _found(self, study: str, pool: Pool, seeds: int | None, steps: int | None) -> Any:
        options = {} if seeds is None else {"seeds": max(seeds, 2)}
        if study == "policies":
            return studies.compared(pool, **options)
        if study == "preferences":
            return studies.preferences(pool)
        if study == "hot":
            return studies.hot(pool, **options)
        if study == "load":
            return studies.rising(pool, **options)
        if study == "noise":
            return studies.noise(pool, **options)
        if study == "counts":
            return studies.counts()
        if study == "gap":
            return studies.gaps(**options)
        if study == "estimator":
            return studies.estimated()
        if study == "ppo":
            return studies.ppo_beside(pool, steps or 60_000, **options, tell=lambda line: self.stderr.write(line))
        return studies.collaboration(steps or 20_000, **options)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_shown(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_shown(item) for item in value) + "]"
    return str(value)
