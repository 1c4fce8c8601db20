"""Make what an LLM or a model suggests the labels of queries that nobody has decided."""

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents_app.access import Role, roles_of
from agents_app.models import Pool
from datasets_app.labeling import bulk
from datasets_app.management.console import bar, pool_of
from datasets_app.pages import browse


class Command(BaseCommand):
    help = (
        "Accept suggestions: what an LLM or a model says of queries without gold becomes their label, as the decision of the person "
        "that --by names. Undo it as one on the page Queries. "
        "Example: python manage.py accept_suggestions --pool support --by ana@example.com --search 'refund source:llm'"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--pool", required=True, help="the pool's slug")
        parser.add_argument(
            "--by", required=True, metavar="PERSON", help="whose decision it is: the login of a reviewer or of ops"
        )
        parser.add_argument(
            "--search", default="", help="only queries that this search of the page Queries finds (default: all)"
        )
        parser.add_argument("--dry-run", action="store_true", help="only say how many there are")

    def handle(self, *args: Any, **options: Any) -> None:
        pool = pool_of(options["pool"])
        person = self._person(options["by"], pool)
        queries = browse.search(pool, options["search"])
        if queries.problems:
            raise CommandError("--search: " + " ".join(queries.problems))
        count = bulk.preview(queries.queries, bulk.ACCEPT, None).changes
        if options["dry_run"] or not count:
            self.stdout.write(f"{count:,} queries have suggestions to accept")
            return
        change = bulk.start(pool, queries.queries, bulk.ACCEPT, None, author=person, search=options["search"])
        with bar(change.total, "query") as shown:
            done = bulk.go_on(change, progress=lambda change: shown.update(change.changed - shown.n))
        self.stdout.write(f"{done.changed:,} suggestions accepted by {person.get_username()} (bulk change {done.pk})")

    def _person(self, login: str, pool: Pool) -> User:
        person = get_user_model().objects.filter(username=login, is_active=True).first()
        if person is None:
            raise CommandError(f"--by: nobody signs in as {login!r}")
        if not {Role.REVIEWER, Role.OPS} & set(roles_of(person, pool)):
            raise CommandError(f"--by: {login} is neither a reviewer nor ops in {pool.slug}")
        return person
