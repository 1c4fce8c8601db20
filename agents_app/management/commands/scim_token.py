"""`scim_token NAME`: a token for an identity provider, printed once; rotate or revoke one."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from agents_app.audit import Actor
from agents_app.keys import GRACES
from agents_app.management.console import refusing
from agents_app.models import ScimToken
from agents_app.scim import tokens


class Command(BaseCommand):
    help = (
        "Make a token with which an identity provider keeps people here by SCIM, and print it: once, for it is not kept. "
        "Example: python manage.py scim_token okta"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the identity provider that will send it")
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--rotate", choices=list(GRACES), metavar="GRACE",
            help=f"give the token of that name a new secret; the old one goes on for GRACE: {', '.join(GRACES)}",
        )  # fmt: skip
        what.add_argument("--revoke", action="store_true", help="turn the token of that name off")

    @refusing(tokens.TokenRefused)
    def handle(self, *args: Any, **options: Any) -> None:
        name, actor = options["name"], Actor("scim_token")
        if options["revoke"]:
            tokens.revoke(self._token(name), actor)
            self.stdout.write(f"{name} is revoked.")
            return
        if options["rotate"]:
            secret = tokens.rotate(self._token(name), actor, grace=options["rotate"])
        else:
            if ScimToken.objects.live().filter(name=name).exists():
                raise CommandError(f"there is a token {name!r} already. Rotate it with --rotate 24h.")
            _token, secret = tokens.create(name, actor)
        off = "" if settings.SCIM else " SCIM is off here: set SCIM=1."
        self.stderr.write(
            f"Give it to {name} with the address {settings.SITE_URL}/scim/v2; it is not shown again.{off}"
        )
        self.stdout.write(secret)

    def _token(self, name: str) -> ScimToken:
        token = ScimToken.objects.live().filter(name=name).first()
        if token is None:
            names = ", ".join(ScimToken.objects.live().values_list("name", flat=True)[:20]) or "none"
            raise CommandError(f"there is no token {name!r}. Tokens: {names}.")
        return token
