"""Look for agents that a pool lacks, and for those that overlap."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from datasets_app.management.console import pool_of
from training_app.models import AgentProposal
from training_app.watching import proposals


class Command(BaseCommand):
    help = (
        "Look for agents that the pool's traffic lacks, pairs that are confused, and agents that nobody asks for, and list what is "
        "proposed. Example: python manage.py propose_agents --pool support"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", required=True, help="the pool's slug")

    def handle(self, *args: Any, **options: Any) -> None:
        pool = pool_of(options["pool"])
        if not proposals.look(pool):
            self.stdout.write(f"Nothing to propose for {pool.slug}.")
        names = dict(pool.agents.values_list("number", "name"))
        for proposal in AgentProposal.objects.filter(pool=pool, state=AgentProposal.State.OPEN):
            about = proposal.name or ", ".join(names.get(number, str(number)) for number in proposal.agents)
            # Who accepts a missing agent names it, where no LLM has.
            what = (
                f"{proposal.get_kind_display()}: {about}" if about else f"{proposal.get_kind_display()}, not named yet"
            )
            self.stdout.write(f"{what} ({proposal.figures.get('count', 0)} queries)")
            for text in proposals.example_queries(proposal, 3):
                self.stdout.write(f"    {' '.join(str(text).split())[:100]}")
