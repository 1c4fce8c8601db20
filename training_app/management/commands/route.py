"""`route TEXT [--pool] [--explain]`: the set of agents that a query needs, on the command line."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents_app.models import Pool
from training_app import api, explanations, serving
from training_app.explanations import Picture
from training_app.replies import Refused


class Command(BaseCommand):
    help = (
        "Route a query with the pool's active model. Nothing is kept. "
        'Example: python manage.py route "I was charged twice and cannot log in" --pool support --explain'
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("text", help="the query")
        parser.add_argument("--pool", metavar="SLUG", help="the pool; may be left out where there is one")
        parser.add_argument("--explain", action="store_true", help="also print the value of each choice, step by step")

    def handle(self, *args: Any, **options: Any) -> None:
        loaded = serving.load_one(_slug(options["pool"]))
        if loaded.model is None:
            raise CommandError(
                loaded.problem
                or f"{loaded.slug} has no active model yet. Train one: manage.py train --pool {loaded.slug} --promote."
            )
        try:
            text = api.check_text(options["text"], "the text")
        except Refused as refused:
            raise CommandError(str(refused)) from None
        explained = loaded.model.router.explain(text, loaded.available)
        route = explained.route
        drawn = explanations.picture(explained, explanations.columns_of(loaded.model.router.agents, loaded))
        names = ", ".join(agent.name for agent in drawn.route_agents) or "none of these agents"
        doubt = " (a guess: the router abstains)" if route.abstained else ""
        self.stdout.write(f"{names}{doubt}")
        self.stdout.write(
            f"{loaded.model.name}, confidence {route.confidence:.2f}, {route.steps} steps, ended: {route.stop_reason}\n\n"
        )
        width = max(len(agent.name) for agent, _score, _taken in drawn.scores) if drawn.scores else 0
        for agent, score, taken in drawn.scores:
            self.stdout.write(f"  {'*' if taken else ' '} {agent.code:2}  {agent.name:{width}}  {score:.3f}")
        if loaded.not_covered:
            missing = ", ".join(loaded.names[number] for number in loaded.not_covered)
            self.stdout.write(f"\nNot covered by the model yet: {missing}")
        if options["explain"]:
            self._explain(drawn)

    def _explain(self, drawn: Picture) -> None:
        heads = [column.code or str(column.id) for column in drawn.columns] + ["STOP"]
        self.stdout.write("\nValue of each choice, [taken]\n")
        self.stdout.write("  step" + "".join(f"{head:>9}" for head in heads))
        for step in drawn.steps:
            cells = ("·" if cell.value is None else f"{cell.value:.2f}" for cell in step.cells)
            marked = (f"[{text}]" if cell.chosen else text for text, cell in zip(cells, step.cells, strict=True))
            self.stdout.write(f"  {step.number:4}" + "".join(f"{text:>9}" for text in marked))
        self.stdout.write("\nWhat weighed most in the text")
        for agent, words in drawn.words:
            shown = ", ".join(f"{word.text!r} {word.weight:+.2f}" for word in words) or "nothing"
            self.stdout.write(f"  {agent.name}: {shown}")


def _slug(named: str | None) -> str:
    known = list(Pool.objects.order_by("slug").values_list("slug", flat=True)[:20])
    if named is None and len(known) == 1:
        return known[0]
    if named is None:
        raise CommandError(
            f"say which pool: --pool {known[0]}."
            if known
            else "there is no pool yet. manage.py load_pool DIR makes one."
        )
    if not Pool.objects.filter(slug=named).exists():
        raise CommandError(f"there is no pool {named!r}. Pools: {', '.join(known) or 'none yet'}.")
    return named
