"""Pre-label a pool's queries with an LLM, in the foreground."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents_app import llm
from agents_app.management.console import refusing
from datasets_app.management.console import bar, dataset_named, pool_of
from datasets_app.models import PrelabelJob
from datasets_app.prelabeling import jobs as prelabel
from datasets_app.prelabeling import run as prelabel_run


class Command(BaseCommand):
    help = (
        "Ask an LLM which agents each query needs; its answers are suggestions for labelers. Any server with POST /chat/completions "
        "will do, with the key of LLM_API_KEY; without --base-url it is the connected LLM, with its own. Without --resume, asks about "
        "the queries without gold that no LLM has labeled. "
        "Ctrl-C pauses; --resume ID goes on without paying twice. "
        "Example: python manage.py label --pool support --base-url https://api.openai.com/v1 --model gpt-4.1-mini --concurrency 4"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", required=True, help="the pool's slug")
        parser.add_argument("--dataset", default="", help="only queries of this dataset")
        parser.add_argument("--base-url", default="", help="the server (default: that of the connected LLM)")
        parser.add_argument("--model", default="", help="the model (default: the connected LLM, or LLM_MODEL)")
        parser.add_argument("--concurrency", type=int, default=4, help="calls at once, 1 to 64 (default: 4)")
        parser.add_argument("--batch-size", type=int, default=1, help="queries in a call, 1 to 50 (default: 1)")
        parser.add_argument("--limit", type=int, default=0, help="at most so many queries (default: all)")
        parser.add_argument("--min-agents", type=int, default=0, help="fewest agents of an answer (default: 0)")
        parser.add_argument("--max-agents", type=int, default=0, help="most agents of an answer (default: no limit)")
        parser.add_argument("--temperature", type=float, default=0.0, help="0 to 2 (default: 0)")
        parser.add_argument(
            "--fallback",
            choices=PrelabelJob.Fallback.values,
            default=PrelabelJob.Fallback.SKIP,
            help="what to suggest where an answer cannot be read, marked as a fallback (default: skip)",
        )
        parser.add_argument("--resume", type=int, metavar="ID", help="resume a job that was paused or failed")

    def handle(self, *args: Any, **options: Any) -> None:
        pool = pool_of(options["pool"])
        if options["resume"]:
            job = PrelabelJob.objects.filter(pk=options["resume"], pool=pool).first()
            if job is None:
                raise CommandError(f"--resume: the pool {pool.slug} has no job {options['resume']}")
            if not prelabel.resume(job, now=False):
                raise CommandError(f"--resume: job {job.pk} is {job.status}, with nothing left to ask")
        else:
            job = self._created(pool, options)
        total = prelabel.counts(job)
        with bar(total["total"], "query", initial=total["done"]) as shown:

            def progress(job: PrelabelJob) -> None:
                shown.update(prelabel.counts(job)["done"] - shown.n)

            done = prelabel_run.run(job.pk, api_key=prelabel_run.environment_key() or None, progress=progress)
        if done is None:
            raise CommandError(f"job {job.pk} is being worked on elsewhere")
        self._tell(done)

    @refusing(prelabel.PrelabelError)
    def _created(self, pool: Any, options: dict[str, Any]) -> PrelabelJob:
        if not 1 <= options["concurrency"] <= 64:
            raise CommandError("--concurrency: from 1 to 64")
        if not 1 <= options["batch_size"] <= 50:
            raise CommandError("--batch-size: from 1 to 50")
        queries = prelabel.unlabeled(pool)
        dataset = dataset_named(pool, options["dataset"])
        if dataset is not None:
            queries = queries.filter(dataset=dataset)
        connection = llm.connection()
        return prelabel.create(
            pool,
            queries,
            base_url=options["base_url"] or connection.base_url,
            model=options["model"] or connection.model,
            limit=options["limit"] or None,
            concurrency=options["concurrency"],
            batch_size=options["batch_size"],
            minimum=options["min_agents"],
            maximum=options["max_agents"],
            temperature=options["temperature"],
            fallback=options["fallback"],
        )

    def _tell(self, job: PrelabelJob) -> None:
        counted = prelabel.counts(job)
        words = ", ".join(
            f"{counted[state]:,} {state}" for state in ("answered", "cached", "fallback", "failed", "waiting")
        )
        self.stdout.write(
            f"job {job.pk} {job.status}: {words}; {job.calls:,} calls, {job.tokens_in:,} + {job.tokens_out:,} tokens"
        )
        if job.status == PrelabelJob.Status.FAILED:
            raise CommandError(f"{job.error} (resume with --resume {job.pk})")
        if counted["waiting"]:
            if job.error:
                self.stdout.write(job.error)
            self.stdout.write(f"paused; resume with --resume {job.pk}")
