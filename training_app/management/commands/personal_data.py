"""`personal_data find|export|erase TERM…`: what is stored of somebody, by what they are known by; with --member, of an account."""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.core.management.base import BaseCommand, CommandError

from agents_app.accounts import personal
from agents_app.accounts.people import PeopleError
from agents_app.audit import Actor
from agents_app.management.console import at_file, refusing
from agents_app.signin import account_of
from agents_app.texts import personal_data as stored
from agents_app.texts.matching import PersonalDataError, Terms
from agents_app.texts.personal_data import Place, find

ACTOR = Actor("personal_data")


class Command(BaseCommand):
    help = (
        "Find, give out or erase what is stored of one person: of somebody whose words came in (by address, customer number, "
        "name), or with --member of an account. Example: python manage.py personal_data find ana@example.com K-12345"
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("do", choices=("find", "export", "erase"), help="what to do")
        parser.add_argument("term", nargs="+", help="what they are known by; with --member, the account")
        parser.add_argument("--member", action="store_true", help="it is somebody who signs in here")
        parser.add_argument("--out", type=Path, help="the ZIP file that export writes")
        parser.add_argument("--yes", action="store_true", help="erase without asking")

    @refusing(PersonalDataError, PeopleError)
    def handle(self, *args: Any, **options: Any) -> None:
        if options["do"] == "export" and options["out"] is None:
            raise CommandError("Name the file to write with --out FILE.zip.")
        with at_file(options["out"]):
            (self._of_a_member if options["member"] else self._of_somebody)(**options)

    def _of_a_member(self, do: str, term: list[str], out: Path, yes: bool, **options: Any) -> None:
        user: User | None = account_of(term[0]) if len(term) == 1 else None
        if user is None:
            raise CommandError(f"There is no account {' '.join(term)!r}.")
        if do == "export":
            self._write(out, personal.export(user, ACTOR))
            return
        for _words, name, count in personal.counts(user):
            self.stdout.write(f"{count:>9,}  {name}")
        if do == "erase" and self._sure(yes):
            self.stdout.write(f"Erased: what they said is that of “{personal.erase(user, ACTOR)}” now.")

    def _of_somebody(self, do: str, term: list[str], out: Path, yes: bool, **options: Any) -> None:
        terms = Terms(term)
        if do == "export":
            self._write(out, stored.export(terms, ACTOR))
            return
        places = find(terms)
        self._tell(places)
        if do == "find":
            stored.record_search(terms, places, ACTOR)
        elif any(place.erasable for place in places) and self._sure(yes):
            remaining = stored.erase(terms, ACTOR)
            self.stdout.write("Erased. Existing backups still contain the data.")
            self._tell(remaining)

    def _tell(self, places: list[Place]) -> None:
        for place in places:
            self.stdout.write(f"{len(place.keys):>9,}  {place.title}: {place.what_happens}")
        if not places:
            self.stdout.write("Nothing stored holds it.")

    def _write(self, out: Path, content: bytes) -> None:
        out.touch(mode=0o600)
        out.write_bytes(content)
        self.stdout.write(f"Written to {out}.")

    def _sure(self, yes: bool) -> bool:
        if yes:
            return True
        if not sys.stdin.isatty():
            raise CommandError("Nothing was erased. Say --yes to erase without being asked.")
        return input("Erase it, for ever? Type yes: ").strip().lower() == "yes"
