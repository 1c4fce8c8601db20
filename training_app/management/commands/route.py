"""`route TEXT [--pool] [--explain]`: the set of agents that a query needs, on the command line."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents_app.models import Pool
from training_app.answering import answer, explanations, routable, serving
from training_app.answering.answer import Answer
from training_app.answering.explanations import Picture


class Command(BaseCommand):
    help = (
        "Answer a query as the API would, canary and agents without a model included. Nothing is kept, or left to chance. "
        'Example: python manage.py route "I was charged twice and cannot log in" --pool support --explain'
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("text", help="the query")
        parser.add_argument("--pool", metavar="SLUG", help="the pool; may be left out where there is one")
        parser.add_argument(
            "--sticky-key", metavar="KEY", default="", help="the user or conversation, which decides who meets a canary"
        )
        parser.add_argument("--explain", action="store_true", help="also print the value of each choice, step by step")

    def handle(self, *args: Any, **options: Any) -> None:
        loaded = serving.load_one(_slug(options["pool"]))
        try:
            routable.check_text(options["text"])
            answered = answer.answer(loaded, options["text"], sticky=options["sticky_key"], explain=True, explore=False)
        except routable.Unroutable as problem:
            raise CommandError(f"the text {problem}.") from None
        except answer.NoModel as problem:
            raise CommandError(str(problem)) from None
        assert answered.explanation is not None, "it was asked for"
        drawn = explanations.picture(
            answered.explanation, explanations.columns_of(answered.model.router.agents, answered.pool)
        )
        self._answer(answered, drawn)
        if options["explain"]:
            self._explain(drawn)

    def _answer(self, answered: Answer, drawn: Picture) -> None:
        route, pool = answered.route, answered.pool
        names = ", ".join(pool.names[number] for number in route.agents) or "none of these agents"
        doubt = " (a guess: the router abstains)" if route.abstained else ""
        canary = " (canary)" if pool.live is not None and pool.live.is_canary else ""
        self.stdout.write(f"{names}{doubt}")
        self.stdout.write(
            f"{answered.model.name}{canary}, confidence {route.confidence:.2f}, {route.steps} steps, ended: {route.stop_reason}\n\n"
        )
        width = max((len(agent.name) for agent, _score, _taken in drawn.scores), default=0)
        for agent, score, chosen in drawn.scores:
            self.stdout.write(f"  {'*' if chosen else ' '} {agent.code:2}  {agent.name:{width}}  {score:.3f}")
        cold = answered.cold.cold if answered.cold is not None else {}
        if cold:
            self.stdout.write("\nBy its description, as the model has not learnt it yet")
        for number, likeness in cold.items():
            self.stdout.write(
                f"  {'*' if number in answered.cold_taken else ' '}     {pool.names[number]:{width}}  {likeness:.3f}"
            )
        missing = [pool.names[number] for number in pool.not_covered if number not in cold]
        if missing:
            self.stdout.write(f"\nNot covered by the model yet: {', '.join(missing)}")

    def _explain(self, drawn: Picture) -> None:
        heads = [column.code or str(column.id) for column in drawn.columns] + ["STOP"]
        self.stdout.write(f"\nDecided by {drawn.rule}: value of each choice, [taken]\n")
        self.stdout.write("  step" + "".join(f"{head:>9}" for head in heads))
        for step in drawn.steps:
            cells = ("·" if cell.value is None else f"{cell.value:.2f}" for cell in step.cells)
            marked = (f"[{text}]" if cell.chosen else text for text, cell in zip(cells, step.cells, strict=True))
            self.stdout.write(f"  {step.number:4}" + "".join(f"{text:>9}" for text in marked))
        self.stdout.write("\nWhat mattered most in the text")
        for agent, words in drawn.words:
            shown = ", ".join(f"{word.text!r} {word.weight:+.2f}" for word in words) or "nothing"
            self.stdout.write(f"  {agent.name}: {shown}")


def _slug(named: str | None) -> str:
    slugs = list(Pool.objects.order_by("slug").values_list("slug", flat=True)[:20])
    if named is None and len(slugs) == 1:
        return slugs[0]
    if named is None:
        raise CommandError(
            f"say which pool: --pool {slugs[0]}."
            if slugs
            else "there is no pool yet. manage.py load_pool DIR makes one."
        )
    if not Pool.objects.filter(slug=named).exists():
        raise CommandError(f"there is no pool {named!r}. Pools: {', '.join(slugs) or 'none yet'}.")
    return named
