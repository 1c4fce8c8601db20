"""`rotate_api_key KEY --grace 24h`: a new secret for a key, printed once."""

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import Q
from django.utils import timezone

from agents_app import keys
from agents_app.audit import Actor
from agents_app.management.console import refusing
from agents_app.models import ApiKey


class Command(BaseCommand):
    help = (
        "Give an API key a new secret and print it: once, for it is not kept. The old one goes on for a while. "
        "Example: python manage.py rotate_api_key webshop --grace 24h"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("key", help="the key's name, or how its secret begins (rw_abcde)")
        parser.add_argument(
            "--grace", choices=list(keys.GRACES), default="24h", help="how long the old secret goes on (default: 24h)"
        )
        parser.add_argument(
            "--days", type=int, metavar="N", help="the key expires after N days (default: as it stands)"
        )

    @refusing(keys.KeyRefused)
    def handle(self, *args: Any, **options: Any) -> None:
        name = options["key"]
        # A secret that is given whole would stand in the shell's history; its beginning is enough.
        matches = list(ApiKey.objects.live().filter(Q(name=name) | Q(prefix=name[: ApiKey.SHOWN]))[:5])
        if len(matches) != 1:
            several = ", ".join(map(str, matches))
            raise CommandError(
                f"{name!r} is several keys: {several}. Say how its secret begins."
                if matches
                else f"there is no key {name!r} that works. Its name, or how its secret begins, is on the page API keys."
            )
        days = options["days"]
        if days is not None and not 1 <= days <= 36_500:
            raise CommandError("--days must be from 1 to 36500.")
        expires = timezone.now() + timedelta(days=days) if days else None
        secret = keys.rotate(matches[0], Actor("rotate_api_key"), grace=options["grace"], expires_at=expires)
        key = matches[0]
        until = f"the old one ends {key.old_until:%Y-%m-%d %H:%M %Z}" if key.old_until else "the old one has ended"
        # The secret alone goes to standard output, so that a script can keep it.
        self.stderr.write(f"{key.name}: {until}. Keep the new secret; it is not shown again.")
        self.stdout.write(secret)
