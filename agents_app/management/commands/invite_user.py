"""`invite_user EMAIL --role ROLE [--pool SLUG]`: an account, and the link by which its person sets a password."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents_app.access import Role
from agents_app.accounts import people
from agents_app.audit import Actor
from agents_app.management.console import refusing
from agents_app.models import Pool


class Command(BaseCommand):
    help = (
        "Invite a person: make an account and print the link that sets its password (it is mailed too where EMAIL_HOST is "
        "set). Example: python manage.py invite_user ana@example.com --role reviewer"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("email", help="the person's e-mail address; they sign in with it")
        parser.add_argument(
            "--role", choices=[role.value for role in Role], default=Role.LABELER.value, help="default: labeler"
        )
        parser.add_argument("--pool", metavar="SLUG", help="the only pool that the role is for; default: all pools")

    @refusing(people.PeopleError)
    def handle(self, *args: Any, **options: Any) -> None:
        pool = None
        if (slug := options["pool"]) and (pool := Pool.objects.in_use().filter(slug=slug).first()) is None:
            raise CommandError(f"There is no pool {slug!r}.")
        invitation = people.invite(options["email"], options["role"], Actor("invite_user"), pool=pool)
        if invitation.mailed:
            self.stderr.write(f"A link like it is mailed to {invitation.user.email} by a worker.")
        self.stderr.write("This link sets the password, once:")
        self.stdout.write(invitation.link)
