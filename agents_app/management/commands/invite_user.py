"""`invite_user EMAIL --role ROLE`: an account, and the link by which its person sets a password."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from agents_app.access import Role
from agents_app.accounts import people
from agents_app.audit import Actor
from agents_app.management.console import refusing


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

    @refusing(people.PeopleError)
    def handle(self, *args: Any, **options: Any) -> None:
        invitation = people.invite(options["email"], options["role"], Actor("invite_user"))
        if invitation.mailed:
            self.stderr.write(f"A link like it is mailed to {invitation.user.email} by a worker.")
        self.stderr.write("This link sets the password, once:")
        self.stdout.write(invitation.link)
