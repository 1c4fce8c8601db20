"""Make a pool from a folder: its agents, its labeled queries with their splits, its guidelines."""

from contextlib import closing
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.text import slugify

from agents_app import pools
from agents_app.audit import Actor
from agents_app.management.console import at_file
from agents_app.models import Pool
from datasets_app.files import imports
from datasets_app.labeling import queue
from datasets_app.management.console import ImportBar, tell
from datasets_app.queries import adding
from training_app.engine.data.examples import DataError
from training_app.engine.data.folders import read_agents


class Command(BaseCommand):
    help = (
        "Make a pool from a folder that holds agents.jsonl and, where there are any, train.jsonl, val.jsonl, test.jsonl and "
        "guidelines.md. A second time it adds what is new and changes nothing else. "
        "Example: python manage.py load_pool data/support --slug support --name 'Customer support'"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("directory", metavar="DIR", help="the folder")
        parser.add_argument("--slug", help="the pool's name in URLs and commands (default: made from the name)")
        parser.add_argument("--name", help="the pool's name on screen, for a new pool (default: the folder's name)")
        parser.add_argument("--dataset", default="", help="the dataset for the queries (default: the pool's first)")

    def handle(self, *args: Any, **options: Any) -> None:
        directory = Path(options["directory"])
        if not directory.is_dir():
            raise CommandError(f"{directory} is not a folder")
        words = directory.resolve().name.replace("_", " ").replace("-", " ").strip() or "pool"
        slug = options["slug"] or slugify(options["name"] or words) or slugify(words) or "pool"
        if slug != slugify(slug, allow_unicode=False) and not slug.replace("_", "").isalnum():
            raise CommandError(f"--slug: {slug!r} may hold letters, digits, - and _ only")
        try:
            agents = read_agents(directory / "agents.jsonl")
            pool = Pool.objects.filter(slug=slug).first()
            if pool is None:
                name = options["name"] or words[0].upper() + words[1:]
                pool = pools.create_pool(name, slug, actor=Actor("load_pool"))
            loaded = pools.load_agents(pool, agents, Actor("load_pool"))
        except (DataError, pools.PoolError) as error:
            raise CommandError(f"{directory}: {error}") from None
        self.stdout.write(
            f"{pool.name} ({pool.slug}): {loaded.created} agents added, {loaded.updated} changed, "
            f"{loaded.unchanged} unchanged"
        )

        guidelines = directory / "guidelines.md"
        if guidelines.is_file() and not pool.guidelines:
            try:
                pools.set_guidelines(pool, guidelines.read_text(encoding="utf-8-sig"), actor=None)
            except UnicodeDecodeError:
                raise CommandError(f"{guidelines} is not UTF-8") from None
            self.stdout.write("guidelines.md: loaded")

        if not any((directory / f"{name}.jsonl").is_file() for name in ("train", "val", "test", "unassigned")):
            return
        with at_file(directory), closing(ImportBar()) as progress:
            dataset = adding.dataset_of(pool, options["dataset"])
            uploads = imports.load_folder(
                pool, directory, dataset=dataset, author=Actor("load_pool"), progress=progress
            )
        queue.fill(pool)
        tell(self, uploads)
        if (directory / "train.jsonl").is_file() and not (directory / "val.jsonl").is_file():
            self.stdout.write(
                "There is no val.jsonl, and a run needs validation queries. To set some of the training queries aside: "
                f"python manage.py dataset_split --pool {pool.slug} --divide-training"
            )
