"""`create_api_key NAME --pool POOL --scope SCOPE`: a key for the API, printed once."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from agents_app import keys
from agents_app.audit import Actor
from agents_app.management.console import refusing
from agents_app.models import ApiKey, Pool


class Command(BaseCommand):
    help = (
        "Make an API key and print its secret: once, for it is not kept. "
        "Example: python manage.py create_api_key webshop --pool support --scope route"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the application that will use the key")
        parser.add_argument(
            "--pool", action="append", required=True, metavar="SLUG", help="a pool that it opens; may be given again"
        )
        parser.add_argument(
            "--scope",
            action="append",
            choices=ApiKey.Scope.values,
            help="what it may do; may be given again (default: route)",
        )
        parser.add_argument(
            "--labels-as", metavar="USER", help="with --scope label: whose labels they are, by user name"
        )
        parser.add_argument("--days", type=int, metavar="N", help="expires after N days (default: never)")

    @refusing(keys.KeyRefused)
    def handle(self, *args: Any, **options: Any) -> None:
        pools = {pool.slug: pool for pool in Pool.objects.filter(slug__in=options["pool"])}
        for slug in options["pool"]:
            if slug not in pools:
                slugs = ", ".join(Pool.objects.values_list("slug", flat=True)[:20]) or "none yet"
                raise CommandError(f"there is no pool {slug!r}. Pools: {slugs}.")
        expires = None
        if options["days"] is not None:
            if not 1 <= options["days"] <= 36_500:
                raise CommandError("--days must be from 1 to 36500.")
            expires = timezone.now() + timedelta(days=options["days"])
        labels_as = None
        if options["labels_as"]:
            labels_as = User.objects.filter(username=options["labels_as"]).first()
            if labels_as is None:
                raise CommandError(f"there is no user {options['labels_as']!r}.")
        key, secret = keys.create_key(
            options["name"],
            list(pools.values()),
            options["scope"] or [ApiKey.Scope.ROUTE.value],
            Actor("create_api_key"),
            expires_at=expires,
            labels_as=labels_as,
        )
        # The secret alone goes to standard output, so that a script can keep it: KEY=$(manage.py create_api_key ...)
        self.stderr.write(
            f"{key.name}: {', '.join(key.scopes)} in {', '.join(pools)}. "
            "Keep it; it is not shown again. It works within two seconds."
        )
        self.stdout.write(secret)
