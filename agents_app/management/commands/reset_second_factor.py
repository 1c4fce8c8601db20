"""`reset_second_factor PERSON`: for who lost the device and the codes, where no admin can reach the page that does it."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from agents_app.accounts import second_factor
from agents_app.audit import Actor
from agents_app.signin import account_of


class Command(BaseCommand):
    help = (
        "Take away somebody's second factor and end their sessions, so that the password alone signs them in. "
        "Example: python manage.py reset_second_factor ana@example.com"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("person", help="the person's e-mail address or account name")

    def handle(self, *args: Any, **options: Any) -> None:
        user = account_of(options["person"])
        if user is None:
            raise CommandError(f"There is no account {options['person']!r}.")
        if not second_factor.reset(user, Actor("reset_second_factor")):
            raise CommandError(f"{user.get_username()} has no second factor.")
        self.stdout.write(f"{user.get_username()} signs in by password alone now, and is signed out everywhere.")
