"""`import_agents ADDRESS… --pool POOL`: agents as cards, tools or a list describe them; what would change, and with --apply done."""

import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents_app import pools, rosters, sealing
from agents_app.audit import Actor
from agents_app.models import AgentSource, Pool
from agents_app.sources import catalog
from agents_app.sources.described import SourceError


class Command(BaseCommand):
    help = (
        "Read agents from A2A agent cards (addresses or files), with --mcp from MCP servers, or from a list (CSV with any separator, "
        "Excel, JSONL, YAML, lines), and show what would change. --new makes the pool first. "
        "Example: python manage.py import_agents teams.csv --pool hotel --new Hotel"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "places", nargs="+", metavar="ADDRESS", help="https://… or a file: cards as JSON, or a list of agents"
        )
        parser.add_argument("--pool", required=True, metavar="SLUG", help="the pool that they belong to")
        parser.add_argument("--new", metavar="NAME", help="make the pool, with this name and the agents of one file")
        parser.add_argument("--mcp", action="store_true", help="the addresses are MCP servers")
        parser.add_argument(
            "--key-env", metavar="NAME", help="the environment variable that holds the MCP server's key"
        )
        parser.add_argument("--apply", action="store_true", help="approve what is offered; without it nothing changes")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["new"]:
            self._make_pool(options["new"], options["pool"], options["places"])
            return
        pool = Pool.objects.filter(slug=options["pool"]).first()
        if pool is None:
            raise CommandError(f"there is no pool {options['pool']!r}; --new NAME makes it.")
        secret = None
        if options["key_env"]:
            secret = os.environ.get(options["key_env"])
            if not secret:
                raise CommandError(f"--key-env: the environment has no {options['key_env']!r}.")
        actor, failed = Actor("import_agents"), 0
        kind = AgentSource.Kind.TOOLS if options["mcp"] else AgentSource.Kind.CARD
        for place in options["places"]:
            try:
                if place.startswith(("https://", "http://")):
                    results = [catalog.look(pool, place, kind, secret=secret, actor=actor)]
                elif Path(place).suffix.lower() != ".json":
                    self._add_listed(pool, Path(place), apply=options["apply"])
                    continue
                else:
                    with Path(place).open("rb") as file:
                        results = catalog.look_in_file(pool, file, actor=actor)
                for source in results:
                    self._show(source)
                    if options["apply"] and source.offered is not None:
                        self.stdout.write(f"  done: {catalog.approve(source, actor=actor)}")
            except (SourceError, pools.PoolError, sealing.CannotOpen, OSError, ValueError) as error:
                failed += 1
                self.stderr.write(f"{place}: {error}")
        if failed:
            raise CommandError(f"{failed} of {len(options['places'])} could not be taken.")
        if not options["apply"]:
            self.stdout.write("Nothing was changed. Approve it on the pool's Agents page, or with --apply.")

    def _make_pool(self, name: str, slug: str, places: list[str]) -> None:
        if len(places) != 1:
            raise CommandError("--new takes one file that lists the agents.")
        try:
            with Path(places[0]).open("rb") as file:
                listed = rosters.read_upload(file)
            pool = rosters.pool_with_agents(name, slug, listed, actor=None)
        except (pools.PoolError, OSError, ValueError) as error:
            raise CommandError(str(error)) from None
        names = ", ".join(pool.agents.order_by("number").values_list("name", flat=True))
        self.stdout.write(f"Made the pool {pool.slug} with {pool.agents.count()} agents: {names}")
        self._tell_unread(listed)

    def _add_listed(self, pool: Pool, place: Path, *, apply: bool) -> None:
        with place.open("rb") as file:
            listed = rosters.read_upload(file)
        examples = {agent.name: len(agent.examples) for agent in listed.agents if agent.examples}
        for name in listed.names:
            self.stdout.write(f"  {name}" + (f" (examples: {examples[name]})" if name in examples else ""))
        self._tell_unread(listed)
        if apply:
            loaded = rosters.add_several(pool, listed, actor=None)
            self.stdout.write(f"  done: {loaded.created} new, {loaded.updated} changed")

    def _tell_unread(self, listed: rosters.Listed) -> None:
        if listed.unread:
            self.stdout.write(f"Not read, as agents have nothing like it: {', '.join(listed.unread)}")

    def _show(self, source: AgentSource) -> None:
        signer = f": {source.signer}" if source.signer else ""
        self.stdout.write(f"{source.address} ({source.get_signature_display()}{signer})")
        changes = catalog.changes(source)
        for change in changes:
            after = change.after.replace("\n", "\n      ")
            self.stdout.write(f"  {change.field}: {change.before or '–'}\n    → {after}")
        if not changes:
            self.stdout.write("  nothing new")
