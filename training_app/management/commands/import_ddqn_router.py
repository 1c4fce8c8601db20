"""Move in from ddqn-router: its agents, queries, labels and splits as a pool, and with --train a router."""

from contextlib import closing
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.text import slugify

from agents_app import pools
from agents_app.audit import Actor
from agents_app.management.console import refusing
from agents_app.models import Pool
from datasets_app.files import ddqn_router
from datasets_app.labeling import queue
from datasets_app.management.console import ImportBar, tell
from training_app.engine.data.examples import DataError


class Command(BaseCommand):
    help = (
        "Make a pool from a folder of ddqn-router: config.yaml, tasks.jsonl, splits, raw texts, cache of labels. Says what was "
        "taken, what means something else here, and what was left. "
        "Example: python manage.py import_ddqn_router ../my-router --train --promote"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "directory", metavar="DIR", help="the folder with its config.yaml, or that file by another name"
        )
        parser.add_argument("--slug", help="the pool's name in URLs and commands (default: made from the folder's)")
        parser.add_argument("--train", action="store_true", help="train a router then")
        parser.add_argument("--promote", action="store_true", help="with --train: let it answer, if it passes the gate")

    def handle(self, *args: Any, **options: Any) -> None:
        place = Path(options["directory"])
        if options["promote"] and not options["train"]:
            raise CommandError("--promote needs --train: a model of ddqn-router cannot answer here")
        folder = (place if place.is_dir() else place.parent).resolve()
        words = folder.name.lstrip("0123456789_- ") or folder.name
        slug = options["slug"] or slugify(words) or "pool"
        if slug != slugify(slug):
            raise CommandError(f"--slug: {slug!r} may hold letters, digits, - and _ only")
        actor = Actor("import_ddqn_router")
        with refusing(ddqn_router.MoveError, DataError, pools.PoolError), closing(ImportBar()) as progress:
            project = ddqn_router.read(place)
            pool = Pool.objects.filter(slug=slug).first()
            if pool is None:
                name = words.replace("_", " ").replace("-", " ").strip() or slug
                pool = pools.create_pool(name[0].upper() + name[1:], slug, actor=actor)
            result = ddqn_router.take(pool, project, progress=progress, actor=actor)
        queue.fill(pool)
        self.stdout.write(f"{pool.name} ({pool.slug})")
        tell(self, result.uploads)
        for line in ddqn_router.report(project, result):
            self.stdout.write(line)
        if options["train"]:
            seed = project.training.get("seed")
            seeded = ["--set", f"seed={seed}"] if seed is not None else []
            call_command(
                "train",
                "--pool",
                pool.slug,
                *seeded,
                *(["--promote"] if options["promote"] else []),
                stdout=self.stdout,
            )
            self.stdout.write(f'Ask it: python manage.py route "your query" --pool {pool.slug}')
