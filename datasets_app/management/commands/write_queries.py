"""Have the LLM write queries for a pool's agents, in the foreground."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents_app.management.console import refusing
from datasets_app.management.console import bar, pool_of
from datasets_app.models import WritingJob
from datasets_app.prelabeling import writing


class Command(BaseCommand):
    help = (
        "Have the connected LLM write queries for each agent, from its description, keywords and the guidelines. They teach a router "
        "beside the labels and are never counted as labels. Ctrl-C stops; --resume goes on without asking twice. "
        "Example: python manage.py write_queries --pool support --per-agent 8 --language de"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", required=True, help="the pool's slug")
        parser.add_argument(
            "--per-agent", type=int, default=8, help="queries for each agent, in each language (default: 8)"
        )
        parser.add_argument(
            "--joined", type=int, default=0, help="queries for two agents at once, in each language (default: none)"
        )
        parser.add_argument("--nobody", type=int, default=0, help="queries for none of the agents (default: none)")
        parser.add_argument(
            "--language",
            action="append",
            default=[],
            metavar="CODE",
            help="a language, such as de; may be given again (default: those of the pool's queries)",
        )
        parser.add_argument("--estimate", action="store_true", help="say what it would take, and ask nothing")
        parser.add_argument("--resume", action="store_true", help="go on with the pool's last job")

    @refusing(writing.WritingError)
    def handle(self, *args: Any, **options: Any) -> None:
        pool = pool_of(options["pool"])
        if min(options["per_agent"], options["joined"], options["nobody"]) < 0:
            raise CommandError("--per-agent, --joined and --nobody: 0 or more")
        languages = tuple(dict.fromkeys(options["language"])) or tuple(writing.languages_of(pool))
        wish = writing.Wish(options["per_agent"], options["joined"], options["nobody"], languages)
        if options["estimate"]:
            estimate = writing.estimate(pool, wish)
            self.stdout.write(
                f"{estimate.queries:,} queries in {estimate.calls:,} calls, about {estimate.tokens_in:,} + {estimate.tokens_out:,} "
                "tokens" + (f", about {estimate.cost:.2f} {pool.currency}" if estimate.cost else "")
            )
            return
        if options["resume"]:
            job = WritingJob.objects.filter(pool=pool).first()
            if job is None or not writing.resume(job, now=False):
                raise CommandError(f"--resume: the pool {pool.slug} has no job that stopped before its end")
        else:
            job = writing.create(pool, wish)
        with bar(job.calls, "call", initial=job.steps_done) as shown:
            done = writing.run(job.pk, progress=lambda job: shown.update(job.steps_done - shown.n))
        if done is None:
            raise CommandError(f"job {job.pk} is being worked on elsewhere")
        count = done.queries.count()
        self.stdout.write(
            f"job {done.pk} {done.status}: {count:,} queries written; {done.steps_done:,} of {done.calls:,} calls, "
            f"{done.tokens_in:,} + {done.tokens_out:,} tokens"
        )
        for reason, number in done.problems.items():
            self.stdout.write(f"left out: {number:,} {reason}")
        if done.status == WritingJob.Status.FAILED:
            raise CommandError(f"{done.error} (go on with --resume)")
